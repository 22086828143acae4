package almanac_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/almanac-go/almanac/internal/engine"
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

// keys returns the occurrence keys of the deliveries, in their order.
func (r *receiver) keys() (keys []string) {
	for _, d := range r.deliveries() {
		keys = append(keys, d.Event.OccurrenceKey)
	}
	return keys
}

var errBusy = errors.New("receiver is busy")

// soon is a retry policy for tests: the same shape, milliseconds apart.
var soon = almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: 5 * time.Millisecond, Factor: 1}}

func TestRunDeliversOnceAndStoresTheSuccessor(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}
	pending := storeEvent(t, w.store, handler)

	w.run(t, handler)
	done := w.await(t, almanac.EventCompleted)
	next := w.await(t, almanac.EventCreated)
	require.NoError(t, w.stop())

	require.Len(t, r.deliveries(), 1)
	require.Equal(t, pending.ID, done.ID)
	require.Equal(t, done, w.event(t, pending), "observers are notified of the stored event")
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
	require.NotEqual(t, pending.IdempotencyKey, next.IdempotencyKey)
	require.Greater(t, next.OccurrenceKey, done.OccurrenceKey)
}

func TestRunTriesAgainWithTheSameKeyAndPayload(t *testing.T) {
	t.Parallel()
	w, r := open(t), &receiver{answers: []error{errBusy, errBusy}}
	handler := series{Execution: soon, eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	pending := storeEvent(t, w.store, handler)

	w.run(t, handler)
	done := w.await(t, almanac.EventCompleted)
	require.NoError(t, w.stop())

	got := r.deliveries()
	require.Len(t, got, 3)
	for i, d := range got {
		require.Equal(t, i+1, d.Attempt)
		require.Equal(t, pending.IdempotencyKey, d.Event.IdempotencyKey)
		require.Equal(t, got[0].Event.Payload, d.Event.Payload)
	}
	require.Equal(t, 2, done.RetryCount)
	require.Equal(t, 3, done.ClaimCount)
	require.Equal(t, 7, done.Version, "three claims, two releases, one completion")
	require.Equal(t, errBusy.Error(), done.LastError)
}

func TestRunFailsAnEventAndTheSeriesContinues(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answers []error
		retries int
		reason  string
	}{
		"at once, after a permanent failure":    {[]error{almanac.Permanent(errors.New("HTTP 404"))}, 1, "HTTP 404"},
		"when the last attempt has failed":      {[]error{errBusy, errBusy, errBusy}, 3, errBusy.Error()},
		"when the receiver answers Retry-After": {[]error{almanac.RetryAfter(time.Millisecond, errBusy), errBusy, errBusy}, 3, errBusy.Error()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := open(t), &receiver{answers: tt.answers}
			handler := series{Execution: soon, eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}
			storeEvent(t, w.store, handler)

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
	storeEvent(t, w.store, handler)

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
			storeEvent(t, w.store, handler)

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
	storeEvent(t, w.store, handler)

	w.run(t, handler)
	failed := w.await(t, almanac.EventFailed)

	require.Equal(t, 3, failed.RetryCount)
	require.Equal(t, context.DeadlineExceeded.Error(), failed.FailureReason)
}

// A handler that says nothing about it gets twenty seconds.
func TestAnAttemptMayTakeTwentySecondsByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		var took time.Duration
		handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(ctx context.Context, _ almanac.Delivery) error {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			return almanac.Permanent(context.Cause(ctx))
		}}
		storeEvent(t, w.store, handler)
		w.run(t, handler)
		w.await(t, almanac.EventFailed)
		require.NoError(t, w.stop())
		require.Equal(t, 20*time.Second, took)
	})
}

func TestRunReleasesUnfinishedEvents(t *testing.T) {
	t.Parallel()
	w := open(t)
	begun := make(chan struct{})
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(ctx context.Context, _ almanac.Delivery) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}}
	pending := storeEvent(t, w.store, handler)

	w.run(t, handler, almanac.WithDrain(0))
	<-begun
	require.NoError(t, w.stop())

	released := w.event(t, pending)
	require.Equal(t, almanac.Pending, released.Status)
	require.Zero(t, released.RetryCount, "a shutdown is no failure of the event's")
	require.False(t, released.AvailableAt.After(released.UpdatedAt), "another process can have it at once")
	require.Equal(t, 1, released.ClaimCount)
}

func TestRunLetsDeliveriesFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, begun := openOn(almanactest.NewRepository(nil)), make(chan struct{})
		handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(ctx context.Context, _ almanac.Delivery) error {
			close(begun)
			time.Sleep(5 * time.Second)
			return ctx.Err()
		}}
		pending := storeEvent(t, w.store, handler)

		w.run(t, handler)
		<-begun
		require.NoError(t, w.stop())

		require.Equal(t, almanac.Completed, w.event(t, pending).Status)
	})
}

func TestRunTakesOverEventsOfDeadProcesses(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	pending := storeEvent(t, w.store, handler)
	claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{ // by a process that dies
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
	require.Equal(t, pending.IdempotencyKey, r.deliveries()[0].Event.IdempotencyKey)
	settled, err := w.store.Settle(t.Context(), []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.GaveUp("woke up late")}})
	require.NoError(t, err)
	require.ErrorIs(t, settled[0].Err, almanac.ErrLeaseLost)
	require.Equal(t, done, w.event(t, pending), "the dead overwrite nothing")
}

func TestRunFailsAnEventAfterFiveCrashes(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}
	storeEvent(t, w.store, handler)
	for crashes := 0; crashes < 5; {
		_, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"DIGEST"}, Limit: 1, Lease: time.Microsecond})
		require.NoError(t, err)
		released, err := w.store.ReleaseExpired(t.Context(), 1, 1000)
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
	theirs := storeEvent(t, w.store, series{eventType: "THEIRS", seconds: ago(time.Hour), execute: r.Deliver})
	storeEvent(t, w.store, mine)

	w.run(t, mine)
	w.await(t, almanac.EventCompleted)
	require.NoError(t, w.stop())

	require.Equal(t, theirs, w.event(t, theirs))
}

func TestRunAppliesTheHostsChecks(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	storeEvent(t, w.store, handler)

	w.run(t, handler, almanac.WithChecks(func(almanac.Event, time.Time) error { return errors.New("unsubscribed") }))

	require.Equal(t, "unsubscribed", w.await(t, almanac.EventFailed).FailureReason)
	require.Empty(t, r.deliveries())
}

// What a check asks for is done, as if the delivery had asked for it.
func TestACheckPostponesAndCallsOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refusal error
		kind    almanac.NoticeKind
		reason  string
	}{
		"postponed":  {almanac.Snooze(time.Hour, "Sunday"), almanac.EventReleased, ""},
		"called off": {fmt.Errorf("moved: %w", almanac.NotOwed("moved away")), almanac.EventCancelled, "moved away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := open(t), new(receiver)
			handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
			storeEvent(t, w.store, handler)

			w.run(t, handler, almanac.WithChecks(func(almanac.Event, time.Time) error { return tt.refusal }))

			e := w.await(t, tt.kind)
			require.Equal(t, tt.reason, e.FailureReason)
			require.Zero(t, e.RetryCount)
			require.Empty(t, r.deliveries())
		})
	}
}

// The engine sleeps for an hour when it knows of no event. An event that the same process
// stores wakes it.
func TestRunWakesForAnEventThatIsStoredMeanwhile(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	past := series{eventType: "PAST", seconds: ago(time.Minute), execute: r.Deliver}
	soon := series{eventType: "SOON", execute: r.Deliver} // every second second, however long the start takes
	for i := range 60 {
		soon.seconds = append(soon.seconds, time.Now().UTC().Truncate(time.Second).Add(time.Duration(2*i)*time.Second))
	}
	storeEvent(t, w.store, past)

	scheduler := w.runAll(t, []almanac.EventHandler{past, soon}, almanac.WithPoll(time.Hour))
	w.await(t, almanac.EventCompleted)
	created, err := scheduler.CreateUser(t.Context(), grace)
	require.NoError(t, err)
	require.Len(t, created.Events, 1)
	due := created.Events[0].Due
	done := w.await(t, almanac.EventCompleted)

	require.Equal(t, created.Events[0].ID, done.ID)
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
	storeEvent(t, w.store, handler)
	scheduler := w.run(t, handler)
	w.await(t, almanac.EventCompleted)
	require.True(t, running.Load())

	require.ErrorIs(t, scheduler.Run(t.Context()), almanac.ErrRunning)
}

