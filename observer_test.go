package almanac_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var kinds = []almanac.NoticeKind{
	almanac.EventCreated, almanac.EventClaimed, almanac.EventReleased, almanac.EventRescheduled, almanac.EventRemoved,
	almanac.EventCompleted, almanac.EventFailed, almanac.EventCancelled, almanac.EventRequeued, almanac.EventSkipped,
	almanac.UserCreated, almanac.UserTimezoneChanged, almanac.UserBirthdayChanged, almanac.UserOptOutsChanged, almanac.UserDeleted,
}

func TestHooksCallTheFunctionOfTheKind(t *testing.T) {
	t.Parallel()

	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "passed on")
	was, is := ada(t), ada(t)
	is.Version = 2
	e := planned(t)
	var received []string
	event := func(name string) func(context.Context, almanac.Event) {
		return func(ctx context.Context, got almanac.Event) {
			if ctx.Value(key{}) != "passed on" || got.ID != e.ID {
				t.Errorf("%s was notified of %v, context %v", name, got.ID, ctx)
			}
			received = append(received, name)
		}
	}
	user := func(name string) func(context.Context, almanac.User, almanac.User) {
		return func(_ context.Context, before, after almanac.User) {
			if before.Version != 1 || after.Version != 2 {
				t.Errorf("%s was notified of versions %d and %d, want 1 and 2", name, before.Version, after.Version)
			}
			received = append(received, name)
		}
	}
	hooks := almanac.Hooks{
		Created: event("created"), Claimed: event("claimed"), Released: event("released"), Rescheduled: event("rescheduled"),
		Removed: event("removed"), Completed: event("completed"), Failed: event("failed"),
		Cancelled: event("cancelled"), Requeued: event("requeued"), Skipped: event("skipped"),
		TimezoneChanged: user("timezone changed"), BirthdayChanged: user("birthday changed"),
	}

	for _, kind := range kinds {
		hooks.Observe(ctx, almanac.Notice{Kind: kind, Event: e, User: is, Was: was})
		almanac.Hooks{}.Observe(ctx, almanac.Notice{Kind: kind, Event: e, User: is, Was: was})
	}

	want := []string{"created", "claimed", "released", "rescheduled", "removed", "completed", "failed", "cancelled", "requeued", "skipped", "timezone changed", "birthday changed"}
	if !slices.Equal(received, want) {
		t.Errorf("received %q, want %q", received, want)
	}
}

func TestLogObserverWritesOneLinePerNotice(t *testing.T) {
	t.Parallel()

	levels := map[almanac.NoticeKind]string{
		almanac.EventClaimed: "INFO", almanac.EventCompleted: "INFO", almanac.EventReleased: "WARN", almanac.EventCancelled: "WARN", almanac.EventFailed: "ERROR",
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			observer := almanac.LogObserver(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))

			observer.Observe(t.Context(), noticeOf(t, kind))

			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil || strings.Count(out.String(), "\n") != 1 {
				t.Fatalf("wrote %q: %v; want one line", out.String(), err)
			}
			want := levels[kind]
			if want == "" {
				want = "DEBUG"
			}
			if line["level"] != want || line["msg"] != string(kind) || line["user_id"] != ada(t).ID.String() {
				t.Errorf("wrote %s, want %s at %s about the user", out.String(), kind, want)
			}
			if _, hasEvent := line["event_id"]; hasEvent != strings.HasPrefix(string(kind), "event.") {
				t.Errorf("wrote %s, event named: %v", out.String(), hasEvent)
			}
			for _, private := range []string{"Ada", "Lovelace", "birthday\"", "1990-", "hush"} {
				if strings.Contains(out.String(), private) {
					t.Errorf("wrote %s, which contains %q", out.String(), private)
				}
			}
		})
	}
}

