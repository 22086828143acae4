package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

func TestCancelEndsAnEventAndItsSeriesContinues(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			enrolment, err := scheduler.CreateUser(t.Context(), born(t, "Asia/Tokyo", 10))
			require.NoError(t, err)
			stored := enrolment.Events[0]

			cancelled, err := scheduler.Cancel(t.Context(), stored.ID, almanac.CancelOptions{Reason: "asked not to be greeted", Version: 1})

			require.NoError(t, err)
			require.Equal(t, almanac.Cancelled, cancelled.Event.Status)
			require.Equal(t, "asked not to be greeted", cancelled.Event.FailureReason)
			require.False(t, cancelled.Unplanned)
			require.Zero(t, cancelled.Event.RetryCount)
			require.Equal(t, w.event(t, stored), cancelled.Event)
			require.Equal(t, stored.Wall.Date.Year+1, cancelled.Successor.Wall.Date.Year, "the birthday after")
			require.Equal(t, cancelled.Event, w.await(t, almanac.EventCancelled))
			require.Equal(t, *cancelled.Successor, w.await(t, almanac.EventCreated))

			result, err := scheduler.Reschedule(t.Context(), enrolment.User.ID)
			require.NoError(t, err)
			require.Empty(t, result.Added, "what was cancelled is used up")
			require.Len(t, w.all(t), 2)
		})
	}
}

func TestCancelRefusesEventsThatAreNotPending(t *testing.T) {
	t.Parallel()
	w := openOn(almanactest.NewRepository(nil))
	scheduler := w.scheduler(t, almanac.Birthday{})
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute)}
	begun, foreign := storeEvent(t, w.store, handler), storeEvent(t, w.store, series{eventType: "FOREIGN", seconds: ago(nextYear)})
	claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"DIGEST"}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)

	_, err = scheduler.Cancel(t.Context(), uuid.New(), almanac.CancelOptions{})
	require.ErrorIs(t, err, almanac.ErrNotFound)
	_, err = scheduler.Cancel(t.Context(), begun.ID, almanac.CancelOptions{})
	require.ErrorIs(t, err, almanac.ErrInvalidStateTransition)
	_, err = scheduler.RunNow(t.Context(), begun.ID, almanac.ForceOptions{})
	require.ErrorIs(t, err, almanac.ErrInvalidStateTransition)
	_, err = scheduler.Requeue(t.Context(), begun.ID, almanac.ForceOptions{})
	require.ErrorIs(t, err, almanac.ErrInvalidStateTransition)
	_, err = scheduler.Cancel(t.Context(), foreign.ID, almanac.CancelOptions{Version: 7, EndSeries: true})
	require.ErrorIs(t, err, almanac.ErrOptimisticLock)
	require.Equal(t, foreign, w.event(t, foreign), "nothing has changed")

	cancelled, err := scheduler.Cancel(t.Context(), foreign.ID, almanac.CancelOptions{EndSeries: true})
	require.NoError(t, err)
	require.Nil(t, cancelled.Successor)
	require.False(t, cancelled.Unplanned)
	require.Empty(t, cancelled.Event.FailureReason)
	_, err = scheduler.Cancel(t.Context(), foreign.ID, almanac.CancelOptions{EndSeries: true})
	require.ErrorIs(t, err, almanac.ErrInvalidStateTransition)
}

func TestRunNowDeliversAheadOfTimeAndTheSeriesContinues(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			scheduler := w.run(t, almanac.Birthday{}, almanac.WithDeliverer(almanac.ChannelWebhook, r))
			enrolment, err := scheduler.CreateUser(t.Context(), born(t, "Asia/Tokyo", 10))
			require.NoError(t, err)
			stored := enrolment.Events[0]

			now, err := scheduler.RunNow(t.Context(), stored.ID, almanac.ForceOptions{})

			require.NoError(t, err)
			require.Equal(t, stored.OccurrenceKey, now.OccurrenceKey)
			require.Equal(t, stored.IdempotencyKey, now.IdempotencyKey)
			require.Equal(t, now.Due.Truncate(time.Second), now.Due)
			require.Equal(t, enrolment.User.Timezone.WallTime(now.Due), now.Wall)
			done := w.await(t, almanac.EventCompleted)
			require.Equal(t, stored.ID, done.ID)
			next := w.await(t, almanac.EventCreated)
			require.NoError(t, w.stop())
			require.Equal(t, stored.Wall.Date.Year+1, next.Wall.Date.Year, "this year's birthday is used up")
			require.Len(t, r.deliveries(), 1)
		})
	}
}

