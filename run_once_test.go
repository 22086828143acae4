package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
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
	require.Equal(t, did.Claimed, did.Completed+did.Failed+did.Cancelled+did.Retried+did.Released+did.Unstored, "%+v", did)
}

func TestRunOnceExecutesDueEventsAndReturns(t *testing.T) {
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
				series{eventType: "UNWANTED", seconds: ago(time.Minute, nextYear), execute: func(context.Context, almanac.Delivery) error {
					return almanac.NotOwed("no address")
				}},
				series{Execution: late, eventType: "BUSY", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error { return errBusy }},
				series{eventType: "LATER", seconds: ago(nextYear), execute: accepted.Deliver},
			}
			for range 20 { // more than deliver at once
				for _, h := range handlers {
					storeEvent(t, w.store, h.(series))
				}
			}
			s := w.schedulerOf(t, handlers, almanac.WithWorkers(7))

			did := w.once(t, s, almanac.RunOnceOptions{})

			require.Equal(t, almanac.RunOnceResult{Claimed: 80, Completed: 20, Failed: 20, Cancelled: 20, Retried: 20}, did)
			require.Len(t, accepted.deliveries(), 20)
			for status, count := range map[almanac.Status]int{
				almanac.Completed: 20, almanac.Failed: 20, almanac.Cancelled: 20, almanac.Pending: 80, almanac.Processing: 0,
			} {
				n, err := w.store.Count(t.Context(), almanac.InStatus(status))
				require.NoError(t, err)
				require.Equal(t, count, n, "%s: those to be tried again, successors, and what is not due are PENDING", status)
			}
			require.Equal(t, almanac.RunOnceResult{}, w.once(t, s, almanac.RunOnceOptions{}), "nothing is left")
		})
	}
}

// What was missed comes one by one, each planned when the one before has ended.
// What a lease says of the program that holds it is for operators.
func TestLeasesNameTheProgramAndItsZoneData(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(w *world, handler series){
		"RunOnce": func(w *world, handler series) {
			w.once(t, w.scheduler(t, handler), almanac.RunOnceOptions{})
		},
		"Run": func(w *world, handler series) {
			w.run(t, handler)
			w.await(t, almanac.EventCompleted)
			require.NoError(t, w.stop())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			held := make(chan []ops.Lease, 1)
			handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(ctx context.Context, _ almanac.Delivery) error {
				leases, err := w.store.(ops.Statistics).Leases(ctx, 0)
				held <- leases
				return err
			}}
			storeEvent(t, w.store, handler)

			pass(w, handler)

			leases := <-held
			require.Len(t, leases, 1)
			rules, err := calendar.StoredTimezone("Europe/Berlin").Rules(2026)
			require.NoError(t, err)
			require.NotEmpty(t, leases[0].Owner)
			require.Regexp(t, `^almanac\.test\b`, leases[0].Program)
			require.Equal(t, rules.Version, leases[0].ZoneData)
			require.Equal(t, 1, leases[0].Events)
		})
	}
}

func TestRunOnceExecutesDueSuccessors(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			all := almanac.Execution{CatchUpPolicy: almanac.CatchUp{All: true}}
			h := series{Execution: all, eventType: "DIGEST", seconds: ago(4*time.Minute, 3*time.Minute, 2*time.Minute, time.Minute, nextYear), execute: r.Deliver}
			storeEvent(t, w.store, h)

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
				storeEvent(t, w.store, handlers[0].(series))
				storeEvent(t, w.store, handlers[1].(series))
			}
			s := w.schedulerOf(t, handlers)
			require.NoError(t, s.SetLane(t.Context(), almanac.Lane{Name: "LIMITED", Places: 3}))

			for completed := 0; completed < 10; {
				did := w.once(t, s, almanac.RunOnceOptions{Limit: 4})
				require.LessOrEqual(t, did.Claimed, 4)
				require.Equal(t, did.Claimed, did.Completed+did.Retried, "on a busy machine, an event starts too late after its admission, and goes back")
				completed += did.Completed
				require.True(t, did.More || completed == 10)
			}
			require.Len(t, r.deliveries(), 10)
		})
	}
}