// smallSteps is a repository that has the time to claim or release few events at once.
type smallSteps struct {
	almanac.Repository
	failed atomic.Int64
}

func (r *smallSteps) Claim(ctx context.Context, c almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if c.Limit > 100 {
		r.failed.Add(1)
		return almanac.ClaimResult{}, context.DeadlineExceeded
	}
	return r.Repository.Claim(ctx, c)
}

func (r *smallSteps) ReleaseExpired(ctx context.Context, limit, most int) ([]almanac.Event, error) {
	if limit > 100 {
		r.failed.Add(1)
		return nil, context.DeadlineExceeded
	}
	return r.Repository.ReleaseExpired(ctx, limit, most)
}

// What is too much for one step is tried in half as large ones, a sweep later each time.
func TestTheSweepTakesSmallerStepsAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		steps := &smallSteps{Repository: almanactest.NewRepository(nil)}
		w, accepted := openOn(steps), new(receiver)
		h := series{eventType: "FINE", seconds: ago(time.Minute), execute: accepted.Deliver}
		storeEvent(t, w.store, h)
		claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"FINE"}, Limit: 1, Lease: time.Millisecond})
		require.NoError(t, err)
		require.Len(t, claim.Events, 1)

		w.runAll(t, []almanac.EventHandler{h}, almanac.WithSweep(time.Second))
		w.await(t, almanac.EventCompleted)

		require.NoError(t, w.stop())
		require.EqualValues(t, 6, steps.failed.Load(), "2,000, 1,000, 500, 250, 125, and 124 after a quick one")
	})
}

// Events that are too much for one claim are claimed in parts.
func TestClaimsAreSmallerAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const due = 400
		steps := &smallSteps{Repository: almanactest.NewRepository(nil)}
		w, accepted := openOn(steps), new(receiver)
		h := series{eventType: "FINE", seconds: ago(time.Minute), execute: accepted.Deliver}
		for range due {
			storeEvent(t, w.store, h)
		}

		w.runAll(t, []almanac.EventHandler{h}, almanac.WithWorkers(due))
		for range due {
			w.await(t, almanac.EventCompleted)
		}

		require.NoError(t, w.stop())
		require.GreaterOrEqual(t, steps.failed.Load(), int64(2), "400, 200")
	})
}

// swept is a repository that keeps how many events each call may release.
type swept struct {
	almanac.Repository
	mu     sync.Mutex
	limits []int
}

func (r *swept) ReleaseExpired(ctx context.Context, limit, most int) ([]almanac.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limits = append(r.limits, limit)
	return r.Repository.ReleaseExpired(ctx, limit, most)
}

// The events of a dead process are released at most 2,000 in a transaction, however many they are.
func TestTheSweepReleasesABoundedNumberOfEventsAtATime(t *testing.T) {
	t.Parallel()
	for name, sweep := range map[string]func(*testing.T, *world, series){
		"of Run": func(t *testing.T, w *world, h series) {
			w.run(t, h, almanac.WithSweep(time.Second))
			time.Sleep(10 * time.Second)
			require.NoError(t, w.stop())
		},
		"of RunOnce": func(t *testing.T, w *world, h series) {
			_, err := w.scheduler(t, h).RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &swept{Repository: almanactest.NewRepository(nil)}
				sweep(t, openOn(r), series{eventType: "FINE", seconds: ago(-time.Hour)})
				require.NotEmpty(t, r.limits)
				for _, limit := range r.limits {
					require.Equal(t, 2000, limit)
				}
			})
		})
	}
}