func TestRunNowEndsTheDelayBeforeAnotherAttempt(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), &receiver{answers: []error{errBusy}}
			patient := almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: time.Hour}}
			handler := series{Execution: patient, eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
			stored := storeEvent(t, w.store, handler)
			scheduler := w.run(t, handler)
			delayed := w.await(t, almanac.EventReleased)
			require.Greater(t, time.Until(delayed.AvailableAt), time.Minute)

			_, err := scheduler.RunNow(t.Context(), stored.ID, almanac.ForceOptions{})

			require.NoError(t, err)
			done := w.await(t, almanac.EventCompleted)
			require.NoError(t, w.stop())
			require.Equal(t, 1, done.RetryCount)
			require.Equal(t, stored.Due, done.Due, "the target stays")
		})
	}
}

func TestRequeueDeliversAgainWithTheSameKey(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), &receiver{answers: []error{almanac.Permanent(errBusy), almanac.Permanent(errBusy)}}
			handler := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}
			storeEvent(t, w.store, handler)
			scheduler := w.run(t, handler)
			failed := w.await(t, almanac.EventFailed)
			require.NotEmpty(t, w.await(t, almanac.EventCreated).ID, "the series goes on")

			again, err := scheduler.Requeue(t.Context(), failed.ID, almanac.ForceOptions{})
			require.NoError(t, err)
			require.Equal(t, again, w.await(t, almanac.EventRequeued))
			require.Equal(t, failed.OccurrenceKey, again.OccurrenceKey)
			require.Equal(t, almanac.Origin{Kind: almanac.OriginRequeued, From: failed.ID}, again.Origin)
			twice := w.await(t, almanac.EventFailed)
			require.Equal(t, again.ID, twice.ID)
			_, err = scheduler.Requeue(t.Context(), failed.ID, almanac.ForceOptions{})
			require.ErrorIs(t, err, almanac.ErrExists, "what came of it is to be requeued")
			require.ErrorContains(t, err, "as event "+again.ID.String())
			_, err = scheduler.Requeue(t.Context(), twice.ID, almanac.ForceOptions{})
			require.NoError(t, err)
			done := w.await(t, almanac.EventCompleted)
			_, err = scheduler.Reschedule(t.Context(), failed.UserID)
			require.NoError(t, err)
			require.NoError(t, w.stop())

			require.Len(t, r.deliveries(), 3)
			for _, d := range r.deliveries() {
				require.Equal(t, failed.IdempotencyKey, d.Event.IdempotencyKey)
				require.JSONEq(t, string(failed.Payload), string(d.Event.Payload))
				require.Equal(t, failed.Due, d.Event.Due)
				require.Equal(t, failed.OccurrenceKey, d.Event.OccurrenceKey)
			}
			require.Equal(t, failed.Due, done.Due)
			found, err := w.store.Find(t.Context(), almanac.InStatus(almanac.Pending), almanac.Page{})
			require.NoError(t, err)
			require.Len(t, found.Items, 1, "nothing follows what stood apart, and the series has its one event")
			require.Equal(t, handler.seconds[1], found.Items[0].Due)
		})
	}
}

// An operator who requeues an event wants it delivered, however long ago its instant was.
func TestARequeuedEventIsNotMissed(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			handler := series{eventType: "DIGEST", seconds: ago(48 * time.Hour), execute: r.Deliver}
			handler.CatchUpPolicy = almanac.CatchUp{SkipOlder: time.Hour, SkipTried: true}
			storeEvent(t, w.store, handler)
			scheduler := w.run(t, handler)
			missed := w.await(t, almanac.EventFailed)
			require.Contains(t, missed.FailureReason, "missed: ")

			again, err := scheduler.Requeue(t.Context(), missed.ID, almanac.ForceOptions{})

			require.NoError(t, err)
			require.Equal(t, again.ID, w.await(t, almanac.EventCompleted).ID)
			require.NoError(t, w.stop())
			require.Len(t, r.deliveries(), 1)
		})
	}
}

