package httpapi_test

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/httpapi"
)

// name is the principal of a request in these tests.
func name(r *http.Request) string { return r.Header.Get("X-Name") }

// rated returns a site with a rate.
func rated(t *testing.T, perSecond float64, burst int) *site {
	t.Helper()
	return openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithRate(perSecond, burst), httpapi.WithPrincipal(name))
}

func TestARateIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rated(t, 0.5, 3)
		served := func(who string) int {
			n := 0
			for n < 10 && s.send("GET", "/events", "", "X-Name: "+who).status == http.StatusOK {
				n++
			}
			return n
		}

		require.Equal(t, 3, served("a"), "a burst")
		a := s.send("GET", "/nowhere", "", "X-Name: a")
		s.problem(a, http.StatusTooManyRequests)
		require.Equal(t, "2", a.header.Get("Retry-After"))
		require.Equal(t, 3, served("b"), "another principal has a rate of their own")
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, "2", s.send("GET", "/events", "", "X-Name: a").header.Get("Retry-After"), "1.5 seconds, rounded up")
		time.Sleep(1499 * time.Millisecond)
		require.Zero(t, served("a"), "not yet")
		time.Sleep(time.Millisecond)
		require.Equal(t, 1, served("a"), "what Retry-After said")
		time.Sleep(time.Hour)
		require.Equal(t, 3, served("a"), "a pause earns no more than a burst")
	})
}

func TestARateHoldsForRequestsAtOnce(t *testing.T) {
	t.Parallel()
	s := rated(t, 0.001, 10)
	var served atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if s.send("GET", "/nowhere", "", "X-Name: a").status == http.StatusNotFound {
				served.Add(1)
			}
		})
	}
	all.Wait()

	require.EqualValues(t, 10, served.Load())
}

func TestARateDropsTheOldestPrincipal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rated(t, 1, 1)
		status := func(who string) int { return s.send("GET", "/nowhere", "", "X-Name: "+who).status }
		first, second := "0", "1"
		for i := range 10_000 {
			require.Equal(t, http.StatusNotFound, status(strconv.Itoa(i)))
		}
		require.Equal(t, http.StatusTooManyRequests, status(first), "all are remembered")

		require.Equal(t, http.StatusNotFound, status("one more"))

		require.Equal(t, http.StatusTooManyRequests, status(first), "it came a moment ago")
		require.Equal(t, http.StatusNotFound, status(second), "it came longest ago, and was forgotten")
	})
}

func TestRefusedRequestsHaveARateOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openOn(t, newRepository(), httpapi.BearerToken("secret"), httpapi.WithRate(1, 2))
		for _, refused := range []struct {
			method string
			header []string
			status int
		}{
			{"GET", nil, http.StatusUnauthorized},
			{"POST", []string{"Origin: https://evil.example"}, http.StatusForbidden},
			{"GET", []string{"Authorization: Bearer guess"}, http.StatusTooManyRequests},
			{"POST", []string{"Origin: https://evil.example"}, http.StatusTooManyRequests},
		} {
			s.problem(s.send(refused.method, "/nowhere", "", refused.header...), refused.status)
		}
		for range 2 {
			require.Equal(t, http.StatusNotFound, s.send("GET", "/nowhere", "", "Authorization: Bearer secret").status)
			require.Equal(t, http.StatusOK, s.send("GET", "/healthz", "").status)
		}
		time.Sleep(time.Second)
		require.Equal(t, http.StatusUnauthorized, s.send("GET", "/events", "").status)
	})
}

func TestLimitsAreCheckedAfterAuthentication(t *testing.T) {
	t.Parallel()
	var asked int
	refuse := func(*http.Request) (time.Duration, bool) { asked++; return -time.Second, false }
	s := openOn(t, newRepository(), httpapi.BearerToken("secret"), httpapi.WithLimit(refuse))

	s.problem(s.send("GET", "/events", ""), http.StatusUnauthorized)
	require.Equal(t, http.StatusOK, s.send("GET", "/healthz", "").status)
	require.Zero(t, asked)
	a := s.send("POST", "/user", grace, "Authorization: Bearer secret")
	s.problem(a, http.StatusTooManyRequests)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Equal(t, 1, asked)
	s.nothing()
}

func TestRatesOutOfBoundsAreRefused(t *testing.T) {
	t.Parallel()
	for _, option := range []httpapi.Option{
		httpapi.WithRate(0, 1), httpapi.WithRate(-1, 1), httpapi.WithRate(math.NaN(), 1), httpapi.WithRate(2e6, 1), httpapi.WithRate(1, 0), httpapi.WithRate(1, 2e6),
	} {
		_, err := httpapi.New(nil, nil, nil, option)

		require.ErrorContains(t, err, "rate is not")
	}
}