// Whatever a delivery answers to which its user was deleted: it is made once,
// observers are not notified of an outcome that is not stored, and the worker goes on.
func TestRunStopsQuietlyWhenTheUserIsDeletedAtOnce(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"delivered":         nil,
		"to be tried again": errBusy,
		"failed":            almanac.Permanent(errBusy),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			var deleted, next almanac.Event
			var scheduler almanac.Scheduler
			ready, attempts := make(chan struct{}), 0
			handler := series{Execution: soon, eventType: "DIGEST", execute: func(ctx context.Context, d almanac.Delivery) error {
				if d.Event.ID != deleted.ID {
					return nil
				}
				<-ready
				attempts++
				met, err := scheduler.DeleteUser(ctx, d.Event.UserID, almanac.DeleteOptions{AtOnce: true})
				if err != nil || len(met.InFlight) != 1 {
					t.Errorf("deletion %+v, error %v", met, err)
				}
				return answer
			}}
			handler.seconds = ago(time.Hour, nextYear)
			deleted = storeEvent(t, w.store, handler)
			handler.seconds = ago(time.Minute, nextYear)
			next = storeEvent(t, w.store, handler)
			var log bytes.Buffer

			scheduler = w.run(t, handler, almanac.WithWorkers(1), almanac.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
			close(ready)
			var notified []almanac.NoticeKind
			for n := range w.notices {
				require.NotEqual(t, n.Event.ID, n.User.ID, "%s is notified of nothing", n.Kind)
				if n.Event.ID == deleted.ID || n.User.ID == deleted.UserID {
					notified = append(notified, n.Kind)
				} else if n.Kind == almanac.EventCreated {
					break
				}
			}
			require.NoError(t, w.stop())
			close(w.notices)
			for n := range w.notices {
				require.NotEqual(t, n.Event.ID, n.User.ID, "%s is notified of nothing", n.Kind)
				require.NotEqual(t, deleted.UserID, n.Event.UserID, "%s is notified of a deleted user", n.Kind)
			}

			require.Equal(t, []almanac.NoticeKind{almanac.EventClaimed, almanac.UserDeleted}, notified)
			require.Equal(t, 1, attempts)
			require.Equal(t, almanac.Completed, w.event(t, next).Status)
			require.Empty(t, log.String(), "nothing went wrong")
			_, err := w.store.User(t.Context(), deleted.UserID)
			require.ErrorIs(t, err, almanac.ErrNotFound)
			n, err := w.store.Count(t.Context(), almanac.ForUser(deleted.UserID))
			require.NoError(t, err)
			require.Zero(t, n, "no successor")
		})
	}
}

// A lease that holds nothing any more is lost when it would be renewed, and with it
// the reason to go on.
func TestRunCancelsALongDeliveryWhenTheUserIsDeletedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		started, ended := make(chan uuid.UUID), make(chan error, 1)
		handler := series{
			Execution: almanac.Execution{AttemptTimeout: 24 * time.Hour}, eventType: "DIGEST", seconds: ago(time.Minute),
			execute: func(ctx context.Context, d almanac.Delivery) error {
				started <- d.Event.UserID
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return ctx.Err()
			},
		}
		registry, err := almanac.NewRegistry(handler)
		require.NoError(t, err)
		scheduler, err := almanac.NewScheduler(repository, registry)
		require.NoError(t, err)
		storeEvent(t, repository, handler)
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- scheduler.Run(ctx) }()

		_, err = scheduler.DeleteUser(t.Context(), <-started, almanac.DeleteOptions{AtOnce: true})
		require.NoError(t, err)

		require.ErrorIs(t, <-ended, engine.ErrLeaseLost)
		stop()
		require.NoError(t, <-stopped)
		n, err := repository.Count(t.Context(), nil)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// A deletion says what is not there also when it is asked twice.
func TestDeleteUserNotifiesOnce(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]almanac.DeleteOptions{"at once": {AtOnce: true}, "when what is in flight has ended": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repository, notified := almanactest.NewRepository(nil), 0
			s := schedulerOn(t, repository, almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
				if n.Kind == almanac.UserDeleted {
					notified++
				}
			})))
			e := enrol(t, s, "Pacific/Auckland", "1990-06-15")

			d, err := s.DeleteUser(t.Context(), e.UserID, options)
			require.NoError(t, err)
			require.Equal(t, almanac.DeleteResult{Removed: 1}, d)
			_, err = repository.Event(t.Context(), e.ID)
			require.ErrorIs(t, err, almanac.ErrNotFound)
			_, err = s.DeleteUser(t.Context(), e.UserID, options)

			var missing *almanac.NotFoundError
			require.True(t, errors.As(err, &missing))
			require.Equal(t, almanac.NotFoundError{Kind: "user", ID: e.UserID}, *missing)
			require.Equal(t, 1, notified)
		})
	}
}

