package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// deadlocks counts the transactions that PostgreSQL ended because they waited for
// each other. The store repeats them, so no caller would notice.
type deadlocks struct{ n atomic.Int64 }

func (d *deadlocks) count(err error) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "40P01" {
		d.n.Add(1)
	}
}

func (d *deadlocks) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (d *deadlocks) TraceQueryEnd(_ context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	d.count(q.Err)
}
func (d *deadlocks) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (d *deadlocks) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	d.count(q.Err)
}
func (d *deadlocks) TraceBatchEnd(_ context.Context, _ *pgx.Conn, b pgx.TraceBatchEndData) {
	d.count(b.Err)
}

// A deletion waits for locks, so nothing that it waits for may wait for it. Another
// transaction holds the first event of two, so that they meet in the middle.
func TestDeletionsLockInTheOrderOfOtherOperations(t *testing.T) {
	t.Parallel()
	met := new(deadlocks)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = met })
	store := mustStore(t, pool)
	now := nowOf(t, store)
	for name, work := range map[string]func(almanac.ClaimResult) error{
		"a release": func(c almanac.ClaimResult) error {
			_, err := store.Release(t.Context(), c.Events[0].LeaseToken)
			return err
		},
		"a settlement": func(c almanac.ClaimResult) error {
			var batch []almanac.Settlement
			for _, e := range c.Events {
				batch = append(batch, almanac.Settlement{Event: e, Outcome: almanac.Delivered(c.At)})
			}
			return settleUnlocked(t, store, batch)
		},
		"a settlement with a follow-up": func(c almanac.ClaimResult) error {
			var batch []almanac.Settlement
			for _, e := range c.Events {
				batch = append(batch, almanac.Settlement{Event: e, Outcome: almanac.Delivered(c.At), Follow: func(u almanac.User, now time.Time) ([]almanac.Event, error) {
					return []almanac.Event{almanactest.Event(now, almanactest.For(u), almanactest.OfSeries("other", "1"))}, nil
				}})
			}
			return settleUnlocked(t, store, batch)
		},
	} {
		for _, options := range []almanac.DeleteOptions{{}, atOnce} {
			for _, deletionFirst := range []bool{true, false} {
				u := almanactest.User()
				_, stored, err := almanactest.CreateUser(t.Context(), store, u, // due against the order of their ids
					almanactest.Event(now, almanactest.For(u), almanactest.ReadyFor(time.Minute)), almanactest.Event(now, almanactest.For(u), almanactest.ReadyFor(time.Hour)))
				require.NoError(t, err)
				claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 2, Lease: time.Minute})
				require.NoError(t, err)
				require.Len(t, claim.Events, 2)
				tx, err := pool.Begin(t.Context())
				require.NoError(t, err)
				_, err = tx.Exec(t.Context(), "SELECT FROM almanac.series WHERE event_id = $1 FOR UPDATE", stored[0].ID)
				require.NoError(t, err)

				deleted, worked := make(chan error, 1), make(chan error, 1)
				if !deletionFirst {
					go func() { worked <- work(claim) }()
				}
				go func() {
					_, err := store.DeleteUser(t.Context(), u.ID, options)
					deleted <- err
				}()
				awaitLockWaiter(t, pool, deleted)
				if deletionFirst {
					go func() { worked <- work(claim) }()
				}
				require.NoError(t, tx.Commit(t.Context()))
				require.NoError(t, errors.Join(<-deleted, <-worked))

				require.Zero(t, met.n.Load(), "deadlocks of a deletion (%+v, first: %t) and %s", options, deletionFirst, name)
				requireNothing(t, pool, store)
			}
		}
	}
}

// settleUnlocked stores outcomes, and tries those again whose events are locked.
func settleUnlocked(t *testing.T, store *postgres.Store, batch []almanac.Settlement) error {
	for len(batch) > 0 {
		settled, err := store.Settle(t.Context(), batch)
		if err != nil {
			return err
		}
		var locked []almanac.Settlement
		for i, one := range settled {
			if errors.Is(one.Err, almanac.ErrLocked) {
				locked = append(locked, batch[i])
			}
		}
		batch = locked
	}
	return nil
}

