package httpapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/httpapi"
)

// description is the part of an OpenAPI document that these tests read.
type description struct {
	OpenAPI    string
	Paths      map[string]map[string]struct{ OperationID string }
	Components map[string]map[string]any
}

// described returns the document of an API, as it serves it.
func described(t *testing.T, s *site) description {
	t.Helper()
	a := s.send("GET", "/openapi.json", "")
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	var d description
	require.NoError(t, json.Unmarshal([]byte(a.body), &d))
	require.Equal(t, "3.1.1", d.OpenAPI)
	return d
}

func TestTheDocumentsHaveEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, of := range []*site{s, s.administration()} {
		routes, documented, names := httpapi.Routes(of.handler), make(map[string][]string), make(map[string]bool)
		for path, operations := range described(t, of).Paths {
			for method, operation := range operations {
				documented[path] = append(documented[path], strings.ToUpper(method))
				require.False(t, names[operation.OperationID], "%q is the id of two operations", operation.OperationID)
				names[operation.OperationID] = true
			}
			slices.Sort(documented[path])
			slices.Sort(routes[path])
		}

		require.Equal(t, routes, documented)
	}
}

// Clients that use both APIs have one type for a thing that both describe.
func TestTheDocumentsDescribeTheSameThingsAlike(t *testing.T) {
	t.Parallel()
	s := open(t)
	api, admin := described(t, s).Components, described(t, s.administration()).Components
	same := 0
	for kind, components := range api {
		for name, component := range components {
			if other, ok := admin[kind][name]; ok {
				require.Equal(t, component, other, "%s", fmt.Sprint(kind, " ", name))
				same++
			}
		}
	}
	require.Greater(t, same, 30)
}
