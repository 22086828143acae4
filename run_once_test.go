package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// onFew are repositories in PostgreSQL on pools of one connection and of two, and the one
// in memory.
var onFew = map[string]func(*testing.T) almanac.Repository{
	"on one connection":  func(t *testing.T) almanac.Repository { return openOnPool(t, 1) },
	"on two connections": func(t *testing.T) almanac.Repository { return openOnPool(t, 2) },
	"in memory":          onBoth["in memory"],
}

func openOnPool(t *testing.T, connections int32) almanac.Repository {
	t.Helper()
	store, err := postgres.New(pgtest.Pool(t, pgtest.MaxConns(connections)))
	require.NoError(t, err)
	return store
}

// once runs a pass and checks that its counts add up.
func (w *world) once(t *testing.T, s almanac.Scheduler, o almanac.RunOnceOptions) almanac.RunOnceResult {
	t.Helper()
	did, err := s.RunOnce(t.Context(), o)
	require.NoError(t, err)
	addsUp(t, did)
	return did
}

func addsUp(t *testing.T, did almanac.RunOnceResult) {
	t.Helper()
	require.Equal(t, did.Claimed, did.Completed+did.Failed+did.Retried+did.Released+did.Unstored, "%+v", did)
}

func TestRunOnceDoesWhatIsDueAndReturns(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, accepted := openOn(repository(t)), new(receiver)
			late := almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: time.Hour}}
			handlers := []almanac.EventHandler{
				series{eventType: "FINE", seconds: ago(time.Minute, nextYear), execute: accepted.Deliver},
				series{eventType: "GONE", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
					return almanac.Permanent(errBusy)
				}},
				series{Execution: late, eventType: "BUSY", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error { return errBusy }},
				series{eventType: "LATER", seconds: ago(nextYear), execute: accepted.Deliver},
			}
			for range 20 { // more than deliver at once
				for _, h := range handlers {
					owe(t, w.store, h.(series))
				}
			}
			s := w.schedulerOf(t, handlers, almanac.WithWorkers(7))

			did := w.once(t, s, almanac.RunOnceOptions{})

			require.Equal(t, almanac.RunOnceResult{Claimed: 60, Completed: 20, Failed: 20, Retried: 20}, did)
			require.Len(t, accepted.deliveries(), 20)
			for status, count := range map[almanac.Status]int{almanac.Completed: 20, almanac.Failed: 20, almanac.Pending: 60, almanac.Processing: 0} {
				n, err := w.store.Count(t.Context(), almanac.InStatus(status))
				require.NoError(t, err)
				require.Equal(t, count, n, "%s: those to be tried again, successors, and what is not due are PENDING", status)
			}
			require.Equal(t, almanac.RunOnceResult{}, w.once(t, s, almanac.RunOnceOptions{}), "nothing is left")
		})
	}
}

// What was missed comes one by one, each planned when the one before has ended.
func TestRunOnceDoesWhatFollowsAndIsDue(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			all := almanac.Execution{CatchUpPolicy: almanac.CatchUp{All: true}}
			h := series{Execution: all, eventType: "DIGEST", seconds: ago(4*time.Minute, 3*time.Minute, 2*time.Minute, time.Minute, nextYear), execute: r.Deliver}
			owe(t, w.store, h)

			did := w.once(t, w.scheduler(t, h), almanac.RunOnceOptions{})

			require.Equal(t, almanac.RunOnceResult{Claimed: 4, Completed: 4}, did)
			for i, d := range r.deliveries() {
				require.Equal(t, h.seconds[i], d.Event.Due)
			}
		})
	}
}

func TestRunOnceClaimsNoMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			handlers := []almanac.EventHandler{
				series{eventType: "ONE", seconds: ago(time.Minute), execute: r.Deliver},
				series{eventType: "LIMITED", seconds: ago(time.Minute), execute: r.Deliver},
			}
			for range 5 {
				owe(t, w.store, handlers[0].(series))
				owe(t, w.store, handlers[1].(series))
			}
			s := w.schedulerOf(t, handlers, almanac.WithLimit("LIMITED", almanac.Limit{Workers: 3}))

			require.Equal(t, almanac.RunOnceResult{Claimed: 4, Completed: 4, More: true}, w.once(t, s, almanac.RunOnceOptions{Limit: 4}))
			require.Equal(t, almanac.RunOnceResult{Claimed: 4, Completed: 4, More: true}, w.once(t, s, almanac.RunOnceOptions{Limit: 4}))
			require.Equal(t, almanac.RunOnceResult{Claimed: 2, Completed: 2}, w.once(t, s, almanac.RunOnceOptions{Limit: 4}))
			require.Len(t, r.deliveries(), 10)
		})
	}
}