// The context ends while some deliveries were accepted and others hang.
func TestRunOnceStoresOutcomesWhenItsContextEnds(t *testing.T) {
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
				storeEvent(t, w.store, h)
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
			for _, e := range found.Items {
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

func TestRunOnceReleasesEventsOfADeadProcess(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
			for range 3 {
				storeEvent(t, w.store, h)
			}
			_, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Owner: "dead", Types: []string{"DIGEST"}, Limit: 2, Lease: time.Microsecond})
			require.NoError(t, err)

			did := w.once(t, w.scheduler(t, h), almanac.RunOnceOptions{})

			require.Equal(t, almanac.RunOnceResult{Claimed: 3, Completed: 3, Recovered: 2}, did)
		})
	}
}

func TestRunOncePlansSuccessorsLeftByOtherPrograms(t *testing.T) {
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
			cancelled, err := command.Cancel(t.Context(), ada.Events[0].ID, almanac.CancelOptions{})
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
				storeEvent(t, w.store, h)
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

func TestRunOnceRefusesOptionsOutOfRange(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.scheduler(t, series{eventType: "DIGEST"})

	_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{Limit: -1, Within: -1})
	var invalid *almanac.ValidationError
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Fields, 2, "all at once")
	_, err = s.RunOnce(t.Context(), almanac.RunOnceOptions{Limit: 1_000_001})
	require.ErrorIs(t, err, almanac.ErrInvalid)

	tx, err := pgtest.ReusedPool(t).Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	bound, err := postgres.New(tx)
	require.NoError(t, err)
	_, err = s.With(bound).RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, s.With(bound).Run(t.Context()), errors.ErrUnsupported)

	outdated := &doubtful{Repository: almanactest.NewRepository(nil), answers: func(int) error { return almanac.ErrOutdated }}
	_, err = s.With(outdated).RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.ErrorIs(t, err, almanac.ErrOutdated)
	require.Zero(t, outdated.claims.Load())
}

func TestRunOncePrunesOnRequest(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
			storeEvent(t, w.store, h)
			s := w.scheduler(t, h, almanac.WithRetention(time.Microsecond))

			w.once(t, s, almanac.RunOnceOptions{})
			require.Len(t, w.all(t), 1)
			w.once(t, s, almanac.RunOnceOptions{Prune: true})

			require.Empty(t, w.all(t))
		})
	}
}

// crashed is a repository that cannot release the events of dead processes.
type crashed struct{ *almanactest.Repository }

func (crashed) ReleaseExpired(context.Context, int, int) ([]almanac.Event, error) {
	return nil, errBusy
}

// Maintenance tasks are independent: a pass prunes although another task has failed.
func TestRunOncePrunesAfterAnotherTaskFailed(t *testing.T) {
	t.Parallel()
	w, r := openOn(crashed{almanactest.NewRepository(nil)}), new(receiver)
	h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	storeEvent(t, w.store, h)

	_, err := w.scheduler(t, h, almanac.WithRetention(time.Microsecond)).RunOnce(t.Context(), almanac.RunOnceOptions{Prune: true})

	require.ErrorIs(t, err, errBusy)
	require.Empty(t, w.all(t))
}

