package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const password = "correct horse"

// open runs the program and returns its address. The function stop stops it as a signal does.
func open(t *testing.T) (pool *pgxpool.Pool, address string, stop func()) {
	t.Helper()
	t.Setenv("STAFF_PASSWORD", password)
	pool = pgtest.Pool(t, pgtest.MaxConns(16))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { serve(ctx, pool, l) })
	stop = func() { cancel(); serving.Wait() }
	t.Cleanup(stop)
	return pool, "http://" + l.Addr().String(), stop
}

func ask(t *testing.T, method, address, contentType, body string) (*http.Response, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", contentType)
	if contentType == "application/json" {
		r.SetBasicAuth("grace", password)
	}
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	var object map[string]any
	if strings.HasSuffix(answer.Header.Get("Content-Type"), "json") {
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&object))
	}
	return answer, object
}

func signUp(t *testing.T, address, email, zone string) int {
	t.Helper()
	form := url.Values{"first": {"Ada"}, "last": {"Lovelace"}, "email": {email}, "born": {"1990-12-10"}, "zone": {zone}}
	answer, _ := ask(t, "POST", address+"/signup", "application/x-www-form-urlencoded", form.Encode())
	return answer.StatusCode
}

func TestSignupStoresBothSidesOrNeither(t *testing.T) {
	pool, address, stop := open(t)
	stored := func() (counts [3]int) {
		t.Helper()
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM customers),
			(SELECT count(*) FROM almanac.users JOIN customers USING (id)), (SELECT count(*) FROM almanac.users)`).
			Scan(&counts[0], &counts[1], &counts[2]))
		return counts
	}

	require.Equal(t, http.StatusCreated, signUp(t, address, "ada@example.org", "Europe/London"))
	require.Equal(t, [3]int{1, 1, 1}, stored())
	require.Equal(t, http.StatusConflict, signUp(t, address, "ada@example.org", "Europe/London"), "the shop refuses")
	require.Equal(t, [3]int{1, 1, 1}, stored())
	require.Equal(t, http.StatusUnprocessableEntity, signUp(t, address, "bob@example.org", "Europe/Loondon"), "Almanac refuses")
	require.Equal(t, [3]int{1, 1, 1}, stored())

	stop()
	_, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	require.Error(t, err, "it has stopped")
}

func TestTheAPIIsBehindTheLogin(t *testing.T) {
	_, address, _ := open(t)
	require.Equal(t, http.StatusCreated, signUp(t, address, "ada@example.org", "Europe/London"))

	for _, path := range []string{"/staff/almanac/events", "/staff/almanac/user/0198a1f0-7c3e-7d6a-9b1f-0a1b2c3d4e5f", "/staff/almanac/unknown"} {
		answer, _ := ask(t, "GET", address+path, "", "")
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode, path)
	}

	answer, listed := ask(t, "GET", address+"/staff/almanac/events", "application/json", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Len(t, listed["events"], 1)
	answer, _ = ask(t, "GET", address+"/events", "application/json", "")
	require.Equal(t, http.StatusNotFound, answer.StatusCode, "the API is below its prefix only")
}

func TestTheAPIWorksBelowItsPrefix(t *testing.T) {
	_, address, _ := open(t)

	created, _ := ask(t, "POST", address+"/staff/almanac/user", "application/json",
		`{"firstName": "Grace", "lastName": "Hopper", "dateOfBirth": "1906-12-09", "timezone": "America/New_York"}`)
	require.Equal(t, http.StatusCreated, created.StatusCode)
	path := created.Header.Get("Location")
	require.Regexp(t, `^/staff/almanac/user/[0-9a-f-]{36}$`, path)

	answer, found := ask(t, "GET", address+path, "application/json", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "Grace", found["user"].(map[string]any)["firstName"])
	answer, _ = ask(t, "DELETE", address+path+"?erase=now", "application/json", "")
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
}

// A route that bypasses the login by mistake is closed.
func TestTheAPIItselfRefusesWithoutLogin(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/events", http.NoBody)
	require.NoError(t, err)
	challenge, ok := staff{}.Authenticate(r)
	require.False(t, ok)
	require.NotEmpty(t, challenge)
}