// The context ends while some deliveries were accepted and others hang.
func TestRunOnceStoresWhatWasAcceptedWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			var mu sync.Mutex
			accepted, hanging, patient := make(map[uuid.UUID]int), 0, true
			both := make(chan struct{})
			h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(ctx context.Context, d almanac.Delivery) error {
				mu.Lock()
				if patient && hanging < 10 {
					if hanging++; hanging == 10 {
						close(both)
					}
					mu.Unlock()
					<-ctx.Done()
					return ctx.Err()
				}
				mu.Unlock()
				<-both
				mu.Lock()
				defer mu.Unlock()
				accepted[d.Event.ID]++
				return nil
			}}
			for range 30 {
				owe(t, w.store, h)
			}
			s := w.scheduler(t, h, almanac.WithWorkers(20), almanac.WithDrain(0))
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				<-both
				stop()
			}()

			did, err := s.RunOnce(ctx, almanac.RunOnceOptions{})

			require.NoError(t, err)
			addsUp(t, did)
			require.Zero(t, did.Unstored)
			require.Equal(t, 10, did.Released)
			require.True(t, did.More)
			mu.Lock()
			require.Len(t, accepted, did.Completed, "what was accepted is stored")
			patient = false
			mu.Unlock()
			found, err := w.store.Find(t.Context(), nil, almanac.Page{Limit: 100})
			require.NoError(t, err)
			for _, e := range found.Events {
				mu.Lock()
				took := accepted[e.ID]
				mu.Unlock()
				if took == 1 {
					require.Equal(t, almanac.Completed, e.Status)
					continue
				}
				require.Equal(t, almanac.Pending, e.Status, "nothing stays claimed")
				require.Zero(t, e.RetryCount, "the end of a pass is no failure of the event's")
			}
			rest := w.once(t, s, almanac.RunOnceOptions{})
			require.Equal(t, 30-did.Completed, rest.Completed)
			for id, times := range accepted {
				require.Equal(t, 1, times, "deliveries of %s", id)
			}
			require.Len(t, accepted, 30)
		})
	}
}

func TestRunOnceReleasesWhatADeadProcessHeld(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
			for range 3 {
				owe(t, w.store, h)
			}
			_, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Owner: "dead", Types: []string{"DIGEST"}, Limit: 2, Lease: time.Microsecond})
			require.NoError(t, err)

			did := w.once(t, w.scheduler(t, h), almanac.RunOnceOptions{})

			require.Equal(t, almanac.RunOnceResult{Claimed: 3, Completed: 3, Recovered: 2}, did)
		})
	}
}

func TestRunOncePlansWhatAProgramWithoutTheHandlerLeft(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			host := w.scheduler(t, almanac.Birthday{})
			ada, err := host.CreateUser(t.Context(), born(t, "Asia/Tokyo", 10))
			require.NoError(t, err)
			registry, err := almanac.NewRegistry()
			require.NoError(t, err)
			command, err := almanac.NewScheduler(w.store, registry)
			require.NoError(t, err)
			cancelled, err := command.Cancel(t.Context(), ada.Events[0].ID, almanac.Cancel{})
			require.NoError(t, err)
			require.True(t, cancelled.Unplanned)

			w.once(t, host, almanac.RunOnceOptions{})

			n, err := w.store.Count(t.Context(), almanac.And{almanac.ForUser(ada.User.ID), almanac.InStatus(almanac.Pending)})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			book, err := w.store.ZoneRules(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, book.Rules, "zone rules are compared too")
		})
	}
}

