package almanac_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// receiver remembers what was delivered to it and answers from a list; after the
// last answer it accepts everything.
type receiver struct {
	mu      sync.Mutex
	got     []almanac.Delivery
	answers []error
}

func (r *receiver) Deliver(_ context.Context, d almanac.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, d)
	if n := len(r.got); n <= len(r.answers) {
		return r.answers[n-1]
	}
	return nil
}

func (r *receiver) deliveries() []almanac.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]almanac.Delivery(nil), r.got...)
}

var errBusy = errors.New("receiver is busy")

// soon is a retry policy for tests: the same shape, milliseconds apart.
var soon = almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: 5 * time.Millisecond, Factor: 1}}

func TestRunDeliversOnceAndStoresTheSuccessor(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}
	owed := owe(t, w.store, handler)

	w.run(t, handler)
	done := w.await(t, almanac.EventCompleted)
	next := w.await(t, almanac.EventCreated)
	require.NoError(t, w.stop())

	require.Len(t, r.deliveries(), 1)
	require.Equal(t, owed.ID, done.ID)
	require.Equal(t, done, w.event(t, owed), "observers are told what is stored")
	require.Equal(t, almanac.Completed, done.Status)
	require.Equal(t, 3, done.Version)
	require.False(t, done.ExecutedAt.Before(done.Due), "never early")
	stored := w.event(t, next)
	require.JSONEq(t, string(stored.Payload), string(next.Payload))
	next.Payload = stored.Payload // a database spells JSON its own way
	require.Equal(t, stored, next)
	require.Equal(t, almanac.Pending, next.Status)
	require.Equal(t, 1, next.Version)
	require.Equal(t, handler.seconds[1], next.Due)
	require.NotEqual(t, owed.IdempotencyKey, next.IdempotencyKey)
	require.Greater(t, next.OccurrenceKey, done.OccurrenceKey)
}

func TestRunTriesAgainWithTheSameKeyAndPayload(t *testing.T) {
	t.Parallel()
	w, r := open(t), &receiver{answers: []error{errBusy, errBusy}}
	handler := series{Execution: soon, eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	owed := owe(t, w.store, handler)

	w.run(t, handler)
	done := w.await(t, almanac.EventCompleted)
	require.NoError(t, w.stop())

	got := r.deliveries()
	require.Len(t, got, 3)
	for i, d := range got {
		require.Equal(t, i+1, d.Attempt)
		require.Equal(t, owed.IdempotencyKey, d.Event.IdempotencyKey)
		require.Equal(t, got[0].Event.Payload, d.Event.Payload)
	}
	require.Equal(t, 2, done.RetryCount)
	require.Equal(t, 3, done.ClaimCount)
	require.Equal(t, 7, done.Version, "three claims, two releases, one completion")
	require.Equal(t, errBusy.Error(), done.LastError)
}

func TestRunGivesUpAndTheSeriesGoesOn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answers []error
		retries int
		reason  string
	}{
		"at once, after a permanent failure":  {[]error{almanac.Permanent(errors.New("HTTP 404"))}, 1, "HTTP 404"},
		"when the last attempt has failed":    {[]error{errBusy, errBusy, errBusy}, 3, errBusy.Error()},
		"when the receiver asks for patience": {[]error{almanac.RetryAfter(time.Millisecond, errBusy), errBusy, errBusy}, 3, errBusy.Error()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := open(t), &receiver{answers: tt.answers}
			handler := series{Execution: soon, eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}
			owe(t, w.store, handler)

			w.run(t, handler)
			failed := w.await(t, almanac.EventFailed)
			next := w.await(t, almanac.EventCreated)
			require.NoError(t, w.stop())

			require.Equal(t, almanac.Failed, failed.Status)
			require.Equal(t, tt.reason, failed.FailureReason)
			require.Equal(t, tt.retries, failed.RetryCount)
			require.True(t, failed.ExecutedAt.IsZero())
			require.Equal(t, handler.seconds[1], next.Due, "one failure must not end a series")
			require.Len(t, r.deliveries(), len(tt.answers))
		})
	}
}

