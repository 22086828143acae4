package chaos_test

import (
	"testing"
	"time"

	"github.com/almanac-go/almanac/chaos"
)

// A relay of the outbox is killed at each point of a batch's way, and another goes on:
// nothing is lost, and the order of each user is kept.
func TestRelayKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range chaos.RelayPoints() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				stream := r.NewStream()
				r.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 4})
				r.Work("worker")
				victim := r.Work("victim", func(o *chaos.Orders) {
					o.Relay, o.StopAt, o.StopAfter = stream.URL(), point, 1+r.Random.IntN(5)
				})
				arrive(r, victim, point)
				r.Kill(victim)
				r.Work("survivor", func(o *chaos.Orders) { o.Relay = stream.URL() })

				r.Drained(40 * time.Second)
				stream.Check(r, 1)
				r.Check("killed", "relayed")
			})
		})
	}
}

// Who writes to the outbox is killed, in the middle of a transaction too: what was not
// committed is not relayed, and what was is.
func TestWriterOfTheOutboxKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []chaos.Point{chaos.BeforeSettle, chaos.MidSettle, chaos.AfterSettle} {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				stream := r.NewStream()
				r.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 4})
				r.Work("relay", func(o *chaos.Orders) { o.Relay = stream.URL() })
				victim := r.Work("victim", func(o *chaos.Orders) {
					o.StopAt, o.StopAfter, o.Patience = point, 1+r.Random.IntN(3), 20*time.Second
				})
				arrive(r, victim, point)
				r.Work("survivor")
				r.Kill(victim)

				r.Drained(40 * time.Second)
				stream.Check(r, 0)
				r.Check("killed", "relayed")
			})
		})
	}
}