// doubtful is a repository that answers from a list whether it can be worked on, and
// counts how often it was claimed from.
type doubtful struct {
	*almanactest.Repository
	answers func(asked int) error
	asked   int
	claims  atomic.Int64
}

func (d *doubtful) Verify(context.Context) error {
	d.asked++
	return d.answers(d.asked)
}

func (d *doubtful) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	d.claims.Add(1)
	return d.Repository.Claim(ctx, r)
}

func (d *doubtful) run(t *testing.T, limit time.Duration) error {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(d, registry)
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	return scheduler.Run(ctx)
}

func TestRunClaimsNothingWhereAMigrationIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &doubtful{Repository: almanactest.NewRepository(nil), answers: func(int) error { return almanac.ErrOutdated }}

		err := d.run(t, time.Hour)

		require.ErrorIs(t, err, almanac.ErrOutdated)
		require.Equal(t, 1, d.asked)
		require.Zero(t, d.claims.Load())
	})
}

func TestRunWaitsWhileTheRepositoryDoesNotAnswer(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	synctest.Test(t, func(t *testing.T) {
		d := &doubtful{Repository: almanactest.NewRepository(nil), answers: func(asked int) error {
			if asked < 4 {
				return down
			}
			return nil
		}}
		require.NoError(t, d.run(t, time.Hour))
		require.Equal(t, 4, d.asked)
		require.NotZero(t, d.claims.Load())

		d.claims.Store(0)
		d.answers = func(int) error { return down }
		require.NoError(t, d.run(t, time.Hour), "stopped before it began")
		require.Zero(t, d.claims.Load())
	})
}

// handsOn is a repository that leaves the outcomes of what was delivered to others.
type handsOn struct{ almanac.Repository }

func (h handsOn) Settle(_ context.Context, settlements []almanac.Settlement) ([]almanac.SettleResult, error) {
	answers := make([]almanac.SettleResult, len(settlements))
	for i, s := range settlements {
		answers[i] = almanac.SettleResult{Event: s.Event, Err: almanac.ErrHandedOn}
	}
	return answers, nil
}

func TestHandedOnEventsAreNotFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		u := almanactest.User()
		stored := almanactest.Store(t, repository, u, almanactest.Event(time.Now(), almanactest.For(u)))
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		require.NoError(t, err)
		var log bytes.Buffer
		var notified []almanac.NoticeKind
		handed := 0
		scheduler, err := almanac.NewScheduler(handsOn{repository}, registry,
			almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
				handed++
				return nil
			})),
			almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { notified = append(notified, n.Kind) })),
			almanac.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()

		require.NoError(t, scheduler.Run(ctx))

		require.Equal(t, 1, handed, "its lease runs yet, although this process does not renew it")
		require.Equal(t, []almanac.NoticeKind{almanac.EventClaimed}, notified)
		require.Empty(t, log.String())
		is, err := repository.Event(t.Context(), stored[0].ID)
		require.NoError(t, err)
		require.Equal(t, almanac.Processing, is.Status)
	})
}

// altered is a repository whose claims return events that are not as they must be.
type altered struct {
	almanac.Repository
	alter func(*almanac.Event)
}

func (r altered) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.ClaimResult, error) {
	claim, err := r.Repository.Claim(ctx, request)
	for i := range claim.Events {
		r.alter(&claim.Events[i])
	}
	return claim, err
}

// The repository decides what may be delivered, and the scheduler checks it again.
func TestRunChecksStatusAndAttemptsAgain(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]func(*almanac.Event){
		"the status":         func(e *almanac.Event) { e.Status = almanac.Pending },
		"the attempts":       func(e *almanac.Event) { e.RetryCount = 3 },
		"the number of dead": func(e *almanac.Event) { e.CrashCount = 5 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, r := openOn(altered{almanactest.NewRepository(nil), alter}), new(receiver)
				h := series{eventType: "FINE", seconds: ago(time.Minute), execute: r.Deliver}
				storeEvent(t, w.store, h)
				w.run(t, h)
				time.Sleep(10 * time.Second)
				_ = w.stop() // an outcome that the repository refuses is an error
				require.Empty(t, r.deliveries())
			})
		})
	}
}