// A requeued event that was never claimed follows its user, as an event does that is planned.
func TestEditsMoveRequeuedEventsThatWereNeverClaimed(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			enrolment, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
			require.NoError(t, err)
			cancelled, err := scheduler.Cancel(t.Context(), enrolment.Events[0].ID, almanac.CancelOptions{})
			require.NoError(t, err)
			again, err := scheduler.Requeue(t.Context(), cancelled.Event.ID, almanac.ForceOptions{})
			require.NoError(t, err)
			require.Equal(t, enrolment.Events[0].Due, again.AvailableAt, "not before its target")

			result, err := scheduler.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")})

			require.NoError(t, err)
			require.Empty(t, result.Skipped)
			require.Len(t, result.Moved, 2)
			require.ElementsMatch(t, []uuid.UUID{again.ID, cancelled.Successor.ID}, []uuid.UUID{result.Moved[0].ID, result.Moved[1].ID})
			require.Empty(t, result.Added)
			is := w.event(t, again)
			require.Equal(t, again.Wall, is.Wall)
			require.Equal(t, again.Due.Add(-9*time.Hour), is.Due)
			require.Equal(t, again.Payload, is.Payload)
			_, err = scheduler.DeleteUser(t.Context(), enrolment.User.ID, almanac.DeleteOptions{})
			require.NoError(t, err)
			require.Empty(t, w.all(t))
		})
	}
}

func TestOperateChangesManyEventsUpToItsLimit(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			for range 5 {
				_, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
				require.NoError(t, err)
			}
			storeEvent(t, w.store, series{eventType: "FOREIGN", seconds: ago(nextYear)})
			reason := almanac.CancelOptions{Reason: "the party is off"}

			for range 2 {
				storeEvent(t, w.store, series{eventType: "DIGEST", seconds: ago(time.Minute)})
			}

			dry, err := ops.Operate(t.Context(), scheduler, ops.Cancel, nil, ops.OperateOptions{DryRun: true, Cancel: reason})
			require.NoError(t, err)
			require.Len(t, dry.Events, 8)
			require.Len(t, w.all(t), 8)

			var received []int
			done, err := ops.Operate(t.Context(), scheduler, ops.Cancel, almanac.OfType(almanac.TypeBirthday),
				ops.OperateOptions{Limit: 3, Cancel: reason, Progress: func(o ops.OperateResult) { received = append(received, len(o.Events)) }})
			require.NoError(t, err)
			require.Len(t, done.Events, 3)
			require.True(t, done.More)
			require.Equal(t, []int{3}, received)
			n, err := w.store.Count(t.Context(), almanac.InStatus(almanac.Cancelled))
			require.NoError(t, err)
			require.Equal(t, 3, n)

			rest, err := ops.Operate(t.Context(), scheduler, ops.Cancel, almanac.OfType("FOREIGN"), ops.OperateOptions{})
			require.NoError(t, err)
			require.Len(t, rest.Events, 1, "another program plans what follows")
			require.Empty(t, rest.Refused)

			claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"DIGEST"}, Limit: 2, Lease: time.Minute})
			require.NoError(t, err)
			require.Len(t, claim.Events, 2)
			for _, e := range claim.Events {
				_, err = w.store.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.GaveUp("HTTP 404")}})
				require.NoError(t, err)
			}
			again, err := ops.Operate(t.Context(), scheduler, ops.Requeue, nil, ops.OperateOptions{})
			require.NoError(t, err)
			require.Len(t, again.Events, 2, "nothing that was cancelled comes back")
			back, err := ops.Operate(t.Context(), scheduler, ops.Requeue, almanac.InStatus(almanac.Cancelled), ops.OperateOptions{})
			require.NoError(t, err)
			require.Empty(t, back, "not by its status either")
		})
	}
}

// An operator who requeues a thousand failures at a time comes to the end of them, though all
// of them stay FAILED.
func TestRepeatedRequeuesReachEveryFailure(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			fail := func(n int) {
				claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"DIGEST"}, Limit: n, Lease: time.Minute})
				require.NoError(t, err)
				require.Len(t, claim.Events, n)
				for _, e := range claim.Events {
					_, err = w.store.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.GaveUp("HTTP 404")}})
					require.NoError(t, err)
				}
			}
			requeue := func(options ops.OperateOptions) (requeued, before int, more bool) {
				done, err := ops.Operate(t.Context(), scheduler, ops.Requeue, almanac.ForReason("HTTP"), options)
				require.NoError(t, err)
				require.Empty(t, done.Refused)
				return len(done.Events), done.RequeuedBefore, done.More
			}
			check := func(options ops.OperateOptions, wantRequeued, wantBefore int, wantMore bool) {
				t.Helper()
				requeued, before, more := requeue(options)
				require.Equal(t, []any{wantRequeued, wantBefore, wantMore}, []any{requeued, before, more})
			}
			for range 5 {
				storeEvent(t, w.store, series{eventType: "DIGEST", seconds: ago(time.Minute)})
			}
			fail(5)

			check(ops.OperateOptions{Limit: 2}, 2, 0, true)
			check(ops.OperateOptions{DryRun: true}, 3, 2, false)
			check(ops.OperateOptions{Limit: 2}, 2, 2, true)
			check(ops.OperateOptions{Limit: 2}, 1, 4, false)
			check(ops.OperateOptions{Limit: 2}, 0, 5, false)
			fail(5)
			check(ops.OperateOptions{DryRun: true}, 5, 5, false)
			check(ops.OperateOptions{}, 5, 5, false)
		})
	}
}

