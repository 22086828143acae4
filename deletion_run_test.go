package almanac_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/engine"
)

// Whatever a delivery answers to which its person was deleted: it is made once,
// nobody is told of an outcome that is not stored, and the worker goes on.
func TestRunStopsQuietlyWhenItsPersonIsDeletedAtOnce(t *testing.T) {
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
				met, err := scheduler.DeleteUser(ctx, d.Event.UserID, almanac.Delete{AtOnce: true})
				if err != nil || len(met.InFlight) != 1 {
					t.Errorf("deletion %+v, error %v", met, err)
				}
				return answer
			}}
			handler.seconds = ago(time.Hour, nextYear)
			deleted = owe(t, w.store, handler)
			handler.seconds = ago(time.Minute, nextYear)
			next = owe(t, w.store, handler)
			var log bytes.Buffer

			scheduler = w.run(t, handler, almanac.WithWorkers(1), almanac.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
			close(ready)
			var told []almanac.NoticeKind
			for n := range w.notices {
				require.NotEqual(t, n.Event.ID, n.User.ID, "%s is told of nothing", n.Kind)
				if n.Event.ID == deleted.ID || n.User.ID == deleted.UserID {
					told = append(told, n.Kind)
				} else if n.Kind == almanac.EventCreated {
					break
				}
			}
			require.NoError(t, w.stop())
			close(w.notices)
			for n := range w.notices {
				require.NotEqual(t, n.Event.ID, n.User.ID, "%s is told of nothing", n.Kind)
				require.NotEqual(t, deleted.UserID, n.Event.UserID, "%s is told of a person who is gone", n.Kind)
			}

			require.Equal(t, []almanac.NoticeKind{almanac.EventClaimed, almanac.UserDeleted}, told)
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
func TestRunCancelsTheLongDeliveryOfAPersonWhoIsDeletedAtOnce(t *testing.T) {
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
		owe(t, repository, handler)
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- scheduler.Run(ctx) }()

		_, err = scheduler.DeleteUser(t.Context(), <-started, almanac.Delete{AtOnce: true})
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
func TestDeleteUserTellsOnce(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]almanac.Delete{"at once": {AtOnce: true}, "when what is in flight has ended": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repository, told := almanactest.NewRepository(nil), 0
			s := schedulerOn(t, repository, almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
				if n.Kind == almanac.UserDeleted {
					told++
				}
			})))
			e := enrol(t, s, "Pacific/Auckland", "1990-06-15")

			d, err := s.DeleteUser(t.Context(), e.UserID, how)
			require.NoError(t, err)
			require.Equal(t, almanac.Deletion{Removed: 1}, d)
			_, err = repository.Event(t.Context(), e.ID)
			require.ErrorIs(t, err, almanac.ErrNotFound)
			_, err = s.DeleteUser(t.Context(), e.UserID, how)

			var missing *almanac.NotFoundError
			require.True(t, errors.As(err, &missing))
			require.Equal(t, almanac.NotFoundError{Kind: "user", ID: e.UserID}, *missing)
			require.Equal(t, 1, told)
		})
	}
}
