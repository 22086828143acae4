package chaos_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

// A worker is killed at each point of an event's way, while it holds other events, too.
// Another worker takes over.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range chaos.Points() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				keep, answer := hold(r)
				defer answer()
				r.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
				keep(point == chaos.MidSend)
				victim := r.Work("victim", func(o *chaos.Orders) {
					o.StopAt, o.StopAfter, o.Patience = point, 1+r.Random.IntN(times(point)), 20*time.Second
				})
				arrive(r, victim, point)
				keep(false) // what arrives from now on
				survivor := r.Work("survivor")
				arrive(r, survivor, chaos.Ready)
				death := r.Kill(victim)
				answer()

				r.Drained(40 * time.Second)
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

// The handler of a worker plans nothing, so that every series stalls whose event it ends. The worker is
// killed, and one with a handler that was mended takes over: it plans each next event once.
func TestKilledWhileSeriesStall(t *testing.T) {
	t.Parallel()
	for _, point := range []chaos.Point{chaos.BeforeSettle, chaos.MidSettle, chaos.AfterSettle} {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				// One series alone stalls first: its event is ended when the others' come to the point.
				r.CreateUsers(1, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 4})
				r.CreateUsers(19, chaos.Plan{Start: chaos.From(lead + 2*time.Second), Interval: 1, Count: 4})
				victim := r.Work("victim", func(o *chaos.Orders) {
					o.NoPlans, o.StopAt, o.StopAfter, o.Patience = true, point, 2, 20*time.Second
				})
				arrive(r, victim, point)
				death := r.Kill(victim)
				stalled := r.Stalled()
				require.Positive(t, stalled)
				r.Count("stalled", stalled)
				survivor := r.Work("survivor")
				arrive(r, survivor, chaos.Ready)

				r.Drained(60 * time.Second)
				r.Recovered(death, 0)
				r.Check("killed", "stalled")
			})
		})
	}
}

// times is how often a worker comes to a point for sure while a few users have a few
// occurrences: most points once for each, some once for as many as there are.
func times(p chaos.Point) int {
	switch p {
	case chaos.BeforeClaim, chaos.AfterClaim, chaos.BeforeSettle, chaos.MidSettle, chaos.AfterSettle:
		return 3
	default:
		return 10
	}
}

// bites are the counters that show whether edits met a worker at a point.
func bites(p chaos.Point) []string {
	switch p {
	case chaos.BeforeClaim, chaos.AfterSettle: // nothing is in flight, perhaps
		return []string{"deletions", "landed meanwhile"}
	case chaos.MidSettle:
		return []string{"deletions", "waited for the worker"}
	default:
		return []string{"deletions", "landed meanwhile", "met a delivery"}
	}
}

// arrive waits until a worker has come to a point.
func arrive(r *chaos.Run, w *chaos.Process, p chaos.Point) {
	r.Helper()
	_, err := w.Await(r.Within(20*time.Second), func(report chaos.Report) bool { return report.Point == p })
	require.NoError(r, err)
}

// hold makes the receiver keep back its answers to deliveries that arrive after keep(true),
// until answer is called.
func hold(r *chaos.Run) (keep func(bool), answer func()) {
	var keeping atomic.Bool
	kept := make(chan struct{})
	r.Receiver.Answer(func(int, chaos.Entry) int {
		if keeping.Load() {
			<-kept
		}
		return http.StatusOK
	})
	return keeping.Store, sync.OnceFunc(func() { close(kept) })
}

// A worker is frozen past its lease and goes on after another has finished its
// work: what it stores then must be refused.
func TestFrozenWorkerReturnsAfterItsLease(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.Receiver.Answer(func(int, chaos.Entry) int { time.Sleep(100 * time.Millisecond); return 200 })
		r.CreateUsers(20, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 4})
		zombie := r.Work("zombie", func(o *chaos.Orders) { o.Patience = 20 * time.Second })
		_, err := zombie.Await(r.Within(20*time.Second), func(report chaos.Report) bool { return report.Kind == "event.claimed" })
		require.NoError(t, err)
		require.NoError(t, zombie.Signal(syscall.SIGSTOP))
		r.Count("frozen", 1)
		r.Allow(chaos.Slots)

		r.Work("survivor")
		r.Drained(40 * time.Second)
		require.NoError(t, zombie.Signal(syscall.SIGCONT))
		if _, err = zombie.Stop(r.Within(20 * time.Second)); err != nil { // if it is told to stop before it has given up what it held
			require.ErrorContains(t, err, "results given up")
		}

		r.Check("frozen")
	})
}

// The same, but it goes on while the other is still at it: what both had is the
// other's to end.
func TestFrozenWorkerReturnsWhileAnotherWorks(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		var frozen atomic.Bool
		var met atomic.Int64
		slow := make(chan struct{})
		r.Receiver.Answer(func(int, chaos.Entry) int {
			if frozen.Load() {
				met.Add(1)
				<-slow
			}
			return 200
		})
		r.CreateUsers(chaos.Slots, chaos.Plan{Start: chaos.From(lead), Interval: 3600, Count: 1})
		zombie := r.Work("zombie", func(o *chaos.Orders) { o.StopAt, o.Freeze = chaos.BeforeSettle, true })
		_, err := zombie.Await(r.Within(20*time.Second), func(report chaos.Report) bool { return report.Point == chaos.BeforeSettle })
		require.NoError(t, err)
		frozen.Store(true)
		r.Allow(chaos.Slots)

		r.Work("survivor")
		for ctx := r.Within(20 * time.Second); met.Load() == 0; {
			require.NoError(t, ctx.Err())
			time.Sleep(20 * time.Millisecond)
		}
		r.Count("both at it", int(met.Load()))
		require.NoError(t, zombie.Signal(syscall.SIGCONT))
		time.Sleep(time.Second) // in which it tries to store what it had
		frozen.Store(false)
		close(slow)
		r.Drained(40 * time.Second)
		r.Check("both at it")
	})
}

// A worker falls silent in the middle of a transaction, and its connection stays: what
// it has locked is passed over until the server ends its session.
func TestSilentInATransaction(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
		silent := r.Work("silent", func(o *chaos.Orders) { o.StopAt, o.StopAfter = chaos.MidSettle, 1+r.Random.IntN(3) })
		arrive(r, silent, chaos.MidSettle)
		require.NoError(t, silent.Signal(syscall.SIGSTOP))
		r.Count("frozen", 1)
		r.Allow(chaos.Slots)

		r.Work("survivor")
		r.Drained(40 * time.Second)
		r.Kill(silent)

		r.Check("frozen")
	})
}
