package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
)

// A pass is killed at each point of an event's way, and the passes of another process do
// the rest. Each has one connection, or two.
func TestAPassIsKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for i, point := range chaos.Points() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				connections := int32((uint64(i)+seed)%2) + 1
				passing := func(o *chaos.Orders) { o.Once, o.Connections = true, connections }
				keep, answer := hold(r)
				defer answer()
				r.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
				keep(point == chaos.MidSend)
				victim := r.Work("victim", passing, func(o *chaos.Orders) {
					o.StopAt, o.StopAfter, o.Patience = point, 1+r.Random.IntN(times(point)), 20*time.Second
				})
				arrive(r, victim, point)
				keep(false) // what arrives from now on
				r.Work("survivor", passing)
				death := r.Kill(victim)
				answer()

				r.Drained(60 * time.Second)
				r.Recovered(death, 0)
				bitten := []string{"killed"}
				if point != chaos.BeforeClaim && point != chaos.AfterSettle { // with nothing in flight, perhaps
					bitten = append(bitten, "held", "recovered")
				}
				r.Check(bitten...)
			})
		})
	}
}

// Passes on a cron beside a worker that runs all the time: none takes what another has.
func TestPassesBesideAWorker(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		// Until the passes hold an event the worker keeps what it took, or it might finish all of
		// them before the first pass.
		keep, answer := hold(r)
		defer answer()
		keep(true)
		arrive(r, r.Work("always", unhurried), chaos.Ready)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
		cron := r.Work("cron", unhurried, func(o *chaos.Orders) { o.Once, o.Connections = true, 1 })
		await := func(kind almanac.NoticeKind) {
			_, err := cron.Await(r.Within(40*time.Second), func(report chaos.Report) bool { return report.Kind == kind })
			require.NoError(t, err)
		}
		await(almanac.EventClaimed)
		answer()
		await(almanac.EventCompleted)
		r.Count("passed", 1)

		r.Drained(60 * time.Second)
		r.Check("passed")
	})
}
