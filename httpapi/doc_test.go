package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/httpapi"
)

// documentation returns the two parts of doc.go: on the API of users, and on that of operators.
func documentation(t *testing.T) (public, admin string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	public, admin, found := strings.Cut(string(text), "\n// # Administration\n")
	require.True(t, found)
	return public, admin
}

// Clients are written from the documentation, so it must be complete.
func TestTheDocumentationListsEveryRoute(t *testing.T) {
	t.Parallel()
	api, admin := documentation(t)
	s := open(t)
	for doc, handler := range map[string]http.Handler{api: s.handler, admin: s.admin} {
		documented := make(map[string][]string)
		for _, line := range regexp.MustCompile(`(?m)^//\t([A-Z]+) +(/\S+)`).FindAllStringSubmatch(doc, -1) {
			documented[line[2]] = append(documented[line[2]], line[1])
		}

		require.Equal(t, httpapi.Routes(handler), documented)
	}
}

// Paths answer wrong methods with those that they know.
func TestWrongMethodsAreAnsweredWithTheRightOnes(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, to := range []*site{s, s.administration()} {
		for path, methods := range httpapi.Routes(to.handler) {
			a := to.send("OPTIONS", strings.NewReplacer("{id}", stranger, "{lane}", "BIRTHDAY").Replace(path), "")

			to.problem(a, http.StatusMethodNotAllowed)
			allowed := slices.DeleteFunc(strings.Split(a.header.Get("Allow"), ", "), func(method string) bool { return method == "HEAD" })
			require.Equal(t, methods, allowed, path)
		}
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

// fields are those of a JSON object, by a schema or a reference to one.
type fields struct {
	Ref        string `json:"$ref"`
	Properties map[string]any
}

// The fields of an answer are those of the OpenAPI document, which other tests compare with answers.
func TestTheDocumentationListsEveryFieldOfAnAnswer(t *testing.T) {
	t.Parallel()
	public, admin := documentation(t)
	for file, doc := range map[string]string{"api": public, "admin": admin} {
		var api struct {
			Paths map[string]map[string]struct {
				Responses map[string]struct {
					Content map[string]struct{ Schema fields }
				}
			}
			Components struct{ Schemas map[string]fields }
		}
		content, err := os.ReadFile("openapi/" + file + ".json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(content, &api))
		lines := regexp.MustCompile(`(?m)^//\t([A-Z]+) +(/\S+) .*(?:\n//\t +)?→ (20\d) \{(.+)\}`).FindAllStringSubmatch(doc, -1)
		require.NotEmpty(t, lines)
		for _, line := range lines {
			answer := api.Paths[line[2]][strings.ToLower(line[1])].Responses[line[3]].Content["application/json"].Schema
			if answer.Ref != "" {
				answer = api.Components.Schemas[answer.Ref[strings.LastIndex(answer.Ref, "/")+1:]]
			}
			require.ElementsMatch(t, slices.Collect(maps.Keys(answer.Properties)), strings.Split(line[4], ", "), line[0])
		}
	}
}
