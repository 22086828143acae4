package chaos_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

// batched is for workers that deliver up to ten events in one call.
func batched(o *chaos.Orders) { o.Batch = 10 }

// checkRequests checks that each request of a batch has an id of its own, and counts events that came in the
// request of another one.
func checkRequests(r *chaos.Run) {
	r.Helper()
	requests := make(map[string][]string)
	ledger, _ := r.Receiver.Ledger()
	for _, e := range ledger {
		requests[e.Request] = append(requests[e.Request], e.Key)
	}
	for id, keys := range requests {
		require.NotEmpty(r, id)
		require.NotContains(r, keys, id, "the id of a request is the key of an event")
		r.Count("together", len(keys)-1)
		slices.Sort(keys)
		require.Len(r, slices.Compact(keys), len(keys), "request %s came twice", id)
	}
}

// A worker is killed at each point of a batch's way: before its request, while the receiver has it, when it was
// accepted, and before and while its outcomes are stored. Another worker takes over. Each event comes at least
// once, and again with the same key and the same body, in a request of its own.
func TestKilledAtEachPointOfABatch(t *testing.T) {
	t.Parallel()
	for _, point := range []chaos.Point{chaos.BeforeSend, chaos.MidSend, chaos.AfterSend, chaos.BeforeSettle, chaos.MidSettle} {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				keep, answer := hold(r)
				defer answer()
				r.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
				keep(point == chaos.MidSend)
				victim := r.Work("victim", batched, func(o *chaos.Orders) {
					o.StopAt, o.StopAfter, o.Patience = point, 1+r.Random.IntN(3), 20*time.Second
					if point == chaos.MidSend {
						o.StopAfter = 1 // no answer comes to the first one
					}
				})
				arrive(r, victim, point)
				keep(false)
				survivor := r.Work("survivor", batched)
				arrive(r, survivor, chaos.Ready)
				death := r.Kill(victim)
				answer()

				r.Drained(40 * time.Second)
				r.Recovered(death, 0)
				checkRequests(r)
				figures := r.Check("killed", "held", "recovered", "together")
				if point == chaos.AfterSend || point == chaos.BeforeSettle {
					require.Positive(t, figures.Repeats, "what was accepted comes again")
				}
			})
		})
	}
}

// The same with mails that go over one connection.
func TestMailerKilledAtEachPointOfABatch(t *testing.T) {
	t.Parallel()
	for _, point := range []chaos.Point{chaos.BeforeSend, chaos.MidSend, chaos.AfterSend, chaos.BeforeSettle} {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				address, stop, err := r.Receiver.ServeMail()
				require.NoError(t, err)
				t.Cleanup(stop)
				figures := killMailer(r, point, address, func(context.Context) error { return nil }, batched)
				if point == chaos.AfterSend || point == chaos.BeforeSettle {
					require.Positive(t, figures.Repeats, "what was accepted comes again")
				}
			})
		})
	}
}

// The receiver answers everything there is to single events of a batch: it names some that failed, refuses all, or
// takes them and breaks the connection.
func TestAReceiverOfBatchesWithRandomAnswers(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.Receiver.Answer(func(n int, e chaos.Entry) int {
			// By the number of a delivery, so that whole batches and single events fail.
			status := []int{http.StatusOK, http.StatusOK, http.StatusServiceUnavailable, http.StatusOK, 0, http.StatusTooManyRequests}[n/7%6]
			if n%5 == 0 {
				status = http.StatusInternalServerError
			}
			if status/100 != 2 {
				r.Count("refused", 1)
			}
			return status
		})
		r.Allow(people * 4) // what was accepted in a batch whose answer was lost
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 4})
		two(r, unhurried, batched)
		r.Drained(90 * time.Second)
		checkRequests(r)
		r.Check("refused", "together")
	})
}
