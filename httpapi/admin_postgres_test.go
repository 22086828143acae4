package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// Texts that PostgreSQL refuses, and instants that it cannot represent, must be refused here.
func TestHostileTextsReachPostgreSQLUnharmed(t *testing.T) {
	t.Parallel()
	store, err := postgres.New(pgtest.Pool(t))
	require.NoError(t, err)
	o := openOffice(t, store)
	o.hire("grace")
	for _, text := range []string{
		"\x00", "\xff", "'; DROP TABLE users; --", `\`, "%", "_", "*", "é", "\u202e", "🎂", "9999-12-31T23:59:59Z", "1900-01-01T00:00:00+23:59", "{}", "a/b/c", "-1",
	} {
		escaped := url.QueryEscape(text)
		for _, target := range []string{
			"/users?name=" + escaped, "/users?email=" + escaped, "/users?externalId=" + escaped, "/users?name=a&cursor=" + escaped,
			"/events?type=" + escaped, "/events?zone=" + escaped, "/events?reason=" + escaped, "/events?from=" + escaped, "/events?until=" + escaped,
			"/events?order=next&cursor=" + escaped, "/events?order=newest&cursor=" + escaped,
		} {
			a := o.send("GET", target, "")
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, a.status, "%s %s", target, a.body)
		}
		a := o.send("PUT", "/lanes/"+url.PathEscape(text)+"/pause", "")
		require.Contains(t, []int{http.StatusNotFound, http.StatusBadRequest}, a.status, "%q %s", text, a.body)
		a = o.send("DELETE", "/lanes/"+url.PathEscape(text)+"/pause", "")
		require.Contains(t, []int{http.StatusNoContent, http.StatusBadRequest}, a.status, "%q %s", text, a.body)
	}
	require.Len(t, ids(o.ok("GET", "/users?name=gr", "")["users"]), 1)
}

// A reason may have any characters: what cannot be stored is replaced.
func TestOperationsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	store, err := postgres.New(pgtest.Pool(t))
	require.NoError(t, err)
	o := openOffice(t, store)
	_, first := o.hire("first")
	_, second := o.hire("second")
	const due = `"filter":{"until":"2100-01-01T00:00:00Z","zone":"America/New_York"}`

	a := o.ok("POST", "/operations", `{"operation":"cancel",`+due+`,"limit":1,"reason":"a\u0000b","dryRun":false}`)

	require.Equal(t, []string{first.ID.String()}, ids(a["events"]))
	require.Equal(t, true, a["more"])
	require.Equal(t, "a\ufffdb", o.is(first, almanac.Cancelled).FailureReason)
	requeued := o.send("POST", "/events/"+first.ID.String()+"/requeue", "")
	require.Equal(t, http.StatusCreated, requeued.status, requeued.body)
	o.problem(o.send("POST", "/events/"+first.ID.String()+"/requeue", ""), http.StatusConflict)
	o.ok("POST", "/events/"+second.ID.String()+"/run-now", "")
	next := ids(o.ok("GET", "/events?order=next&limit=1", "")["events"])
	require.Equal(t, []string{second.ID.String()}, next)
	require.Equal(t, http.StatusNoContent, o.send("PUT", "/lanes/BIRTHDAY/pause", "").status)
	require.Len(t, o.ok("GET", "/pauses", "")["pauses"], 1)
}

// Users whom another transaction has locked are refused within the request, and the others are edited.
func TestAnImportPassesOverLockedRows(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	o := openOffice(t, store)
	var users, edits []string
	for n := range 600 {
		users, edits = append(users, member(n, "")), append(edits, member(n, `,"locale":"de"`))
	}
	o.ok("POST", "/imports", strings.Join(users, "\n"))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM almanac.users WHERE external_id IN ('m7', 'm8', 'm9') FOR UPDATE")
	require.NoError(t, err)

	edited, refused := 0, []string{}
	for next := 1; next <= len(edits); { // one request, unless the machine is slow
		a := o.ok("POST", fmt.Sprintf("/imports?existing=edit&line=%d", next), strings.Join(edits[next-1:], "\n"))
		require.Greater(t, int(a["nextLine"].(float64)), next)
		next = int(a["nextLine"].(float64))
		edited, refused = edited+int(a["edited"].(float64)), append(refused, refusals(a)...)
	}
	require.Equal(t, 597, edited)
	require.Len(t, refused, 3)
	for k, text := range refused {
		require.Contains(t, text, fmt.Sprint(8+k)+" 409 the user is locked by another transaction")
	}
	require.NoError(t, tx.Rollback(t.Context()))
	a := o.ok("POST", "/imports?existing=edit", strings.Join(edits, "\n"))
	require.Equal(t, [6]int{600, 0, 3, 597, 0, 601}, counts(a))
}