// Passes of a scheduler go on from the size at which the one before could release events.
func TestRunOnceTakesSmallerStepsThanThePassBefore(t *testing.T) {
	t.Parallel()
	steps := &smallSteps{Repository: almanactest.NewRepository(nil)}
	w := openOn(steps)
	s := w.scheduler(t, series{eventType: "DIGEST", seconds: ago(time.Minute)})

	for range 5 {
		_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.NoError(t, err, "after 2,000, 1,000, 500, 250 and 125")
}

// If another transaction has locked events, a pass reports that there are more, and ends.
func TestRunOnceLeavesLockedEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	w, r := openOn(store), new(receiver)
	h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	held := storeEvent(t, w.store, h)
	storeEvent(t, w.store, h)
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

// Observers are notified of each change once, as by Run.
func TestRunOnceNotifiesObservers(t *testing.T) {
	t.Parallel()
	for where, repository := range onFew {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			h := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}
			storeEvent(t, w.store, h)

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

func (endlessSweep) ReleaseExpired(ctx context.Context, _, _ int) ([]almanac.Event, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRunOnceDeliversThoughMaintenanceTakesLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, accepted := openOn(endlessSweep{almanactest.NewRepository(nil)}), new(receiver)
		h := series{eventType: "FINE", seconds: ago(time.Minute), execute: accepted.Deliver}
		storeEvent(t, w.store, h)
		did := w.once(t, w.schedulerOf(t, []almanac.EventHandler{h}), almanac.RunOnceOptions{})
		require.Equal(t, almanac.RunOnceResult{Claimed: 1, Completed: 1, CutShort: []string{"release expired leases"}}, did)
		book, err := w.store.ZoneRules(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, book.Rules, "the last task has its share of the time")
	})
}

func TestRunOnceRunsOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
			time.Sleep(time.Second)
			return nil
		}}
		storeEvent(t, w.store, h)
		s := w.scheduler(t, h)
		go func() { _, _ = s.RunOnce(t.Context(), almanac.RunOnceOptions{}) }()
		synctest.Wait()

		_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.ErrorIs(t, err, almanac.ErrRunning)
		require.ErrorIs(t, s.Run(t.Context()), almanac.ErrRunning)
		require.NoError(t, s.Health().Err())
		require.Equal(t, 1, s.Health().Held)

		time.Sleep(2 * time.Second)
		require.Equal(t, almanac.RunOnceResult{}, w.once(t, s, almanac.RunOnceOptions{}))
		require.ErrorIs(t, s.Health().Err(), almanac.ErrNotRunning)
	})
}

// Deliveries go on for as long as a drain lasts once the time of a pass is over.
func TestRunOnceEndsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		h := series{eventType: "DIGEST", seconds: ago(time.Minute)}
		h.AttemptTimeout = time.Hour
		lasting := map[int]time.Duration{0: time.Second, 1: 12 * time.Second, 2: time.Minute, 3: time.Minute}
		var mu sync.Mutex
		begun := 0
		h.execute = func(ctx context.Context, _ almanac.Delivery) error {
			mu.Lock()
			takes := time.After(lasting[begun%4])
			begun++
			mu.Unlock()
			select {
			case <-takes:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for range 10 {
			storeEvent(t, w.store, h)
		}
		began := time.Now()

		did := w.once(t, w.scheduler(t, h, almanac.WithWorkers(4), almanac.WithDrain(5*time.Second)), almanac.RunOnceOptions{Within: 10 * time.Second})

		// One after a second, which the fifth follows, whose second is over too, and so on.
		require.Equal(t, 15*time.Second, time.Since(began).Truncate(time.Second))
		require.True(t, did.More)
		require.Positive(t, did.Completed)
		require.Positive(t, did.Released)
		require.Zero(t, did.Unstored)
	})
}

// A pass waits for the rate of a type, and holds up no other type meanwhile.
func TestRunOnceWaitsForARate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, slow, other := openOn(almanactest.NewRepository(nil)), new(receiver), new(receiver)
		handlers := []almanac.EventHandler{
			series{eventType: "SLOW", seconds: ago(time.Minute), execute: slow.Deliver},
			series{eventType: "OTHER", seconds: ago(time.Minute), execute: other.Deliver},
		}
		for range 10 {
			storeEvent(t, w.store, handlers[0].(series))
			storeEvent(t, w.store, handlers[1].(series))
		}
		s := w.schedulerOf(t, handlers)
		require.NoError(t, s.SetLane(t.Context(), almanac.Lane{Name: "SLOW", Rate: 2, Burst: 1}))
		began := time.Now()

		did := w.once(t, s, almanac.RunOnceOptions{})

		require.Equal(t, almanac.RunOnceResult{Claimed: 20, Completed: 20}, did)
		require.InDelta(t, 5, time.Since(began).Seconds(), 0.5, "ten at two a second")
		for _, d := range other.deliveries() {
			require.Less(t, d.At.Sub(began), time.Second)
		}
	})
}

