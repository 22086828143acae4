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

// Rehearsal is a program that runs on an in-memory repository, in the virtual time of a
// testing/synctest bubble. Years pass in the time that the deliveries take. The program runs
// only within [Rehearsal.For] and [Rehearsal.Until]. Between these calls the test may create,
// edit and delete users. It may also call time.Sleep, which acts as a downtime of the program.
type Rehearsal struct {
	// Repository stores the program's users and events.
	Repository *Repository
	// Scheduler is the program's scheduler, with the given registry and options.
	Scheduler almanac.Scheduler

	t     testing.TB
	store *killable
}

// Rehearse returns a rehearsal of the registry's event types. It begins at the current time
// of the bubble: a bubble's clock starts at 2000-01-01T00:00:00Z, and time.Sleep advances
// it. Give a [Recorder] as the deliverer of each channel:
//
//	letters := new(almanactest.Recorder)
//	rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer("letter", letters))
//
// By default nothing is logged, a lease lasts for a day, polls and sweeps are a day apart, and
// zones are checked only at the start. Years of waiting then cost next to nothing, and events
// are still delivered at their instants. The options may override each of these defaults.
//
// After a [Rehearsal.Crash], a sweep finds the events when their lease has expired. To test
// how long that takes, give the program's own [almanac.WithLease] and [almanac.WithSweep],
// and rehearse hours instead of years.
//
// It fails t at once outside of a bubble, and when the options are refused.
func Rehearse(t testing.TB, registry almanac.Registry, options ...almanac.Option) *Rehearsal {
	t.Helper()
	if !inBubble() {
		t.Fatal("almanactest: Rehearse was called outside of a testing/synctest bubble")
	}
	r := &Rehearsal{Repository: NewRepository(nil), t: t}
	r.store = &killable{Repository: r.Repository}
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

// For runs the program for a duration, as [Rehearsal.Until] does.
func (r *Rehearsal) For(d time.Duration) {
	r.t.Helper()
	r.Until(r.Repository.clock().Add(d))
}

// Until runs the program until an instant and stops it. Events due at exactly that instant
// are not started, and running deliveries may finish (see [almanac.WithDrain]). It fails t
// at once if the instant has passed, or when the program cannot run.
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

// live runs one process until it dies, or until shortly before the end. Timers of one
// instant fire in any order, and this one must fire first.
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

// Crash kills the program in the middle of a delivery; the delivery must call it. Crash does
// not return. The process stores no results of its events. They are delivered again when
// their leases have expired, and the crash is counted. Another process starts as soon as the
// deliveries of the first have returned, for which they have the time of [almanac.WithDrain].
//
// To crash in the first attempt at each event:
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
		r.t.Fatal("almanactest: Crash was called while no program runs")
	}
	runtime.Goexit()
}
