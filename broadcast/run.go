package broadcast

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/backoff"
)

// RunOptions are options of [Sender.Run]. The zero RunOptions stores at an unlimited rate.
type RunOptions struct {
	// Rate is the most users to read in one second, which leaves capacity of the database to other work. It must not be negative. Zero means
	// no limit.
	Rate int
	// Poll is how long Run waits when there is nothing to do, before it looks again: at least 100 ms. Zero means 5 s. Start, Complete, Stop and
	// Resume of this Sender wake it.
	Poll time.Duration
	// Log gets a line for each error. Nil means [slog.Default].
	Log *slog.Logger
}

const (
	pageSize = 1000
	term     = 30 * time.Second // longer than a page can take
)

// Run stores the events of broadcasts, and cancels those of stopped ones, until ctx ends. Any number of programs may run it, beside
// [almanac.Runner].Run or without: each broadcast is the work of one program at a time, and of another one within 30 seconds when that program has died.
// A page of up to 1,000 users is stored in two transactions at once, on two connections. They lock the users meanwhile. Users who are locked by another
// transaction are tried again when the others are stored, seven times in 21 minutes, and after a resume. Stopped broadcasts come before all others.
// One whose events cannot be cancelled is tried again after ten seconds, and the others are stored meanwhile.
//
// Broadcasts of types that have no handler in this program are left to others, except that it cancels and requeues their events. Run tries again after errors, and logs them.
// It returns an [*almanac.ValidationError] if an option is invalid, and otherwise nil when ctx ends.
func (s *Sender) Run(ctx context.Context, o RunOptions) error {
	w, err := s.worker(o)
	if err != nil {
		return err
	}
	again := backoff.Exponential{First: 100 * time.Millisecond, Max: 10 * time.Second, Factor: 3, Jitter: 0.2}
	for failures := 0; ctx.Err() == nil; {
		begun := time.NewTimer(w.every)
		worked, err := w.step(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			w.log.ErrorContext(ctx, "broadcast failed", slog.String("broadcast", w.name), slog.Any("error", err))
			s.wait(ctx, time.After(again.Delay(failures, rand.Float64())), nil)
		case !worked:
			failures = 0
			s.wait(ctx, time.After(w.poll), s.started)
		default:
			failures = 0
			s.wait(ctx, begun.C, nil)
		}
		begun.Stop()
	}
	return nil
}

// RunOnce does what Run would do now, and returns when nothing is left to do at present, for hosts that run on a schedule. It returns the
// first error. If this program cannot plan the events of a broadcast, or cancel those of a stopped one, it does the others before it returns that.
func (s *Sender) RunOnce(ctx context.Context, o RunOptions) error {
	w, err := s.worker(o)
	if err != nil {
		return err
	}
	var first error
	for ctx.Err() == nil {
		begun := time.NewTimer(w.every)
		worked, err := w.step(ctx)
		if err != nil && worked {
			first, err = cmp.Or(first, err), nil
		}
		if err != nil || !worked {
			return cmp.Or(first, err)
		}
		s.wait(ctx, begun.C, nil)
	}
	return context.Cause(ctx)
}

// worker returns a worker with the options.
func (s *Sender) worker(o RunOptions) (*worker, error) {
	w := &worker{Sender: s, token: uuid.New(), limit: pageSize, poll: cmp.Or(o.Poll, 5*time.Second), log: o.Log}
	switch {
	case o.Rate < 0:
		return nil, &almanac.ValidationError{Fields: []almanac.FieldError{{Field: "rate", Problem: "is negative"}}}
	case w.poll < 100*time.Millisecond:
		return nil, &almanac.ValidationError{Fields: []almanac.FieldError{{Field: "poll", Problem: "is less than 100 ms"}}}
	}
	if w.log == nil {
		w.log = slog.Default()
	}
	if o.Rate > 0 {
		w.limit = min(pageSize, o.Rate)
		w.every = time.Duration(w.limit) * time.Second / time.Duration(o.Rate)
	}
	return w, nil
}

func (s *Sender) wait(ctx context.Context, over <-chan time.Time, wake <-chan struct{}) {
	select {
	case <-over:
	case <-wake:
	case <-ctx.Done():
	}
}

// worker is a Run.
type worker struct {
	*Sender
	token   uuid.UUID
	limit   int
	every   time.Duration // the least time that a page takes
	poll    time.Duration
	log     *slog.Logger
	name    string   // the broadcast of the last step
	without []string // the types, and lanes of broadcasts, whose events this program cannot plan
}

// step does the next page of a broadcast. It reports false if there is nothing to do, or after an error. It reports true with the error if this
// program cannot plan the events of the broadcast, which it leaves to other programs from then on, or cannot cancel those of a stopped one.
func (w *worker) step(ctx context.Context) (worked bool, err error) {
	w.name = ""
	t, found, err := w.store.TakeBroadcast(ctx, w.token, term, w.without)
	if err != nil || !found {
		return false, err
	}
	w.name = t.Name
	ctx = context.WithoutCancel(ctx) // the result of a cancelled transaction would be unknown
	switch {
	case t.State == Stopped:
		_, err = w.scheduler.CancelEach(ctx, func() ([]almanac.Event, error) { return w.store.CancelBroadcast(ctx, t, term, w.limit) })
	case t.Requeue:
		_, err = w.scheduler.RequeueEach(ctx, func(again func([]almanac.Event, []almanac.User, time.Time) ([]almanac.Event, error)) ([]almanac.Event, error) {
			return w.store.RequeueBroadcast(ctx, t, term, w.limit, again)
		})
	case t.Zone.Skipped:
		_, err = w.store.StoreBroadcast(ctx, t, term, w.limit, nil)
	default:
		_, err = w.scheduler.ScheduleAtEach(ctx, t.Type, t.options(t.Zone), func(plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error)) (almanac.AddEventsResult, error) {
			return w.store.StoreBroadcast(ctx, t, term, w.limit, plan)
		})
	}
	switch {
	case errors.Is(err, ErrTaken):
		return true, nil
	case errors.Is(err, almanac.ErrUnsupportedEventType):
		w.without = append(w.without, t.Type) // another program may have the handler
		return true, err
	case errors.Is(err, almanac.ErrInvalid):
		w.without = append(w.without, t.Lane()) // another program may have another handler
		return true, err
	}
	return err == nil || t.State == Stopped, err
}
