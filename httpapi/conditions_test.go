package httpapi_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/httpapi"
)

func TestAnswersCarryTheVersionAsETag(t *testing.T) {
	t.Parallel()
	s := open(t)

	a := s.send("POST", "/user", grace)
	require.Equal(t, []string{`"1"`}, a.header["Etag"])
	path := a.header.Get("Location")
	require.Equal(t, []string{`"2"`}, s.send("PUT", path, `{"firstName":"A"}`).header["Etag"])
	require.Equal(t, []string{`"3"`}, s.patch(path, `{"firstName":"B"}`).header["Etag"])
	require.Equal(t, []string{`"3"`}, s.send("PUT", path, `{}`).header["Etag"])
	require.Equal(t, []string{`"3"`}, s.send("GET", path, "").header["Etag"])
	require.Equal(t, []string{`"3"`}, s.send("HEAD", path, "").header["Etag"])
	require.NotContains(t, s.send("GET", path+"/events", "").header, "Etag")
}

// patch sends a merge patch.
func (s *site) patch(target, body string, header ...string) answer {
	s.t.Helper()
	return s.send("PATCH", target, body, append(header, "Content-Type: application/merge-patch+json")...)
}

func TestPreconditionsDecideWhetherARequestIsDone(t *testing.T) {
	t.Parallel()
	const match, none = "If-Match: ", "If-None-Match: "
	tests := map[string]struct {
		header []string // for a user at version 2
		holds  bool
		same   bool // whether a read gets 304
	}{
		"no condition":                        {nil, true, false},
		"the version":                         {[]string{match + `"2"`}, true, false},
		"an older version":                    {[]string{match + `"1"`}, false, false},
		"a version to come":                   {[]string{match + `"3"`}, false, false},
		"any version":                         {[]string{match + ` *`}, true, false},
		"a weak tag, which is never the same": {[]string{match + `W/"2"`}, false, false},
		"one of a list":                       {[]string{match + `"1", W/"7" ,"2"`}, true, false},
		"none of a list":                      {[]string{match + `"1","3"`}, false, false},
		"one of two lines":                    {[]string{match + `"1"`, match + `"2"`}, true, false},
		"a list with gaps":                    {[]string{match + `, "1",, "2",`}, true, false},
		"a list of nothing":                   {[]string{match + ``}, false, false},
		"a tag that holds a list":             {[]string{match + `"1,2"`}, false, false},
		"a tag within a tag's neighbour":      {[]string{match + `"a,", "b,W/","c"`}, false, false},
		"a tag of other bytes":                {[]string{match + "\"\xe9\xff\""}, false, false},
		"the same number, otherwise written":  {[]string{match + `"02"`}, false, false},
		"not the version":                     {[]string{none + `"2"`}, false, true},
		"not the version, weakly":             {[]string{none + `"1", W/"2"`}, false, true},
		"not another version":                 {[]string{none + `"1"`}, true, false},
		"no user may exist":                   {[]string{none + `*`}, false, true},
		"both":                                {[]string{match + `"2"`, none + `"1"`}, true, false},
		"both, and the second not":            {[]string{match + `*`, none + `"2"`}, false, true},
		"both, and the first not":             {[]string{match + `"1"`, none + `"2"`}, false, false},
	}
	requests := map[string]func(s *site, path string, header ...string) answer{
		"PUT":         func(s *site, path string, h ...string) answer { return s.send("PUT", path, `{"firstName":"C"}`, h...) },
		"PUT nothing": func(s *site, path string, h ...string) answer { return s.send("PUT", path, `{}`, h...) },
		"PATCH":       func(s *site, path string, h ...string) answer { return s.patch(path, `{"firstName":"C"}`, h...) },
		"DELETE":      func(s *site, path string, h ...string) answer { return s.send("DELETE", path, "", h...) },
		"GET":         func(s *site, path string, h ...string) answer { return s.send("GET", path, "", h...) },
	}
	for name, tt := range tests {
		for method, request := range requests {
			t.Run(method+" with "+name, func(t *testing.T) {
				t.Parallel()
				s := open(t)
				path := s.send("POST", "/user", grace).header.Get("Location")
				before := s.object(s.send("PUT", path, `{"firstName":"B"}`))["user"]

				a := request(s, path, tt.header...)

				switch {
				case tt.holds:
					require.Less(t, a.status, 300, a.body)
					return
				case tt.same && method == "GET":
					require.Equal(t, http.StatusNotModified, a.status)
					require.Empty(t, a.body)
					require.Equal(t, `"2"`, a.header.Get("Etag"))
				default:
					s.problem(a, http.StatusPreconditionFailed)
				}
				require.Equal(t, before, s.object(s.send("GET", path, ""))["user"])
			})
		}
	}
}

func TestMalformedConditionsAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	path := s.send("POST", "/user", grace).header.Get("Location")
	for _, header := range []string{`1`, `"1`, `1"`, `w/"1"`, `W/ "1"`, `"1" "2"`, `"1";`, `*, "1"`, `"a b"`, "\"a\tb\"", `W/`, `'1'`} {
		for _, name := range []string{"If-Match", "If-None-Match"} {
			want := map[string]string{name: "is neither * nor a list of entity tags"}
			require.Equal(t, want, s.complaints(s.send("PUT", path, `{"firstName":"A"}`, name+": "+header)), header)
			require.Equal(t, want, s.complaints(s.patch(path, `{"firstName":"A"}`, name+": "+header)), header)
			require.Equal(t, want, s.complaints(s.send("DELETE", path, "", name+": "+header)), header)
			require.Equal(t, want, s.complaints(s.send("GET", path, "", name+": "+header)), header)
		}
	}
}

func TestConditionsOnUnknownUsersAreIgnored(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, header := range []string{`If-Match: "1"`, `If-Match: *`, `If-None-Match: *`} {
		s.problem(s.send("PUT", "/user/"+stranger, `{"firstName":"A"}`, header), http.StatusNotFound)
		s.problem(s.send("DELETE", "/user/"+stranger, "", header), http.StatusNotFound)
		s.problem(s.send("GET", "/user/"+stranger, "", header), http.StatusNotFound)
	}
}

// late is a repository whose users change right after they were read.
type late struct {
	almanac.Repository
	change func(id uuid.UUID)
}

func (l late) User(ctx context.Context, id uuid.UUID) (almanac.User, error) {
	u, err := l.Repository.User(ctx, id)
	l.change(id)
	return u, err
}

// openLate opens a site with a user at the returned path. Another program changes the user
// right after the API has read the user for the first time.
func openLate(t *testing.T) (*site, string) {
	t.Helper()
	l := &late{Repository: newRepository(), change: func(uuid.UUID) {}}
	s := openOn(t, l, httpapi.NoAuthentication{})
	path := s.send("POST", "/user", grace).header.Get("Location")
	var once sync.Once
	other := "Other"
	l.change = func(id uuid.UUID) {
		once.Do(func() {
			_, err := s.scheduler.UpdateUser(t.Context(), id, almanac.ProfileChange{LastName: &other})
			require.NoError(t, err)
		})
	}
	return s, path
}

func TestAChangeAfterThePreconditionCheckIsNoticed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header string
		status int
	}{
		"a version":         {`If-Match: "1"`, http.StatusPreconditionFailed},
		"a list":            {`If-Match: "0", "1"`, http.StatusPreconditionFailed},
		"not a version":     {`If-None-Match: "2"`, http.StatusPreconditionFailed},
		"whatever they are": {`If-Match: *`, http.StatusOK},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := openLate(t)

			a := s.send("PUT", path, `{"firstName":"A"}`, tt.header)

			require.Equal(t, tt.status, a.status, a.body)
			if tt.status != http.StatusOK {
				s.problem(a, tt.status)
				user := s.object(s.send("GET", path, ""))["user"].(map[string]any)
				require.Equal(t, "Grace Other", user["firstName"].(string)+" "+user["lastName"].(string))
			}
		})
	}
}

