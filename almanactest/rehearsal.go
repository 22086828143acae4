package almanactest

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
)

// Rehearsal is a program that runs on a repository in memory, in the virtual time of
// a testing/synctest bubble: years pass in the time that the deliveries take. It
// runs only within [Rehearsal.For] and [Rehearsal.Until]. In between the test may
// create people, edit and delete them, and let time pass by time.Sleep, which is a
// downtime.
type Rehearsal struct {
	// Repository is where everything is stored.
	Repository *Repository
	// Scheduler is the program's, with the registry and the options that were given.
	Scheduler almanac.Scheduler

	t     testing.TB
	store *mortal
}

// Rehearse returns a rehearsal of the registry's event types, which begins at the
// present of the bubble: a bubble's clock starts at 2000-01-01T00:00:00Z, and
// time.Sleep sets it forward. Give a [Recorder] as the deliverer of each channel:
//
//	letters := new(almanactest.Recorder)
//	rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer("letter", letters))
//
// Unless the options say otherwise, nothing is logged, a lease lasts for a day, polls and sweeps are as
// far apart, and zones are checked at the start only, so that years of waiting cost
// next to nothing. Events are delivered at their instants all the same. What a
// [Rehearsal.Crash] leaves is found when its lease has run out, by a sweep: to see how
// long that takes, give the program's own [almanac.WithLease] and
// [almanac.WithSweep], and rehearse hours instead of years.
//
// It fails t at once outside of a bubble, and where the options are refused.
func Rehearse(t testing.TB, registry almanac.Registry, options ...almanac.Option) *Rehearsal {
	t.Helper()
	if !inBubble() {
		t.Fatal("almanactest: a rehearsal outside of a testing/synctest bubble would take as long as the performance")
	}
	r := &Rehearsal{Repository: NewRepository(nil), t: t}
	r.store = &mortal{Repository: r.Repository}
	const day = 24 * time.Hour
	unhurried := []almanac.Option{
		almanac.WithLogger(slog.New(slog.DiscardHandler)),
		almanac.WithPoll(day), almanac.WithSweep(day), almanac.WithLease(day), almanac.WithZoneCheck(36500 * day),
	}
	scheduler, err := almanac.NewScheduler(r.store, registry, append(unhurried, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	r.Scheduler = scheduler
	return r
}

// inBubble reports whether time is virtual.
func inBubble() (yes bool) {
	defer func() { yes = recover() == nil }()
	synctest.Wait()
	return true
}

// For runs the program for a while, as [Rehearsal.Until] does.
func (r *Rehearsal) For(d time.Duration) {
	r.t.Helper()
	r.Until(r.Repository.clock().Add(d))
}

// Until runs the program until an instant and stops it. What is due at that very
// instant is not begun, and what is in hand is let finish (see
// [almanac.WithDrain]). It fails t at once if the instant has passed, or when the
// program cannot run.
func (r *Rehearsal) Until(at time.Time) {
	r.t.Helper()
	if now := r.Repository.clock(); at.Before(now) {
		r.t.Fatalf("almanactest: cannot run until %s, it is %s", at.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	end, cancel := context.WithDeadline(r.t.Context(), at)
	defer cancel()
	for end.Err() == nil {
		r.live(end, at)
	}
}

// live runs one process until shortly before the end, or until it dies. Timers of
// one instant fire in any order; this one has to be the first.
func (r *Rehearsal) live(end context.Context, at time.Time) {
	r.t.Helper()
	ctx, stop := context.WithDeadline(end, at.Add(-time.Microsecond))
	defer stop()
	r.store.revive(stop)
	if err := r.Scheduler.Run(ctx); err != nil {
		r.t.Fatalf("almanactest: %v", err)
	}
	if !r.store.dead() {
		<-end.Done()
	}
}

// Crash ends the program as a kill does, in the middle of a delivery, which has to be
// the caller. It does not return. Nothing comes of what the process had in hand: it
// is delivered again when its leases have run out, and the crash is counted. Another
// process takes its place as soon as its deliveries have returned, for which they
// have as long as [almanac.WithDrain] says.
//
// A crash in the first attempt at each event:
//
//	recorder.Deliverer = almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
//		if d.Event.CrashCount == 0 {
//			rehearsal.Crash()
//		}
//		return nil
//	})
func (r *Rehearsal) Crash() {
	r.t.Helper()
	if !r.store.die() {
		r.t.Fatal("almanactest: a crash while no program runs")
	}
	runtime.Goexit()
}