// narrow counts the calls that are under way at once, each of which takes a while.
type narrow struct {
	*almanactest.Repository
	mu        sync.Mutex
	now, peak int
}

func (n *narrow) enter() (leave func()) {
	n.mu.Lock()
	n.now++
	n.peak = max(n.peak, n.now)
	n.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.now--
	}
}

func (n *narrow) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	defer n.enter()()
	return n.Repository.Claim(ctx, r)
}

func (n *narrow) Settle(ctx context.Context, s []almanac.Settlement) ([]almanac.SettleResult, error) {
	defer n.enter()()
	return n.Repository.Settle(ctx, s)
}

func (n *narrow) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	defer n.enter()()
	return n.Repository.Renew(ctx, tokens, lease)
}

func (n *narrow) Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error) {
	defer n.enter()()
	return n.Repository.Until(ctx, types, mark)
}

// However many types have limits.
func TestRunOnceNeedsTwoConnectionsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &narrow{Repository: almanactest.NewRepository(nil)}
		w := openOn(n)
		var handlers []almanac.EventHandler
		for i := range 5 {
			h := series{eventType: fmt.Sprint("TYPE", i), seconds: ago(time.Minute)}
			h.execute = func(context.Context, almanac.Delivery) error {
				time.Sleep(time.Duration(3+i) * time.Second)
				return nil
			}
			for range 10 {
				storeEvent(t, w.store, h)
			}
			handlers = append(handlers, h)
			require.NoError(t, n.PutLane(t.Context(), almanac.Lane{Name: h.eventType, Places: 2}))
		}

		did := w.once(t, w.schedulerOf(t, handlers, almanac.WithLease(6*time.Second)), almanac.RunOnceOptions{})

		require.Equal(t, almanac.RunOnceResult{Claimed: 50, Completed: 50}, did)
		require.Equal(t, 2, n.peak)
	})
}

// upkept is a narrow repository that counts the calls of upkeep too.
type upkept struct{ *narrow }

func (u upkept) Confirm(ctx context.Context, events []almanac.Event) (almanac.ConfirmResult, error) {
	defer u.enter()()
	return u.Repository.Confirm(ctx, events)
}

func (u upkept) ReleaseExpired(ctx context.Context, limit, most int) ([]almanac.Event, error) {
	defer u.enter()()
	return u.Repository.ReleaseExpired(ctx, limit, most)
}

func (u upkept) AddSuccessors(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error)) (almanac.AddEventsResult, error) {
	defer u.enter()()
	return u.Repository.AddSuccessors(ctx, eventType, page, plan)
}

func (u upkept) ZoneRules(ctx context.Context) (almanac.ZoneBook, error) {
	defer u.enter()()
	return u.Repository.ZoneRules(ctx)
}

// However many events are delivered at once, and though each outcome comes by itself.
func TestRunNeedsSevenConnectionsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &narrow{Repository: almanactest.NewRepository(nil)}
		w := openOn(upkept{n})
		var begun atomic.Int64
		h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
			time.Sleep(time.Duration(begun.Add(1)%100) * 2 * time.Millisecond)
			return nil
		}}
		const events = 500
		for range events {
			storeEvent(t, w.store, h)
		}

		w.run(t, h, almanac.WithLease(3*time.Second), almanac.WithSweep(time.Second/10))
		for range events {
			w.await(t, almanac.EventCompleted)
		}
		require.NoError(t, w.stop())

		require.LessOrEqual(t, n.peak, 7)
		require.Greater(t, n.peak, 2, "calls are counted")
	})
}