// Two transactions of hosts store the same users in opposite order. A third one holds the user in
// the middle, so that each of the two has begun when it ends.
func TestUsersAreStoredInOneOrderByAll(t *testing.T) {
	t.Parallel()
	met := new(deadlocks)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = met })
	users := []almanac.UserWithEvents{{User: almanactest.User()}, {User: almanactest.User()}, {User: almanactest.User()}}
	slices.SortFunc(users, func(a, b almanac.UserWithEvents) int { return bytes.Compare(a.User.ID[:], b.User.ID[:]) })
	backwards := slices.Clone(users)
	slices.Reverse(backwards)

	store := func(tx pgx.Tx, users []almanac.UserWithEvents) error {
		bound, err := postgres.New(tx)
		if err != nil {
			return err
		}
		_, err = bound.CreateUsers(t.Context(), users)
		return err
	}
	middle, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, store(middle, users[1:2]))
	done := make(chan error, 2)
	for _, list := range [][]almanac.UserWithEvents{users, backwards} {
		go func() {
			done <- pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return store(tx, list) })
		}()
	}
	awaitLockWaiters(t, pool, 2, done)
	require.NoError(t, middle.Rollback(t.Context()))
	require.NoError(t, errors.Join(<-done, <-done))

	require.Zero(t, met.n.Load())
	var stored int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.users").Scan(&stored))
	require.Equal(t, len(users), stored)
}

// Pruning locks events in another order than deletions of users, so it waits for no lock.
func TestPruningSkipsLockedEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool, postgres.WithTimeout(20*time.Second))
	now := nowOf(t, store)
	u := almanactest.User()
	var stored []almanac.Event
	for hours := 3; hours > 0; hours-- {
		stored = append(stored, almanactest.Event(now, almanactest.For(u), almanactest.ReadyFor(time.Duration(hours)*time.Hour)))
	}
	_, stored, err := almanactest.CreateUser(t.Context(), store, u, stored...)
	require.NoError(t, err)
	for range stored {
		e := claimOne(t, store)
		_, err := store.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(e.UpdatedAt)}})
		require.NoError(t, err)
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM almanac.history WHERE id = $1 FOR UPDATE", stored[0].ID)
	require.NoError(t, err)

	pruned, _, err := store.Prune(t.Context(), now.Add(time.Hour), almanac.Page{})
	require.NoError(t, err)
	require.Equal(t, 2, pruned)
	require.NoError(t, tx.Commit(t.Context()))
	pruned, _, err = store.Prune(t.Context(), now.Add(time.Hour), almanac.Page{})
	require.NoError(t, err)
	require.Equal(t, 1, pruned, "the next time")
}

// Everything at once: claims, deliveries that fail now and then, settlements,
// sweeps of leases that are too short, edits, pruning, and deletions of both kinds.
func TestDeletingUsersWithEventsInFlight(t *testing.T) {
	t.Parallel()
	const people = 40
	met := new(deadlocks)
	pool := pgtest.Pool(t, pgtest.MaxConns(20), func(c *pgxpool.Config) { c.ConnConfig.Tracer = met })
	store := mustStore(t, pool)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	doomed := make(chan uuid.UUID, 10_000)
	deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		doomed <- d.Event.UserID // deleted while it is being delivered
		if rand.IntN(3) == 0 {
			return errors.New("busy")
		}
		return nil
	})
	impatient := eager{Execution: almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: time.Millisecond}}}
	options := []almanac.Option{almanac.WithWorkers(4), almanac.WithSweep(20 * time.Millisecond), almanac.WithPoll(20 * time.Millisecond), almanac.WithDeliverer("test", deliver)}
	workers := []almanac.Scheduler{with(t, store, []almanac.EventHandler{impatient}, options...), with(t, store, []almanac.EventHandler{impatient}, options...)}
	var ids []uuid.UUID
	for range people {
		enrolment, err := workers[0].CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: "UTC"})
		require.NoError(t, err)
		ids = append(ids, enrolment.User.ID)
	}

	var working sync.WaitGroup
	for _, worker := range workers {
		working.Go(func() { noError(t, worker.Run(ctx)) })
	}
	whileRunning := func(do func() error) {
		working.Go(func() {
			for ctx.Err() == nil {
				if err := do(); !errors.Is(err, almanac.ErrNotFound) {
					noError(t, err)
				}
			}
		})
	}
	whileRunning(func() error {
		zone := sameClocks[rand.IntN(len(sameClocks))]
		_, err := workers[0].UpdateUser(t.Context(), ids[rand.IntN(people)], almanac.ProfileChange{Timezone: &zone})
		return err
	})
	whileRunning(func() error {
		_, _, err := store.Prune(t.Context(), time.Now().Add(time.Hour), almanac.Page{Limit: 1000})
		return err
	})
	whileRunning(func() error { // a worker that dies
		_, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"HEARTBEAT"}, Limit: 1, Lease: time.Microsecond})
		return err
	})
	deleted := make(map[uuid.UUID]bool)
	for len(deleted) < people {
		if id := <-doomed; !deleted[id] {
			_, err := workers[1].DeleteUser(t.Context(), id, almanac.DeleteOptions{AtOnce: len(deleted)%2 == 0})
			noError(t, err)
			deleted[id] = true
		}
	}
	stop()
	working.Wait()

	requireNothing(t, pool, store)
	t.Logf("%d deadlocks", met.n.Load())
}

// eager is a heartbeat that is tried again at once.
type eager struct {
	almanac.Execution
	heartbeat
}
