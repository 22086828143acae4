package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

func isWell(health string) bool  { return health == chaos.Well }
func isRed(health string) bool   { return health != chaos.Well }
func isStuck(health string) bool { return strings.Contains(health, "do not return") }

// turns waits until a worker's health is so, after the report before.
func turns(r *chaos.Run, w *chaos.Process, after chaos.Report, so func(string) bool) chaos.Report {
	r.Helper()
	report, err := w.Turns(r.Within(60*time.Second), after, so)
	require.NoError(r, err)
	return report
}

// The server's processes stand still until every worker has noticed, and go on.
func TestHealthWhilePostgresIsFrozen(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, nil)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 8})
		workers := two(r)
		var well []chaos.Report
		for _, w := range workers {
			well = append(well, turns(r, w, chaos.Report{}, isWell))
		}
		frozen := time.Now()
		require.NoError(t, r.Cluster.Freeze())
		r.Allow(len(workers) * chaos.Slots)
		var red []chaos.Report
		for i, w := range workers {
			red = append(red, turns(r, w, well[i], isRed))
			r.Count("turned red", 1)
			t.Logf("red after %v: %s", red[i].At.Sub(frozen).Round(time.Millisecond), red[i].Health)
		}
		time.Sleep(chaos.Lease)
		thawed := time.Now()
		require.NoError(t, r.Cluster.Thaw())
		for i, w := range workers {
			green := turns(r, w, red[i], isWell)
			r.Count("turned green", 1)
			t.Logf("green after %v", green.At.Sub(thawed).Round(time.Millisecond))
		}

		r.Drained(60 * time.Second)
		r.Check("turned red", "turned green")
	})
}

// Most of a worker's deliveries ignore that they have to stop. It says so, and what
// they were to deliver is delivered by another before they return.
func TestHealthWhileDeliveriesAreStuck(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		// Stored long before, because a machine that stores some of them too late has too few.
		r.CreateUsers(3*chaos.Slots/4, chaos.Plan{Start: chaos.From(4 * lead), Interval: 3600, Count: 1, Poison: chaos.Ignores})
		stuck := r.Expected()
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(5 * lead), Interval: 1, Count: 3})
		worker := r.Work("stuck")
		red := turns(r, worker, chaos.Report{}, isStuck)
		r.Count("turned red", 1)
		t.Log(red.Health)
		r.Allow(2 * chaos.Slots)
		other := r.Work("other")
		turns(r, worker, red, isWell)
		r.Count("turned green", 1)

		r.Drained(60 * time.Second)
		r.Check("turned red", "turned green")
		var elsewhere int
		require.NoError(t, r.Pool().QueryRow(t.Context(), `SELECT count(*) FROM almanac.events
			WHERE status = 'COMPLETED' AND crash_count > 0 AND delivery_payload->>'message' LIKE '%ignores'`).Scan(&elsewhere))
		require.Equal(t, stuck, elsewhere, "what was stuck was let go and done again")
		require.NotEmpty(t, other.Reports())
	})
}
