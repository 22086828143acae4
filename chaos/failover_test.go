package chaos_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
)

// followed is a run on a server of its own that a standby follows.
func followed(t *testing.T, seed uint64) (*chaos.Run, *chaos.Standby) {
	t.Helper()
	r := alone(t, seed, nil)
	standby, err := r.Cluster.NewStandby(r.Within(60 * time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = standby.Close(context.Background()) })
	return r, standby
}

// The server is lost for good, and with it the last commits: its standby, which was
// cut off some time before, takes its place.
func TestFailover(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r, standby := followed(t, seed)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 8})
		workers := two(r)
		between(r, 500*time.Millisecond, 1500*time.Millisecond)
		standby.Sever()
		between(r, time.Second, 2*time.Second)
		require.NoError(t, r.Cluster.Crash(r.Within(10*time.Second)))
		finished := r.Finished()
		require.NoError(t, r.Cluster.Promote(r.Within(30*time.Second), standby))
		r.Reconnect()
		r.Forget()
		countLost(r, finished, len(workers))
		require.NoError(t, r.Cluster.Redirect())

		r.Drained(60 * time.Second)
		r.Check("commits lost")
	})
}

// Another server takes over in good order, but the old one goes on to answer: what
// the workers' pools have are connections to a server that takes no writes.
func TestReadOnlyAfterFailover(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r, standby := followed(t, seed)
		either, err := r.Cluster.Either(standby, r.Database)
		require.NoError(t, err)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 8})
		workers := two(r, unhurried, func(o *chaos.Orders) { o.URL = either })
		between(r, 500*time.Millisecond, 1500*time.Millisecond)
		require.NoError(t, r.Cluster.Demote(r.Within(30*time.Second), standby))
		require.NoError(t, r.Cluster.Promote(r.Within(30*time.Second), standby))
		promoted := time.Now()
		r.Reconnect()
		_, err = workers[0].Await(r.Within(60*time.Second), func(report chaos.Report) bool {
			return report.Kind == almanac.EventCompleted && report.At.After(promoted)
		})
		require.NoError(t, err)
		first := time.Since(promoted)

		r.Drained(60 * time.Second)
		log, err := standby.Log()
		require.NoError(t, err)
		r.Count("writes refused", strings.Count(log, "in a read-only transaction"))
		r.Check("writes refused")
		t.Logf("the first outcome was stored %v after the other took over", first.Round(time.Millisecond))
	})
}