// A scheduler notifies the observers that it was made with, and a scheduler without observers
// notifies none.
func TestObserversAreNotifiedByTheirScheduler(t *testing.T) {
	t.Parallel()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		t.Fatal(err)
	}
	repository := almanactest.NewRepository(nil)
	notified := make(map[string][]almanac.NoticeKind)
	notifies := func(name string) almanac.Option {
		return almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { notified[name] = append(notified[name], n.Kind) }))
	}
	for _, options := range [][]almanac.Option{{notifies("first"), notifies("second")}, {notifies("second")}, nil} {
		s, err := almanac.NewScheduler(repository, registry, options...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateUser(t.Context(), grace); err != nil {
			t.Fatal(err)
		}
	}
	once := []almanac.NoticeKind{almanac.UserCreated, almanac.EventCreated}
	if want := map[string][]almanac.NoticeKind{"first": once, "second": slices.Concat(once, once)}; !maps.EqualFunc(notified, want, slices.Equal) {
		t.Errorf("notified %v, want %v", notified, want)
	}
}

// Metrics count failures by their cause.
func TestAFailureHasItsCause(t *testing.T) {
	t.Parallel()
	unchanged := func(*almanac.Event) {}
	for cause, tt := range map[almanac.FailureCause]struct {
		deliver error
		alter   func(*almanac.Event) // as the event is claimed
		deleted bool                 // whether the user is deleted during the attempt
		options []almanac.Option
		handler almanac.Execution
	}{
		almanac.FailedPermanent:   {deliver: almanac.Permanent(errBusy)},
		almanac.FailedAttempts:    {deliver: errBusy},
		almanac.FailedCrashes:     {alter: func(e *almanac.Event) { e.CrashCount = 5 }},
		almanac.FailedMissed:      {handler: almanac.Execution{CatchUpPolicy: almanac.CatchUp{SkipOlder: time.Second}}},
		almanac.FailedCheck:       {options: []almanac.Option{almanac.WithChecks(func(almanac.Event, time.Time) error { return errBusy })}},
		almanac.FailedUserDeleted: {deliver: errBusy, deleted: true},
	} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if tt.alter == nil {
					tt.alter = unchanged
				}
				w := openOn(altered{almanactest.NewRepository(nil), tt.alter})
				h := series{Execution: tt.handler, eventType: "DIGEST", seconds: ago(time.Minute)}
				h.execute = func(ctx context.Context, d almanac.Delivery) error {
					if !tt.deleted {
						return tt.deliver
					}
					_, err := w.store.DeleteUser(ctx, d.Event.UserID, almanac.DeleteOptions{})
					return errors.Join(tt.deliver, err)
				}
				storeEvent(t, w.store, h)
				w.run(t, h, tt.options...)
				time.Sleep(time.Hour) // enough for each attempt
				require.NoError(t, w.stop())
				close(w.notices)
				var causes []almanac.FailureCause
				for n := range w.notices {
					if n.Kind == almanac.EventFailed {
						causes = append(causes, n.Failure)
					} else {
						require.Empty(t, n.Failure)
					}
				}
				require.Equal(t, []almanac.FailureCause{cause}, causes)
			})
		})
	}
}

// noticeOf is a notice as the library sends it, with secrets in it.
func noticeOf(t *testing.T, kind almanac.NoticeKind) almanac.Notice {
	t.Helper()
	if strings.HasPrefix(string(kind), "user.") {
		u := ada(t)
		u.Attributes = json.RawMessage(`{"secret":"hush"}`)
		return almanac.Notice{Kind: kind, User: u, Was: u}
	}
	e := in(t, almanac.Processing)
	if kind == almanac.EventCancelled { // by an operator
		e = in(t, almanac.Cancelled)
	}
	e.Payload = json.RawMessage(`{"message":"hush, Ada Lovelace"}`)
	e.ExecutedAt, e.FailureReason, e.LastError = e.Due.Add(1234567*time.Nanosecond), "HTTP 404", "HTTP 503"
	return almanac.Notice{Kind: kind, Event: e}
}

func TestLogObserverLogsTheRelevantFields(t *testing.T) {
	t.Parallel()

	tests := map[almanac.NoticeKind][]string{
		almanac.EventCreated:   {"event_type=BIRTHDAY", "idempotency_key=event-", "target_timestamp_utc=2026-12-10T09:00:00.000Z", "version=2"},
		almanac.EventCompleted: {"lateness=1.235ms"},
		almanac.EventFailed:    {`reason="HTTP 404"`, "retry_count=0"},
		almanac.EventSkipped:   {"current_status=PROCESSING"},
		almanac.EventReleased:  {`reason="HTTP 503"`, "available_at="},
	}
	for kind, want := range tests {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer

			almanac.LogObserver(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))).Observe(t.Context(), noticeOf(t, kind))

			for _, part := range want {
				if !strings.Contains(out.String(), part) {
					t.Errorf("wrote %q, which lacks %q", out.String(), part)
				}
			}
		})
	}
}

