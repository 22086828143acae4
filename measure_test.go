package almanac_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// meter is an observer that keeps its measurements.
type meter struct {
	mu      sync.Mutex
	claims  []almanac.ClaimMeasurement
	updates map[almanac.UpdateKind]almanac.UpdateMeasurement
}

func (*meter) Observe(context.Context, almanac.Notice) {}

func (m *meter) MeasureClaim(_ context.Context, c almanac.ClaimMeasurement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = append(m.claims, c)
}

func (m *meter) MeasureUpdate(_ context.Context, u almanac.UpdateMeasurement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.updates == nil {
		m.updates = make(map[almanac.UpdateKind]almanac.UpdateMeasurement)
	}
	sum := m.updates[u.Kind]
	m.updates[u.Kind] = almanac.UpdateMeasurement{Kind: u.Kind, Stored: sum.Stored + u.Stored, Conflicts: sum.Conflicts + u.Conflicts}
}

// found returns the measurements of claims that found something.
func (m *meter) found() []almanac.ClaimMeasurement {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []almanac.ClaimMeasurement
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
			owe(t, w.store, handler)

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
			owe(t, w.store, handler)
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
		owe(t, w.store, handler)

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

func (l *losing) Settle(ctx context.Context, batch []almanac.Settlement) ([]almanac.Settled, error) {
	if l.lost {
		return l.Repository.Settle(ctx, batch)
	}
	l.lost = true
	answers := []almanac.Settled{{Event: batch[0].Event, Err: almanac.ErrLeaseLost}}
	rest, err := l.Repository.Settle(ctx, batch[1:])
	return append(answers, rest...), err
}

func TestOutcomesThatLostTheirLeaseAreConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, m, handler := new(logbook), new(meter), series{eventType: "DIGEST", seconds: ago(time.Minute), execute: new(receiver).Deliver}
		w := openOn(&losing{Repository: almanactest.NewRepository(nil)})
		for range 3 {
			owe(t, w.store, handler)
		}

		w.run(t, handler, almanac.WithObserver(m), almanac.WithWorkers(1), almanac.WithLogger(book.logger()))
		w.await(t, almanac.EventCompleted)
		w.await(t, almanac.EventCompleted)
		require.NoError(t, w.stop())

		require.Equal(t, almanac.UpdateMeasurement{Kind: almanac.UpdateOutcome, Stored: 2, Conflicts: 1}, m.updates[almanac.UpdateOutcome])
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
			_, err = scheduler.Cancel(t.Context(), event, almanac.Cancel{Version: 1})
			require.ErrorIs(t, err, almanac.ErrOptimisticLock)
			_, err = scheduler.RunNow(t.Context(), event)
			require.NoError(t, err)
			_, err = scheduler.DeleteUser(t.Context(), user, almanac.Delete{Version: 1})
			require.ErrorIs(t, err, almanac.ErrOptimisticLock)

			require.Equal(t, map[almanac.UpdateKind]almanac.UpdateMeasurement{
				almanac.UpdateUser:  {Kind: almanac.UpdateUser, Stored: 1, Conflicts: 2},
				almanac.UpdateEvent: {Kind: almanac.UpdateEvent, Stored: 1, Conflicts: 1},
			}, m.updates)
		})
	}
}

// clumsy is an observer that panics whenever it measures.
type clumsy struct{ almanac.Hooks }

func (clumsy) MeasureClaim(context.Context, almanac.ClaimMeasurement)   { panic(errors.New("clumsy")) }
func (clumsy) MeasureUpdate(context.Context, almanac.UpdateMeasurement) { panic(errors.New("clumsy")) }

func TestAMeasurerThatPanicsHarmsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, handler := new(logbook), series{eventType: "DIGEST", seconds: ago(time.Minute), execute: new(receiver).Deliver}
		w := openOn(almanactest.NewRepository(nil))
		owe(t, w.store, handler)

		w.run(t, handler, almanac.WithObserver(clumsy{}), almanac.WithLogger(book.logger()))
		w.await(t, almanac.EventCompleted)
		require.NoError(t, w.stop())

		lines := book.about(t, "observer panicked")
		require.NotEmpty(t, lines)
		require.Equal(t, "clumsy", lines[0]["error"])
	})
}