func TestRunWaitsAsLongAsTheReceiverAsks(t *testing.T) {
	t.Parallel()
	w, r := open(t), &receiver{answers: []error{almanac.RetryAfter(time.Hour, errBusy)}}
	handler := series{Execution: soon, eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	owe(t, w.store, handler)

	w.run(t, handler)
	released := w.await(t, almanac.EventReleased)
	require.NoError(t, w.stop())

	require.GreaterOrEqual(t, released.AvailableAt.Sub(released.UpdatedAt), time.Hour-time.Second)
	require.Equal(t, handler.seconds[0], released.Due, "the target stays")
}

func TestRunSurvivesDeliveriesThatDoNotReturn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		deliver func()
		reason  string
	}{
		"a panic":               {func() { panic("out of cheese") }, "delivery panicked: out of cheese"},
		"the end of its thread": {runtime.Goexit, "delivery ended its goroutine"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			handler := series{Execution: soon, eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
				tt.deliver()
				return nil
			}}
			owe(t, w.store, handler)

			w.run(t, handler)
			failed := w.await(t, almanac.EventFailed)
			require.NoError(t, w.stop())

			require.Equal(t, tt.reason, failed.FailureReason)
			require.Equal(t, 3, failed.RetryCount, "it counts as an attempt")
		})
	}
}

func TestRunBoundsAnAttempt(t *testing.T) {
	t.Parallel()
	w := open(t)
	execution := soon
	execution.AttemptTimeout = 10 * time.Millisecond
	handler := series{Execution: execution, eventType: "DIGEST", seconds: ago(time.Minute), execute: func(ctx context.Context, _ almanac.Delivery) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	owe(t, w.store, handler)

	w.run(t, handler)
	failed := w.await(t, almanac.EventFailed)

	require.Equal(t, 3, failed.RetryCount)
	require.Equal(t, context.DeadlineExceeded.Error(), failed.FailureReason)
}

func TestRunGivesBackWhatItCannotFinish(t *testing.T) {
	t.Parallel()
	w := open(t)
	begun := make(chan struct{})
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(ctx context.Context, _ almanac.Delivery) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}}
	owed := owe(t, w.store, handler)

	w.run(t, handler, almanac.WithDrain(0))
	<-begun
	require.NoError(t, w.stop())

	released := w.event(t, owed)
	require.Equal(t, almanac.Pending, released.Status)
	require.Zero(t, released.RetryCount, "a shutdown is no failure of the event's")
	require.False(t, released.AvailableAt.After(released.UpdatedAt), "another process can have it at once")
	require.Equal(t, 1, released.ClaimCount)
}

func TestRunLetsDeliveriesFinish(t *testing.T) {
	t.Parallel()
	w := open(t)
	begun, finish := make(chan struct{}), make(chan struct{})
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(ctx context.Context, _ almanac.Delivery) error {
		close(begun)
		<-finish
		return ctx.Err()
	}}
	owed := owe(t, w.store, handler)

	w.run(t, handler)
	<-begun
	stopped := make(chan error)
	go func() { stopped <- w.stop() }()
	close(finish)
	require.NoError(t, <-stopped)

	require.Equal(t, almanac.Completed, w.event(t, owed).Status)
}

func TestRunTakesOverFromTheDead(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	owed := owe(t, w.store, handler)
	claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{ // by a process that is never heard of again
		Token: uuid.New(), Owner: "dead", Types: []string{"DIGEST"}, Limit: 1, Lease: time.Millisecond,
	})
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)

	w.run(t, handler, almanac.WithSweep(10*time.Millisecond))
	done := w.await(t, almanac.EventCompleted)

	require.Equal(t, 1, done.CrashCount)
	require.Equal(t, 2, done.ClaimCount)
	require.Zero(t, done.RetryCount)
	require.Len(t, r.deliveries(), 1)
	require.Equal(t, owed.IdempotencyKey, r.deliveries()[0].Event.IdempotencyKey)
	settled, err := w.store.Settle(t.Context(), []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.GaveUp("woke up late")}})
	require.NoError(t, err)
	require.ErrorIs(t, settled[0].Err, almanac.ErrLeaseLost)
	require.Equal(t, done, w.event(t, owed), "the dead overwrite nothing")
}

