package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/httpapi"
)

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// FuzzProblems sends arbitrary requests to a repository that fails with arbitrary texts.
// Every error is a readable problem of RFC 9457 for its status, and contains nothing
// internal.
func FuzzProblems(f *testing.F) {
	for _, path := range []string{"/", "/user", "/user/x", "/user/" + stranger, "/user/" + stranger + "/events", "/events", "/events/<script>", "//", "/user/%00", "/\r\nX: y"} {
		for _, query := range []string{"", "limit=x", "limit=1001&cursor=%zz", "status=\xff", "type=%22%0a<&a=b&a=c", "userId=" + stranger, ";", "=x"} {
			f.Add("GET", path+"?"+query, "id", "confidential")
		}
	}
	f.Add("PATCH", "/user", "a b", "")
	f.Add("<", "/events", "\"\r\n", "\x00\xff\u2028")
	f.Add("PUT", "/user/"+stranger, strings.Repeat("x", 65), `"}`)
	f.Fuzz(func(t *testing.T, method, target, id, cause string) {
		path, query, _ := strings.Cut(target, "?")
		repository := broken{newRepository(), func(context.Context) error { return errors.New("confidential: " + cause) }}
		s := openOn(t, repository, httpapi.NoAuthentication{})
		r := (&http.Request{
			Method: method, URL: &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query}, Host: "localhost",
			Header: http.Header{"X-Request-Id": {id}}, Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}).WithContext(t.Context())
		w := httptest.NewRecorder()

		s.handler.ServeHTTP(w, r)

		body, header := w.Body.String(), w.Header()
		require.NotContains(t, body, "confidential")
		for name, values := range header {
			require.NotContains(t, strings.Join(values, ""), "confidential")
			require.False(t, strings.ContainsAny(strings.Join(values, ""), "\r\n\x00"), "%s: %q", name, values)
		}
		require.False(t, w.Code >= 300 && w.Code < 400, "sent on to %s", header.Get("Location"))
		if w.Code < 400 || method == http.MethodHead {
			return
		}
		require.True(t, utf8.ValidString(body), "%q", body)
		require.Equal(t, "application/problem+json", header.Get("Content-Type"))
		require.Regexp(t, requestID, header.Get("X-Request-Id"))
		var p struct {
			Type, Title, Detail, RequestID string
			Status                         int
			Errors                         []struct{ Field, Detail string }
		}
		decoder := json.NewDecoder(strings.NewReader(body))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&p), "%s", body)
		require.Equal(t, w.Code, p.Status)
		require.Equal(t, header.Get("X-Request-Id"), p.RequestID)
		kind, err := url.Parse(p.Type)
		require.True(t, err == nil && kind.IsAbs() && p.Title != "", "%s", body)
		require.Less(t, w.Code, 600)
		for _, e := range p.Errors {
			require.True(t, e.Field != "" && e.Detail != "", "%s", body)
		}
	})
}