func TestLogObserverIsSilentBelowTheLevel(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	observer := almanac.LogObserver(slog.New(slog.NewTextHandler(&out, nil))) // Info and above
	observer.Observe(t.Context(), noticeOf(t, almanac.EventCreated))
	observer.Observe(t.Context(), noticeOf(t, almanac.UserDeleted))
	if out.Len() > 0 {
		t.Errorf("wrote %q, want nothing at Debug", out.String())
	}
}

// meter is an observer that keeps its measurements.
type meter struct {
	mu      sync.Mutex
	claims  []almanac.Measurement
	updates map[string]almanac.Measurement
}

func (*meter) Observe(context.Context, almanac.Notice) {}

func (m *meter) Measure(_ context.Context, one almanac.Measurement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one.Kind == almanac.MeasuredClaim {
		m.claims = append(m.claims, one)
		return
	}
	if m.updates == nil {
		m.updates = make(map[string]almanac.Measurement)
	}
	sum := m.updates[one.Kind]
	m.updates[one.Kind] = almanac.Measurement{Kind: one.Kind, Stored: sum.Stored + one.Stored, Conflicts: sum.Conflicts + one.Conflicts}
}

// found returns the measurements of claims that found something.
func (m *meter) found() []almanac.Measurement {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []almanac.Measurement
	for _, c := range m.claims {
		if c.Found > 0 {
			found = append(found, c)
		}
	}
	return found
}

func TestClaimsAreMeasured(t *testing.T) {
	t.Parallel()
	for name, on := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m, r := openOn(on(t)), new(meter), new(receiver)
			handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
			storeEvent(t, w.store, handler)

			w.run(t, handler, almanac.WithObserver(m), almanac.WithWorkers(7))
			w.await(t, almanac.EventCompleted)
			require.NoError(t, w.stop())

			found := m.found()
			require.Len(t, found, 1)
			require.Equal(t, 1, found[0].Found)
			require.Equal(t, 7, found[0].BatchSize)
			require.False(t, found[0].Ahead, "it was due")
			require.NoError(t, found[0].Err)
			if name == "on Postgres" {
				require.Positive(t, found[0].Query)
				require.Greater(t, found[0].Total, found[0].Query, "the whole has the wait for a connection too")
			} else {
				require.Zero(t, found[0].Query, "it has no statement")
			}
		})
	}
}

func TestAHundredEventsAreClaimedAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, handler := new(meter), series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
			time.Sleep(time.Second)
			return nil
		}}
		w := openOn(almanactest.NewRepository(nil))
		for range 250 {
			storeEvent(t, w.store, handler)
		}

		w.run(t, handler, almanac.WithObserver(m))
		for range 250 {
			w.await(t, almanac.EventCompleted)
		}
		require.NoError(t, w.stop())

		claimed := 0
		for _, c := range m.found() {
			require.LessOrEqual(t, c.Found, 100)
			claimed += c.Found
		}
		require.Equal(t, 250, claimed)
		require.Equal(t, 100, m.found()[0].Found)
	})
}

func TestAClaimThatFailsIsMeasuredToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, handler := new(meter), series{eventType: "DIGEST", seconds: ago(time.Minute), execute: new(receiver).Deliver}
		w := openOn(&unsure{Repository: almanactest.NewRepository(nil), err: errLost})
		storeEvent(t, w.store, handler)

		w.run(t, handler, almanac.WithObserver(m))
		w.await(t, almanac.EventCompleted)
		require.NoError(t, w.stop())

		require.ErrorIs(t, m.claims[0].Err, errLost)
		require.Zero(t, m.claims[0].Found)
		require.Len(t, m.found(), 1)
	})
}

// losing answers that another holds the lease of the first outcome.
type losing struct {
	*almanactest.Repository
	lost bool
}

