package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// dashboardOf returns the handler of birthdayd with the given flags.
func dashboardOf(t *testing.T, flags ...string) http.Handler {
	t.Helper()
	pool := pgtest.Pool(t)
	c, err := parse(append([]string{"-webhook-url", "https://example.com/hook"}, flags...), environment())
	require.NoError(t, err)
	d, err := assemble(c, pools{pool, pool, pool, pool, pool}, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	return d.server.Handler
}

// status returns the status of a request, and where the answer leads.
func status(t *testing.T, h http.Handler, path string) (code int, location string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
	return w.Code, w.Header().Get("Location")
}

func TestTheDashboardIsServedBesideTheAPI(t *testing.T) {
	t.Parallel()
	h := dashboardOf(t)
	for path, want := range map[string]int{
		"/dashboard/": http.StatusOK, "/dashboard/events": http.StatusOK, "/dashboard/nothing": http.StatusNotFound,
		"/dashboard": http.StatusSeeOther, "/dashboards": http.StatusNotFound, "/events": http.StatusOK,
	} {
		code, location := status(t, h, path)
		require.Equal(t, want, code, path)
		if want == http.StatusSeeOther {
			require.Equal(t, "./dashboard/", location)
		}
	}
}

func TestTheDashboardAsksForTheToken(t *testing.T) {
	t.Parallel()
	h := dashboardOf(t, "-api-token", "0123456789abcdef")
	code, location := status(t, h, "/dashboard/events")
	require.Equal(t, http.StatusSeeOther, code)
	require.Equal(t, "./login", location)
	code, _ = status(t, h, "/dashboard/login")
	require.Equal(t, http.StatusOK, code)
}

func TestTheDashboardCanBeLeftOut(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"-dashboard=false"}, {"-api-token", "short"}} {
		code, _ := status(t, dashboardOf(t, flags...), "/dashboard/")
		require.Contains(t, []int{http.StatusNotFound, http.StatusUnauthorized}, code)
	}
}
