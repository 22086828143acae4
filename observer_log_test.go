package almanac_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// at returns a logger into l of what is at a level or above.
func (l *logbook) at(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level}))
}

// about returns the lines with a message, without the time.
func (l *logbook) about(t *testing.T, message string) []map[string]any {
	t.Helper()
	return slices.DeleteFunc(l.all(t), func(line map[string]any) bool {
		delete(line, "time")
		return line["msg"] != message
	})
}

// lineOf is a line about an event, with further fields.
func lineOf(level, message string, e almanac.Event, more map[string]any) map[string]any {
	line := map[string]any{
		"level": level, "msg": message, "event_id": e.ID.String(), "event_type": e.Type,
		"user_id": e.UserID.String(), "idempotency_key": e.IdempotencyKey.String(),
	}
	for key, value := range more {
		line[key] = value
	}
	return line
}

// failingOnce is a handler whose first attempt fails.
func failingOnce() series {
	return series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(_ context.Context, d almanac.Delivery) error {
		if d.Attempt == 1 {
			return errBusy
		}
		return nil
	}}
}

// executions rehearses an event with two attempts, and returns the event and what was
// logged.
func executions(t *testing.T, level slog.Level, observed bool) (almanac.Event, *logbook) {
	t.Helper()
	book, handler := new(logbook), failingOnce()
	registry, err := almanac.NewRegistry(handler)
	require.NoError(t, err)
	options := []almanac.Option{almanac.WithLogger(book.at(level))}
	if observed {
		options = append(options, almanac.WithObserver(almanac.LogObserver(book.at(level))))
	}
	rehearsal := almanactest.Rehearse(t, registry, options...)
	pending := storeEvent(t, rehearsal.Repository, handler)
	rehearsal.For(time.Hour)
	return pending, book
}

func TestALogObserverWritesClaimsAndExecutionsAtInfo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pending, book := executions(t, slog.LevelDebug, true)

		due := pending.Due.Format(time.RFC3339Nano)
		claimed := book.about(t, "event.claimed")
		require.Len(t, claimed, 2)
		require.Equal(t, lineOf("INFO", "event.claimed", pending, map[string]any{"target_timestamp_utc": due, "version": 2.}), claimed[0])
		require.Equal(t, []map[string]any{
			lineOf("INFO", "Executing event", pending, map[string]any{"target_timestamp_utc": due, "attempt": 1.}),
			lineOf("INFO", "Executing event", pending, map[string]any{"target_timestamp_utc": due, "attempt": 2.}),
		}, book.about(t, "Executing event"), "once for each attempt, under one key")
		require.Len(t, book.about(t, "event.completed"), 1)
	})
}

func TestTheSchedulerWritesExecutionsAtDebug(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pending, book := executions(t, slog.LevelDebug, false)
		lines := book.about(t, "Executing event")
		require.Len(t, lines, 2)
		require.Equal(t, "DEBUG", lines[0]["level"])
		require.Equal(t, pending.IdempotencyKey.String(), lines[0]["idempotency_key"])
		completed := book.about(t, "Event execution completed")
		require.Len(t, completed, 1)
		require.Equal(t, "DEBUG", completed[0]["level"])
		require.Equal(t, pending.IdempotencyKey.String(), completed[0]["idempotency_key"])
		require.EqualValues(t, 2, completed[0]["attempt"])

		_, book = executions(t, slog.LevelInfo, false)
		require.Empty(t, book.about(t, "Executing event"))
		require.Empty(t, book.about(t, "Event execution completed"))

		_, book = executions(t, slog.LevelDebug, true)
		require.Empty(t, book.about(t, "Event execution completed"), "the LogObserver writes event.completed")
	})
}

// measured is a repository whose claims take two seconds, one of them for the statement.
type measured struct{ almanac.Repository }

func (r measured) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.ClaimResult, error) {
	claim, err := r.Repository.Claim(ctx, request)
	time.Sleep(2 * time.Second)
	claim.Query = time.Second
	return claim, err
}

func TestAClaimIsLoggedWithBothOfItsDurations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, w := new(logbook), openOn(measured{almanactest.NewRepository(nil)})
		h := series{eventType: "FINE", seconds: ago(time.Minute), execute: new(receiver).Deliver}
		storeEvent(t, w.store, h)
		w.run(t, h, almanac.WithLogger(book.at(slog.LevelDebug)))
		w.await(t, almanac.EventCompleted)
		require.NoError(t, w.stop())
		claims := book.about(t, "events claimed")
		require.NotEmpty(t, claims)
		require.Equal(t, "DEBUG", claims[0]["level"])
		require.EqualValues(t, 1, claims[0]["count"])
		require.EqualValues(t, 100, claims[0]["batch_size"])
		require.EqualValues(t, 1000, claims[0]["query_duration_ms"])
		require.EqualValues(t, 2000, claims[0]["duration_ms"])
	})
}

func TestRunLooksForWhatWasMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, w := new(logbook), openOn(almanactest.NewRepository(nil))
		h := series{eventType: "DIGEST", seconds: ago(time.Hour), execute: new(receiver).Deliver}
		storeEvent(t, w.store, h)
		w.run(t, h, almanac.WithLogger(book.logger()))
		w.await(t, almanac.EventCompleted)
		require.NoError(t, w.stop())
		found := book.about(t, "Missed events found")
		require.Len(t, found, 1)
		require.EqualValues(t, 1, found[0]["count"])
	})
}

func TestMissedLogsThatItBeginsAndWhatItFinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, w := new(logbook), openOn(almanactest.NewRepository(nil))
		handler := series{eventType: "DIGEST", seconds: ago(7 * 24 * time.Hour)}
		scheduler := w.scheduler(t, handler, almanac.WithLogger(book.logger()))
		_, err := scheduler.Missed(t.Context())
		require.NoError(t, err)
		oldest := storeEvent(t, w.store, handler)
		newest := storeEvent(t, w.store, series{eventType: "DIGEST", seconds: ago(time.Hour)})
		_, err = scheduler.Missed(t.Context())
		require.NoError(t, err)

		const layout = "2006-01-02T15:04:05.000Z"
		starting := map[string]any{"level": "INFO", "msg": "Starting recovery check"}
		lines := book.all(t)
		for _, line := range lines {
			delete(line, "time")
		}
		require.Equal(t, []map[string]any{
			starting, {"level": "INFO", "msg": "No missed events found"},
			starting, {
				"level": "INFO", "msg": "Missed events found", "count": 2.,
				"oldest_event_timestamp": oldest.Due.Format(layout), "newest_event_timestamp": newest.Due.Format(layout),
			},
		}, lines)
	})
}

// editing is a scheduler of birthdays in virtual time whose user moves to another zone
// while their birthday is delivered.
type editing struct {
	book    *logbook
	event   almanac.Event // as it is delivered
	notices []almanac.Notice
}

// moveWhile runs a birthday, and moves its user to another zone in the given attempt or,
// for attempt zero, before it is due. With fails set, the first attempt fails.
func moveWhile(t *testing.T, attempt int, fails bool, handlers ...almanac.EventHandler) editing {
	t.Helper()
	var x editing
	x.book = new(logbook)
	registry, err := almanac.NewRegistry(append(handlers, almanac.Birthday{})...)
	require.NoError(t, err)
	var rehearsal *almanactest.Rehearsal
	move := func(id uuid.UUID) {
		_, err := rehearsal.Scheduler.UpdateUser(t.Context(), id, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")})
		require.NoError(t, err)
	}
	deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		if d.Attempt == attempt {
			x.event = d.Event
			move(d.Event.UserID)
		}
		if fails && d.Attempt == 1 {
			time.AfterFunc(time.Second, func() { move(d.Event.UserID) })
			x.event = d.Event
			return errBusy
		}
		return nil
	})
	rehearsal = almanactest.Rehearse(t, registry, almanac.WithLogger(x.book.logger()), almanac.WithDeliverer(almanac.ChannelWebhook, deliver),
		almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
			if n.Kind == almanac.EventSkipped || n.Kind == almanac.EventRescheduled {
				x.notices = append(x.notices, n)
			}
		})))
	enrolment, err := rehearsal.Scheduler.CreateUser(t.Context(), born(t, "UTC", 1))
	require.NoError(t, err)
	if attempt == 0 && !fails {
		move(enrolment.User.ID)
		x.event = enrolment.Events[0]
	}
	rehearsal.For(48 * time.Hour)
	return x
}

func TestAnEditThatSkipsAnEventIsLoggedAndNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := moveWhile(t, 1, false)

		const skipping = "Skipping reschedule for event in PROCESSING state"
		require.Equal(t, []map[string]any{lineOf("WARN", skipping, x.event, map[string]any{
			"current_status": "PROCESSING", "reason": "Event is currently being executed and cannot be safely rescheduled",
		})}, x.book.about(t, skipping))
		require.Equal(t, []map[string]any{{
			"level": "INFO", "msg": "Birthday events rescheduled", "user_id": x.event.UserID.String(),
			"rescheduled_count": 0., "rescheduled_event_ids": []any{}, "skipped_count": 1., "skipped_event_ids": []any{x.event.ID.String()},
		}}, x.book.about(t, "Birthday events rescheduled"))
		require.Equal(t, []map[string]any{{
			"level": "WARN", "msg": "Some events could not be rescheduled", "user_id": x.event.UserID.String(), "skipped_count": 1.,
		}}, x.book.about(t, "Some events could not be rescheduled"))
		require.Len(t, x.notices, 1)
		require.Equal(t, almanac.EventSkipped, x.notices[0].Kind)
		require.Equal(t, x.event.ID, x.notices[0].Event.ID)
		require.Equal(t, almanac.Processing, x.notices[0].Event.Status)
	})
}

func TestAnEditThatSkipsNothingHasNoWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := moveWhile(t, 0, false)

		require.Empty(t, x.book.lines(t), "at Warn or above")
		require.Equal(t, []map[string]any{{
			"level": "INFO", "msg": "Birthday events rescheduled", "user_id": x.event.UserID.String(),
			"rescheduled_count": 1., "rescheduled_event_ids": []any{x.event.ID.String()}, "skipped_count": 0., "skipped_event_ids": []any{},
		}}, x.book.about(t, "Birthday events rescheduled"))
		require.Len(t, x.notices, 1)
		require.Equal(t, almanac.EventRescheduled, x.notices[0].Kind)
	})
}

func TestAnEventThatWaitsForAnotherAttemptIsSkippedToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := moveWhile(t, 0, true)

		lines := x.book.about(t, "Skipping reschedule for event that waits for another attempt")
		require.Len(t, lines, 1)
		require.Equal(t, "PENDING", lines[0]["current_status"])
		require.Equal(t, x.event.IdempotencyKey.String(), lines[0]["idempotency_key"])
		require.Len(t, x.notices, 1)
		require.Equal(t, almanac.EventSkipped, x.notices[0].Kind)
	})
}

func TestEventsOfOtherTypesAreNotCalledBirthdays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		daily := almanac.Recurring{Type: "DIGEST", Rule: func(almanac.User) (calendar.Recurrence, error) {
			return calendar.Daily{At: calendar.Clock{Hour: 7}}, nil
		}}
		x := moveWhile(t, 0, false, daily)
		require.Empty(t, x.book.about(t, "Birthday events rescheduled"))
		lines := x.book.about(t, "Events rescheduled")
		require.Len(t, lines, 1)
		require.Equal(t, 2., lines[0]["rescheduled_count"])
	})
}

func TestAnEditIsLoggedAndNoticedOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, w := new(logbook), openOn(almanactest.NewRepository(nil))
		handler := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear)}
		scheduler := w.scheduler(t, handler, almanac.WithLogger(book.logger()))
		pending := storeEvent(t, w.store, handler)
		_, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"DIGEST"}, Limit: 1, Lease: time.Minute})
		require.NoError(t, err)
		tokyo := almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")}

		result, err := scheduler.With(hostsOwn{w.store}).UpdateUser(t.Context(), pending.UserID, tokyo)
		require.NoError(t, err)
		require.Equal(t, []uuid.UUID{pending.ID}, result.Skipped, "the host learns it from the result")
		require.Empty(t, book.all(t), "it may yet be rolled back")
		require.Empty(t, w.notices)

		refused := tokyo
		refused.Version = 7
		_, err = scheduler.UpdateUser(t.Context(), pending.UserID, refused)
		require.ErrorIs(t, err, almanac.ErrOptimisticLock)
		require.Empty(t, book.all(t), "nothing was stored")
		require.Empty(t, w.notices)

		_, err = scheduler.UpdateUser(t.Context(), pending.UserID, tokyo)
		require.NoError(t, err)
		require.Equal(t, pending.ID, w.await(t, almanac.EventSkipped).ID)
		lines := book.about(t, "Events rescheduled")
		require.Len(t, lines, 1)
		require.Equal(t, []any{0., 1.}, []any{lines[0]["rescheduled_count"], lines[0]["skipped_count"]})
	})
}

// conflicting answers each edit as if its first event had been changed meanwhile.
type conflicting struct{ almanac.Repository }

func (c conflicting) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	return c.Repository.EditUser(ctx, id, func(r almanac.Roster) (almanac.Edit, error) {
		if _, err := edit(r); err != nil {
			return almanac.Edit{}, err
		}
		return almanac.Edit{}, &almanac.OptimisticLockError{EventID: r.Pending[0].ID, Expected: r.Pending[0].Version}
	})
}

func TestAnEditThatLosesToAnotherIsLogged(t *testing.T) {
	t.Parallel()
	book, store := new(logbook), almanactest.NewRepository(nil)
	w := openOn(conflicting{store})
	scheduler := w.scheduler(t, almanac.Birthday{}, almanac.WithLogger(book.logger()))
	enrolment, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
	require.NoError(t, err)

	_, err = scheduler.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")})

	require.ErrorIs(t, err, almanac.ErrOptimisticLock)
	const conflict = "Event modified during reschedule (optimistic lock conflict)"
	require.Equal(t, []map[string]any{lineOf("WARN", conflict, enrolment.Events[0], map[string]any{"error": err.Error()})}, book.about(t, conflict))
}