// A cron starts passes while another program runs all the time.
func TestRunOnceWorksBesideARun(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			var mu sync.Mutex
			times := make(map[string]int)
			h := series{eventType: "DIGEST", seconds: ago(3*time.Minute, 2*time.Minute, time.Minute), execute: func(_ context.Context, d almanac.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				times[fmt.Sprint(d.Event.UserID, d.Event.OccurrenceKey)]++
				return nil
			}}
			h.CatchUpPolicy.All = true
			const users = 40
			for range users {
				owe(t, w.store, h)
			}
			passing := w.scheduler(t, h, almanac.WithWorkers(3))
			w.run(t, h, almanac.WithWorkers(3), almanac.WithPoll(5*time.Millisecond))

			require.Eventually(t, func() bool {
				did, err := passing.RunOnce(t.Context(), almanac.RunOnceOptions{Limit: 10})
				require.NoError(t, err)
				addsUp(t, did)
				require.Zero(t, did.Unstored)
				n, err := w.store.Count(t.Context(), almanac.InStatus(almanac.Completed))
				require.NoError(t, err)
				return n == 3*users
			}, time.Minute, time.Millisecond)

			require.NoError(t, w.stop())
			require.Len(t, times, 3*users)
			for occurrence, n := range times {
				require.Equal(t, 1, n, occurrence)
			}
		})
	}
}

func TestRunOnceRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.scheduler(t, series{eventType: "DIGEST"})

	_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{Limit: -1, Within: -1})
	var invalid *almanac.ValidationError
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Fields, 2, "all at once")
	_, err = s.RunOnce(t.Context(), almanac.RunOnceOptions{Limit: 1_000_001})
	require.ErrorIs(t, err, almanac.ErrInvalid)

	tx, err := pgtest.Pool(t).Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	bound, err := postgres.New(tx)
	require.NoError(t, err)
	_, err = s.With(bound).RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.ErrorIs(t, err, errors.ErrUnsupported)

	outdated := &doubtful{Repository: almanactest.NewRepository(nil), answers: func(int) error { return almanac.ErrOutdated }}
	_, err = s.With(outdated).RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.ErrorIs(t, err, almanac.ErrOutdated)
	require.Zero(t, outdated.claims.Load())
}

func TestRunOncePrunesWhenItIsAskedTo(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
			owe(t, w.store, h)
			s := w.scheduler(t, h, almanac.WithRetention(time.Nanosecond))

			w.once(t, s, almanac.RunOnceOptions{})
			require.Len(t, w.all(t), 1)
			w.once(t, s, almanac.RunOnceOptions{Prune: true})

			require.Empty(t, w.all(t))
		})
	}
}

// Of what is locked by somebody else, a pass says that there is more, and ends.
func TestRunOnceLeavesWhatIsLocked(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	w, r := openOn(store), new(receiver)
	h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	held := owe(t, w.store, h)
	owe(t, w.store, h)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM almanac.queue WHERE event_id = $1 FOR UPDATE", held.ID)
	require.NoError(t, err)
	s := w.scheduler(t, h)

	did := w.once(t, s, almanac.RunOnceOptions{})

	require.Equal(t, almanac.RunOnceResult{Claimed: 1, Completed: 1, More: true}, did)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, almanac.RunOnceResult{Claimed: 1, Completed: 1}, w.once(t, s, almanac.RunOnceOptions{}))
}

// Observers are told of each change once, as by Run.
func TestRunOnceTellsObservers(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			h := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}
			owe(t, w.store, h)

			w.once(t, w.scheduler(t, h), almanac.RunOnceOptions{})

			var kinds []almanac.NoticeKind
			for range len(w.notices) {
				kinds = append(kinds, (<-w.notices).Kind)
			}
			require.Equal(t, []almanac.NoticeKind{almanac.EventClaimed, almanac.EventCompleted, almanac.EventCreated}, kinds)
			require.True(t, json.Valid(r.deliveries()[0].Event.Payload))
		})
	}
}

// endlessSweep is a repository that never has done with expired leases.
type endlessSweep struct{ almanac.Repository }

func (endlessSweep) ReleaseExpired(ctx context.Context, _ int) ([]almanac.Event, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRunOnceDeliversThoughMaintenanceTakesLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, accepted := openOn(endlessSweep{almanactest.NewRepository(nil)}), new(receiver)
		h := series{eventType: "FINE", seconds: ago(time.Minute), execute: accepted.Deliver}
		owe(t, w.store, h)
		require.Equal(t, 1, w.once(t, w.schedulerOf(t, []almanac.EventHandler{h}), almanac.RunOnceOptions{}).Completed)
	})
}
