package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestLanesHaveWhatWaitsForThem(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	u := almanactest.User()
	e := almanactest.Event(today, almanactest.For(u), almanactest.InLane("crm/a"))
	results, err := o.repository.CreateUsers(t.Context(), []almanac.UserWithEvents{{User: u, Events: []almanac.Event{e}}})
	require.NoError(t, err)
	path := "/events/" + results[0].Events[0].ID.String()
	answer := o.ok("GET", path, "")
	require.Equal(t, "crm/a", answer["lane"])
	require.NotContains(t, answer, "wait", "its lane has no limits")

	require.NoError(t, o.repository.PutLane(t.Context(), almanac.Lane{Name: "crm", Rate: 0.01, Burst: 1, Places: 7, Daily: 50}))
	require.Equal(t, map[string]any{
		"lane": "crm/a", "since": "2026-03-01T11:55:00.000Z", "waiting": 0.0, "starts": map[string]any{"at": "2026-03-01T12:01:40.000Z"},
	}, o.ok("GET", path, "")["wait"])
	require.Equal(t, []any{map[string]any{
		"name": "crm", "rate": 0.01, "burst": 1.0, "places": 7.0, "daily": 50.0,
		"load": map[string]any{
			"waiting": 1.0, "oldest": "2026-03-01T11:55:00.000Z", "inFlight": 0.0, "startedToday": 0.0, "startedLastHour": 0.0,
			"ends": map[string]any{"at": "2026-03-01T12:01:40.000Z"},
		},
	}}, o.ok("GET", "/lanes", "")["lanes"])

	require.Equal(t, http.StatusNoContent, o.send("PUT", "/lanes/BIRTHDAY/pause", "").status)
	wait := o.ok("GET", path, "")["wait"].(map[string]any)
	require.Equal(t, "BIRTHDAY", wait["paused"])
	require.Equal(t, map[string]any{}, wait["starts"], "when the type is resumed")
}

// A decorator of a repository may have no statistics.
func TestLanesWithoutStatisticsHaveTheirLimits(t *testing.T) {
	t.Parallel()
	r := newRepository()
	o := openOffice(t, struct{ almanac.Repository }{r})
	require.NoError(t, r.PutLane(t.Context(), almanac.Lane{Name: "crm", Places: 7}))
	require.Equal(t, []any{map[string]any{"name": "crm", "places": 7.0}}, o.ok("GET", "/lanes", "")["lanes"])
	_, e := o.hire("grace")
	require.NotContains(t, o.ok("GET", "/events/"+e.ID.String(), ""), "wait")
}
