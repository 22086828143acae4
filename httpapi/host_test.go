package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/httpapi"
)

func TestWithoutAuthenticationOnlyKnownHostsAreAnswered(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{Hosts: []string{"greeter.internal", "192.0.2.7"}})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:80": 200, "LocalHost.": 200, "127.0.0.1:8080": 200, "127.1.2.3": 200, "[::1]": 200, "[::1]:1": 200,
		"[::ffff:127.0.0.1]:1": 200, "greeter.internal:99": 200, "Greeter.Internal": 200, "192.0.2.7": 200,
		"": 421, "evil.example": 421, "localhost.evil.example": 421, "evil-localhost": 421, "127.0.0.1.evil.example": 421, "10.0.0.1:80": 421,
		"[2001:db8::1]": 421, "0.0.0.0": 421, ".": 421, "127.1": 421, "2130706433": 421, "localhost:80:80": 421,
	} {
		for _, path := range []string{"/events", "/readyz", "/healthz"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, r)
			require.Equal(t, want, w.Code, "%s of %q", path, host)
		}
	}
	authenticated := openOn(t, newRepository(), httpapi.BearerToken("secret"))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil)
	r.Host = "evil.example"
	w := httptest.NewRecorder()
	authenticated.handler.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
}