// What cancelling stores is not cancelled in its turn, however many pages there are.
func TestOperateLeavesSuccessorsUnchanged(t *testing.T) {
	t.Parallel()
	const people = 1100
	w := openOn(almanactest.NewRepository(nil))
	scheduler := w.scheduler(t, almanac.Birthday{})
	w.notices = make(chan almanac.Notice, 10*people)
	_, err := scheduler.CreateUsers(t.Context(), each(folk(people)), almanac.CreateUsersOptions{})
	require.NoError(t, err)
	var received []int

	done, err := ops.Operate(t.Context(), scheduler, ops.Cancel, nil,
		ops.OperateOptions{Limit: 5 * people, Progress: func(o ops.OperateResult) { received = append(received, len(o.Events)) }})

	require.NoError(t, err)
	require.Len(t, done.Events, people)
	require.False(t, done.More)
	require.Equal(t, []int{1000, people}, received)
	pending, err := w.store.Count(t.Context(), almanac.InStatus(almanac.Pending))
	require.NoError(t, err)
	require.Equal(t, people, pending)
}

// One user whose next occurrence a policy refuses does not keep an operation from the others.
func TestOperateRefusesAnEventWhoseSuccessorCannotBePlanned(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			// A night in March whose hour clocks in New York skip.
			nights := almanac.Recurring{Type: "DIGEST", Policies: calendar.Policies{Gap: calendar.GapReject}, Rule: func(u almanac.User) (calendar.Recurrence, error) {
				year := time.Now().Year() + 1
				for day := 8; ; day++ {
					if d := (calendar.Date{Year: year, Month: time.March, Day: day}); (calendar.WallTime{Date: d}).Labelled().Weekday() == time.Sunday {
						before := calendar.WallTime{Date: calendar.Date{Year: year, Month: time.March, Day: day - 1}, Clock: calendar.Clock{Hour: 2, Minute: 30}}
						return calendar.Bounded{Rule: calendar.Daily{At: before.Clock}, Start: before}, nil
					}
				}
			}}
			scheduler := w.scheduler(t, nights)
			var users []almanac.UserWithEvents
			for _, zone := range []string{"UTC", "America/New_York", "UTC"} {
				created, err := scheduler.CreateUser(t.Context(), born(t, zone, 10))
				require.NoError(t, err)
				users = append(users, created)
			}

			done, err := ops.Operate(t.Context(), scheduler, ops.Cancel, nil, ops.OperateOptions{})

			require.NoError(t, err)
			require.Len(t, done.Events, 2)
			require.Len(t, done.Refused, 1)
			require.Equal(t, users[1].Events[0].ID, done.Refused[0].EventID)
			require.ErrorIs(t, done.Refused[0].Err, calendar.ErrRejectedWallTime)
			require.ErrorAs(t, done.Refused[0].Err, new(*almanac.SuccessorError))
			kept, err := w.store.Event(t.Context(), users[1].Events[0].ID)
			require.NoError(t, err)
			require.Equal(t, almanac.Pending, kept.Status)
			alone, err := ops.Operate(t.Context(), scheduler, ops.Cancel, almanac.ForUser(users[1].User.ID),
				ops.OperateOptions{Cancel: almanac.CancelOptions{EndSeries: true}})
			require.NoError(t, err)
			require.Len(t, alone.Events, 1)
		})
	}
}

func TestOperateRefusesInvalidOptions(t *testing.T) {
	t.Parallel()
	w := openOn(almanactest.NewRepository(nil))
	scheduler := w.scheduler(t, almanac.Birthday{})
	_, err := ops.Operate(t.Context(), scheduler, "explode", nil, ops.OperateOptions{})
	require.ErrorIs(t, err, almanac.ErrInvalid)
	_, err = ops.Operate(t.Context(), scheduler, ops.Cancel, nil, ops.OperateOptions{Limit: -1})
	require.ErrorIs(t, err, almanac.ErrInvalid)
}