func TestADeletionAfterThePreconditionCheckIsNoticed(t *testing.T) {
	t.Parallel()
	s, path := openLate(t)

	s.problem(s.send("DELETE", path, "", `If-Match: "1"`), http.StatusPreconditionFailed)

	require.Equal(t, http.StatusOK, s.send("GET", path, "").status)
	require.Equal(t, http.StatusNoContent, s.send("DELETE", path, "", `If-Match: "2"`).status)
}

func TestRequiredConditionsMustBePresent(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.RequireIfMatch())
	path := s.send("POST", "/user", grace).header.Get("Location")
	for _, header := range [][]string{nil, {`If-None-Match: "7"`}} {
		s.problem(s.send("PUT", path, `{"firstName":"A"}`, header...), http.StatusPreconditionRequired)
		s.problem(s.send("PUT", path, `{}`, header...), http.StatusPreconditionRequired)
		s.problem(s.patch(path, `{"firstName":"A"}`, header...), http.StatusPreconditionRequired)
		s.problem(s.send("DELETE", path, "", header...), http.StatusPreconditionRequired)
	}
	require.Equal(t, http.StatusOK, s.send("GET", path, "").status)
	require.Equal(t, http.StatusOK, s.send("PUT", path, `{"firstName":"A"}`, `If-Match: "1"`).status)
	require.Equal(t, http.StatusNoContent, s.send("DELETE", path, "", "If-Match: *").status)
}

func TestAPatchIsMerged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		patch string
		want  map[string]any // attributes; nil for none
	}{
		"a member more":     {`{"attributes":{"b":2}}`, map[string]any{"a": map[string]any{"x": 1.0, "y": 2.0}, "b": 2.0}},
		"a member within":   {`{"attributes":{"a":{"x":null,"z":3}}}`, map[string]any{"a": map[string]any{"y": 2.0, "z": 3.0}}},
		"a member less":     {`{"attributes":{"a":null}}`, nil},
		"nothing of them":   {`{"attributes":null}`, nil},
		"what is beside":    {`{"firstName":"A"}`, map[string]any{"a": map[string]any{"x": 1.0, "y": 2.0}}},
		"nothing":           {`{}`, map[string]any{"a": map[string]any{"x": 1.0, "y": 2.0}}},
		"nothing among all": {`{"attributes":{}}`, map[string]any{"a": map[string]any{"x": 1.0, "y": 2.0}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			path := s.send("POST", "/user", with(`"attributes":{"a":{"x":1,"y":2}}`)).header.Get("Location")

			a := s.send("PATCH", path, tt.patch, "Content-Type: application/merge-patch+json; charset=utf-8")

			require.Equal(t, http.StatusOK, a.status, a.body)
			user := s.object(a)["user"].(map[string]any)
			attributes, _ := user["attributes"].(map[string]any)
			require.Equal(t, tt.want, attributes)
			require.Equal(t, user, s.object(s.send("GET", path, ""))["user"])
		})
	}
}

func TestBadPatchesAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	path := s.send("POST", "/user", grace).header.Get("Location")
	for _, kind := range []string{"", "application/json", "application/json-patch+json", "what;;"} {
		a := s.send("PATCH", path, `{"firstName":"A"}`, "Content-Type: "+kind)

		s.problem(a, http.StatusUnsupportedMediaType)
		require.Equal(t, "application/merge-patch+json", a.header.Get("Accept-Patch"))
	}
	for patch, want := range map[string]map[string]string{
		`{"firstName":null}`:                  {"firstName": "must be a string"},
		`{"attributes":[]}`:                   {"attributes": "must be an object"},
		`{"attributes":{"n":1e999}}`:          {"attributes": "contain a number that is out of range"},
		`{"attributes":{"n":"\u0000"},"x":1}`: {"attributes": "contain characters that cannot be stored", "x": "is not a known field"},
		`{"merge":{}}`:                        {"merge": "is not a known field"},
		`[]`:                                  {"body": "is not a JSON object"},
	} {
		require.Equal(t, want, s.complaints(s.patch(path, patch)), patch)
	}
	require.Equal(t, 1.0, s.object(s.send("GET", path, ""))["user"].(map[string]any)["version"])
}