func (l *losing) Settle(ctx context.Context, batch []almanac.Settlement) ([]almanac.SettleResult, error) {
	if l.lost {
		return l.Repository.Settle(ctx, batch)
	}
	l.lost = true
	answers := []almanac.SettleResult{{Event: batch[0].Event, Err: almanac.ErrLeaseLost}}
	rest, err := l.Repository.Settle(ctx, batch[1:])
	return append(answers, rest...), err
}

func TestOutcomesThatLostTheirLeaseAreConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, m, handler := new(logbook), new(meter), series{eventType: "DIGEST", seconds: ago(time.Minute), execute: new(receiver).Deliver}
		w := openOn(&losing{Repository: almanactest.NewRepository(nil)})
		for range 3 {
			storeEvent(t, w.store, handler)
		}

		w.run(t, handler, almanac.WithObserver(m), almanac.WithWorkers(1), almanac.WithLogger(book.logger()))
		w.await(t, almanac.EventCompleted)
		w.await(t, almanac.EventCompleted)
		require.NoError(t, w.stop())

		require.Equal(t, almanac.Measurement{Kind: almanac.MeasuredOutcome, Stored: 2, Conflicts: 1}, m.updates[almanac.MeasuredOutcome])
		lost := book.about(t, "outcome not stored: the lease was lost")
		require.Len(t, lost, 1)
		require.Regexp(t, "^event-[0-9a-f]{16}$", lost[0]["idempotency_key"])
	})
}

func TestVersionedUpdatesAreMeasured(t *testing.T) {
	t.Parallel()
	for name, on := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := openOn(on(t)), new(meter)
			scheduler := w.scheduler(t, almanac.Birthday{}, almanac.WithObserver(m))
			enrolment, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
			require.NoError(t, err)
			user, event := enrolment.User.ID, enrolment.Events[0].ID
			require.Empty(t, m.updates, "what is created replaces nothing")

			_, err = scheduler.UpdateUser(t.Context(), user, almanac.ProfileChange{Version: 1, Timezone: ptr("Asia/Tokyo")})
			require.NoError(t, err)
			_, err = scheduler.UpdateUser(t.Context(), user, almanac.ProfileChange{Version: 1, Timezone: ptr("UTC")})
			require.ErrorIs(t, err, almanac.ErrOptimisticLock)
			_, err = scheduler.UpdateUser(t.Context(), uuid.New(), almanac.ProfileChange{})
			require.ErrorIs(t, err, almanac.ErrNotFound)
			_, err = scheduler.Cancel(t.Context(), event, almanac.CancelOptions{Version: 1})
			require.ErrorIs(t, err, almanac.ErrOptimisticLock)
			_, err = scheduler.RunNow(t.Context(), event, almanac.ForceOptions{})
			require.NoError(t, err)
			_, err = scheduler.DeleteUser(t.Context(), user, almanac.DeleteOptions{Version: 1})
			require.ErrorIs(t, err, almanac.ErrOptimisticLock)

			require.Equal(t, map[string]almanac.Measurement{
				almanac.MeasuredUser:  {Kind: almanac.MeasuredUser, Stored: 1, Conflicts: 2},
				almanac.MeasuredEvent: {Kind: almanac.MeasuredEvent, Stored: 1, Conflicts: 1},
			}, m.updates)
		})
	}
}

// clumsy is an observer that panics whenever it measures.
type clumsy struct{ almanac.Hooks }

func (clumsy) Measure(context.Context, almanac.Measurement) { panic(errors.New("clumsy")) }

func TestAPanicOfAMeasurerIsRecovered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, handler := new(logbook), series{eventType: "DIGEST", seconds: ago(time.Minute), execute: new(receiver).Deliver}
		w := openOn(almanactest.NewRepository(nil))
		storeEvent(t, w.store, handler)

		w.run(t, handler, almanac.WithObserver(clumsy{}), almanac.WithLogger(book.logger()))
		w.await(t, almanac.EventCompleted)
		require.NoError(t, w.stop())

		lines := book.about(t, "observer did not return")
		require.NotEmpty(t, lines)
		require.Equal(t, "panicked: clumsy", lines[0]["error"])
	})
}