func TestRunSparesTheProcessFromWhatKilledFive(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}
	owe(t, w.store, handler)
	for crashes := 0; crashes < 5; {
		_, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"DIGEST"}, Limit: 1, Lease: time.Microsecond})
		require.NoError(t, err)
		released, err := w.store.ReleaseExpired(t.Context(), 1)
		require.NoError(t, err)
		crashes += len(released)
	}

	w.run(t, handler)
	failed := w.await(t, almanac.EventFailed)

	require.Equal(t, "worker died 5 times", failed.FailureReason)
	require.Equal(t, handler.seconds[1], w.await(t, almanac.EventCreated).Due)
	require.Empty(t, r.deliveries())
}

func TestRunLeavesOtherTypesAlone(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	mine := series{eventType: "MINE", seconds: ago(time.Minute), execute: r.Deliver}
	theirs := owe(t, w.store, series{eventType: "THEIRS", seconds: ago(time.Hour), execute: r.Deliver})
	owe(t, w.store, mine)

	w.run(t, mine)
	w.await(t, almanac.EventCompleted)
	require.NoError(t, w.stop())

	require.Equal(t, theirs, w.event(t, theirs))
}

func TestRunAppliesTheHostsChecks(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	owe(t, w.store, handler)

	w.run(t, handler, almanac.WithChecks(func(almanac.Event, time.Time) error { return errors.New("unsubscribed") }))

	require.Equal(t, "unsubscribed", w.await(t, almanac.EventFailed).FailureReason)
	require.Empty(t, r.deliveries())
}

// The engine sleeps for an hour when it knows of nothing; whoever stores an event
// in the same process wakes it.
func TestRunWakesForAnEventThatIsStoredMeanwhile(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	past := series{eventType: "PAST", seconds: ago(time.Minute), execute: r.Deliver}
	due := time.Now().UTC().Truncate(time.Second).Add(3 * time.Second)
	soon := series{eventType: "SOON", seconds: []time.Time{due}, execute: r.Deliver}
	owe(t, w.store, past)

	scheduler := w.runAll(t, []almanac.EventHandler{past, soon}, almanac.WithPoll(time.Hour))
	w.await(t, almanac.EventCompleted)
	_, err := scheduler.CreateUser(t.Context(), grace)
	require.NoError(t, err)
	done := w.await(t, almanac.EventCompleted)

	require.Equal(t, "SOON", done.Type)
	require.False(t, done.ExecutedAt.Before(due), "never early")
	require.False(t, r.deliveries()[1].At.Before(due), "never early")
}

func TestRunRefusesToRunTwice(t *testing.T) {
	t.Parallel()
	w := open(t)
	var running atomic.Bool
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
		running.Store(true)
		return nil
	}}
	owe(t, w.store, handler)
	scheduler := w.run(t, handler)
	w.await(t, almanac.EventCompleted)
	require.True(t, running.Load())

	require.ErrorIs(t, scheduler.Run(t.Context()), almanac.ErrRunning)
}

// smallSteps is a repository that has the time to release few events at once.
type smallSteps struct {
	almanac.Repository
	failed atomic.Int64
}

func (r *smallSteps) ReleaseExpired(ctx context.Context, limit int) ([]almanac.Event, error) {
	if limit > 100 {
		r.failed.Add(1)
		return nil, context.DeadlineExceeded
	}
	return r.Repository.ReleaseExpired(ctx, limit)
}

// What is too much for one step is tried in half as large ones, a sweep later each time.
func TestTheSweepTakesSmallerStepsAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		steps := &smallSteps{Repository: almanactest.NewRepository(nil)}
		w, accepted := openOn(steps), new(receiver)
		h := series{eventType: "FINE", seconds: ago(time.Minute), execute: accepted.Deliver}
		owe(t, w.store, h)
		claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"FINE"}, Limit: 1, Lease: time.Millisecond})
		require.NoError(t, err)
		require.Len(t, claim.Events, 1)

		w.runAll(t, []almanac.EventHandler{h}, almanac.WithSweep(time.Second))
		w.await(t, almanac.EventCompleted)

		require.NoError(t, w.stop())
		require.EqualValues(t, 5, steps.failed.Load(), "2,000, 1,000, 500, 250, 125")
	})
}