// In the host's transaction, operations come and go with it.
func TestOperationsInTheHostsTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	w := openOn(store)
	scheduler := w.scheduler(t, almanac.Birthday{})
	enrolment, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
	require.NoError(t, err)
	stored := enrolment.Events[0]
	for range len(w.notices) {
		<-w.notices
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	bound, err := postgres.New(tx)
	require.NoError(t, err)

	cancelled, err := scheduler.With(bound).Cancel(t.Context(), stored.ID, almanac.CancelOptions{})
	require.NoError(t, err)
	_, err = scheduler.With(bound).Requeue(t.Context(), cancelled.Event.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	_, err = scheduler.With(bound).RunNow(t.Context(), cancelled.Successor.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	require.NoError(t, scheduler.With(bound).Pause(t.Context(), almanac.Pause{Lane: almanac.TypeBirthday}))
	require.NoError(t, tx.Rollback(t.Context()))

	require.Equal(t, []almanac.Event{stored}, w.all(t))
	paused, err := scheduler.Paused(t.Context())
	require.NoError(t, err)
	require.Empty(t, paused)
	require.Empty(t, w.notices)
}

func TestMiddlewareWrapsEveryDelivery(t *testing.T) {
	t.Parallel()
	w, r := openOn(almanactest.NewRepository(nil)), new(receiver)
	var received []string
	say := func(name string) func(almanac.Deliverer) almanac.Deliverer {
		return func(next almanac.Deliverer) almanac.Deliverer {
			return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
				received = append(received, name)
				return fmt.Errorf("%s: %w", name, errors.Join(next.Deliver(ctx, d), almanac.ErrPermanent))
			})
		}
	}
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	storeEvent(t, w.store, handler)

	w.run(t, handler, almanac.WithMiddleware(say("outer"), say("inner")))

	failed := w.await(t, almanac.EventFailed)
	require.NoError(t, w.stop())
	require.Equal(t, []string{"outer", "inner"}, received)
	require.Regexp(t, `^outer: inner: `, failed.FailureReason)
	require.Len(t, r.deliveries(), 1)
}

func TestSnoozePostponesAnEventAndCountsNoAttempt(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), &receiver{answers: []error{almanac.Snooze(0, "not yet"), fmt.Errorf("wrapped: %w", almanac.Snooze(0, ""))}}
			once := almanac.Execution{RetryPolicy: almanac.RetryPolicy{Attempts: 1}}
			handler := series{Execution: once, eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
			storeEvent(t, w.store, handler)

			w.run(t, handler)

			snoozed := w.await(t, almanac.EventReleased)
			require.Equal(t, "snoozed for 1s: not yet", snoozed.LastError)
			require.Zero(t, snoozed.RetryCount)
			done := w.await(t, almanac.EventCompleted)
			require.NoError(t, w.stop())
			require.Zero(t, done.RetryCount)
			require.Len(t, r.deliveries(), 3)
			for _, d := range r.deliveries() {
				require.Equal(t, 1, d.Attempt)
			}
		})
	}
}

func TestPrincipalIsWhatAProgramSaid(t *testing.T) {
	t.Parallel()
	require.Empty(t, almanac.Principal(t.Context()))
	for given, want := range map[string]string{
		"":                                "",
		"grace":                           "grace",
		"Grace Hopper <g@example.com>":    "Grace Hopper <g@example.com>",
		"a\x00b":                          "a\ufffdb",
		"a\xff\xfeb":                      "a\ufffdb",
		"\x00":                            "\ufffd",
		strings.Repeat("a", 200):          strings.Repeat("a", 200),
		strings.Repeat("a", 201):          strings.Repeat("a", 200),
		strings.Repeat("a", 199) + "é":    strings.Repeat("a", 199),
		strings.Repeat("a", 198) + "é":    strings.Repeat("a", 198) + "é",
		strings.Repeat("a", 198) + "\xff": strings.Repeat("a", 198),
	} {
		ctx := almanac.WithPrincipal(t.Context(), given)
		require.Equal(t, want, almanac.Principal(ctx), "%q", given)
		within, cancel := context.WithCancel(ctx)
		cancel()
		require.Equal(t, want, almanac.Principal(within), "a context that is made of it has the same")
		require.Equal(t, "other", almanac.Principal(almanac.WithPrincipal(ctx, "other")), "the last one counts")
		require.Empty(t, almanac.Principal(almanac.WithPrincipal(ctx, "")), "an empty name means none")
	}
}

func TestAPrincipalCanAlwaysBeStored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		given := string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(r, "name"))
		if rapid.Bool().Draw(r, "text") {
			given = rapid.StringN(0, 100, -1).Draw(r, "text")
		}
		kept := almanac.Principal(almanac.WithPrincipal(t.Context(), given))
		if len(kept) > 200 || !utf8.ValidString(kept) || strings.Contains(kept, "\x00") || (kept == "") != (given == "") {
			r.Fatalf("of %q %q is kept", given, kept)
		}
	})
}