// unwilling is a repository that stores no outcomes.
type unwilling struct{ *almanactest.Repository }

func (unwilling) Settle(context.Context, []almanac.Settlement) ([]almanac.SettleResult, error) {
	return nil, errBusy
}

func TestRunOnceCountsOutcomesThatAreNotStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := openOn(unwilling{almanactest.NewRepository(nil)}), new(receiver)
		h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
		storeEvent(t, w.store, h)

		did, err := w.scheduler(t, h).RunOnce(t.Context(), almanac.RunOnceOptions{Within: 5 * time.Second})

		require.ErrorContains(t, err, "results given up: 1")
		require.Equal(t, almanac.RunOnceResult{Claimed: 1, Unstored: 1, CutShort: []string{"plan stalled series"}}, did)
	})
}

// A pass waits for briefly snoozed events while others end. Repeated snoozes alone do not prolong it.
func TestRunOnceWaitsForSnoozedEvents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		events    int
		snooze    time.Duration
		within    time.Duration
		completes bool // one event each second; otherwise none
		completed int
		more      bool // then another pass completes the rest
		lasts     time.Duration
	}{
		"for moments":            {events: 5, snooze: 5 * time.Second, within: time.Hour, completes: true, completed: 5, lasts: 20 * time.Second},
		"for a minute":           {events: 3, snooze: time.Minute, within: time.Hour, completes: true, completed: 3, lasts: 2 * time.Minute},
		"for longer":             {events: 3, snooze: 61 * time.Second, within: time.Hour, completes: true, completed: 1},
		"until the time is over": {events: 5, snooze: 5 * time.Second, within: 20 * time.Second, completes: true, completed: 4, more: true, lasts: 15 * time.Second},
		"over and over":          {events: 2, snooze: 5 * time.Second, within: time.Hour, lasts: 5 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &plansLast{Repository: almanactest.NewRepository(nil), receiver: new(receiver)}
				w := openOn(store)
				var mu sync.Mutex
				next := time.Now()
				h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
					mu.Lock()
					defer mu.Unlock()
					if !tt.completes || time.Now().Before(next) {
						return almanac.Snooze(tt.snooze, "the receiver is busy")
					}
					next = time.Now().Add(time.Second)
					return nil
				}}
				for range tt.events {
					storeEvent(t, w.store, h)
				}
				s, began := w.scheduler(t, h), time.Now()

				did := w.once(t, s, almanac.RunOnceOptions{Within: tt.within})

				require.Equal(t, tt.completed, did.Completed)
				require.Equal(t, tt.more, did.More)
				require.Len(t, store.before, 1, "there is time to plan stalled series")
				require.Equal(t, tt.lasts, time.Since(began).Truncate(time.Second))
				if tt.more {
					require.Equal(t, tt.events-tt.completed, w.once(t, s, almanac.RunOnceOptions{Within: tt.within}).Completed)
				}
			})
		})
	}
}

// plansLast is a repository that notes how many deliveries were made before stalled series were planned.
type plansLast struct {
	*almanactest.Repository
	*receiver
	before []int
}

func (p *plansLast) AddSuccessors(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error)) (almanac.AddEventsResult, error) {
	p.before = append(p.before, len(p.deliveries()))
	return p.Repository.AddSuccessors(ctx, eventType, page, plan)
}

// A pass delivers before it plans stalled series, so a handler that ends the process while planning prevents no delivery.
func TestRunOncePlansStalledSeriesAfterItsDeliveries(t *testing.T) {
	t.Parallel()
	store := &plansLast{Repository: almanactest.NewRepository(nil), receiver: new(receiver)}
	w, h := openOn(store), series{eventType: "DIGEST", seconds: ago(time.Minute), execute: store.Deliver}
	storeEvent(t, w.store, h)
	w.once(t, w.scheduler(t, h), almanac.RunOnceOptions{})
	require.Equal(t, []int{1}, store.before)
}
