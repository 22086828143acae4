package httpapi_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/httpapi"
)

// Clients are written from the documentation, so it must be complete.
func TestTheDocumentationListsEveryRoute(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	documented := make(map[string][]string)
	for _, line := range regexp.MustCompile(`(?m)^//\t([A-Z]+) +(/\S+)`).FindAllStringSubmatch(string(doc), -1) {
		documented[line[2]] = append(documented[line[2]], line[1])
	}
	require.Contains(t, documented, "/user/{id}")
	s := open(t)
	for path, methods := range documented {
		allowed := strings.Split(s.send("OPTIONS", strings.ReplaceAll(path, "{id}", stranger), "").header.Get("Allow"), ", ")
		allowed = slices.DeleteFunc(allowed, func(method string) bool { return method == "HEAD" })

		require.Equal(t, methods, allowed, path)
	}
}

func TestTheTypesOfProblemsLinkToTheirSection(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	s := open(t)
	s.send("POST", "/user", grace, key)
	for _, a := range []answer{
		s.send("POST", "/user", "{}"),
		s.send("POST", "/user", with(`"firstName":"Other"`), key),
		openOn(t, failing{newRepository(), driverError{"55P03"}}, httpapi.NoAuthentication{}).send("DELETE", "/user/"+stranger, ""),
	} {
		page, anchor, _ := strings.Cut(s.object(a)["type"].(string), "#hdr-")

		require.Equal(t, "https://pkg.go.dev/github.com/almanac-go/almanac/httpapi", page)
		require.Contains(t, string(doc), "\n// # "+strings.ReplaceAll(anchor, "_", " ")+"\n")
	}
}
