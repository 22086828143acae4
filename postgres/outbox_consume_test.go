package postgres_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// The transaction that draws the first number commits last. What it wrote is read when it
// has committed, and nothing waits for it.
func TestALateCommitIsReadAndDelaysNoOther(t *testing.T) {
	t.Parallel()
	pool, store := withOutbox(t, "billing")
	slow, err := pool.Begin(t.Context())
	require.NoError(t, err)
	bound := mustStore(t, slow)
	late, err := newScheduler(t, bound).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	for range 3 {
		other, err := newScheduler(t, store).CreateUser(t.Context(), ada)
		require.NoError(t, err)
		events := consume(t, store, "billing", 1)
		require.Len(t, events, 2, "nothing waits for the open transaction")
		require.Equal(t, other.User.ID, events[0].UserID)
	}
	_, err = newScheduler(t, bound).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.NoError(t, slow.Commit(t.Context()))

	events := consume(t, store, "billing", 1)
	require.Len(t, events, 4)
	require.Equal(t, late.User.ID, events[0].UserID)
	require.Equal(t, late.User.ID, events[1].UserID)
	require.Empty(t, consume(t, store, "billing", 1))
}

// Writers commit in any order, consumers read pages of any size, and fail now and then:
// each consumer reads each change, once unless it failed, and those of a user in order.
func TestConsumersReadEveryChangeOfConcurrentWriters(t *testing.T) {
	t.Parallel()
	consumers := []string{"billing", "search"}
	pool, store := withOutbox(t, consumers...)
	const writers, changes = 4, 25
	users := make([]uuid.UUID, 3)
	for i := range users {
		enrolment, err := newScheduler(t, store).CreateUser(t.Context(), ada)
		require.NoError(t, err)
		users[i] = enrolment.User.ID
	}
	zones := []string{"Europe/Rome", "Asia/Tokyo", "America/Lima"}
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range changes {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					// A transaction that has changed no user yet. Like a trigger, it draws the number when it has its id.
					if _, err := tx.Exec(t.Context(), `SELECT pg_current_xact_id(); INSERT INTO almanac.outbox (kind, user_id, version) VALUES ('filler', gen_random_uuid(), 1)`); err != nil {
						return err
					}
					_, err := tx.Exec(t.Context(), `UPDATE almanac.users SET timezone = CASE timezone WHEN $2 THEN $3 ELSE $2 END, version = version + 1 WHERE id = $1`,
						users[random.IntN(len(users))], zones[random.IntN(2)], zones[2])
					if err == nil {
						_, err = tx.Exec(t.Context(), "SELECT pg_sleep($1)", float64(random.IntN(3))/1000) // others commit meanwhile
					}
					if err == nil && random.IntN(10) == 0 {
						return pgx.ErrTxCommitRollback
					}
					return err
				})
				if err != nil && !errors.Is(err, pgx.ErrTxCommitRollback) {
					t.Error(err)
				}
			}
		})
	}
	read := make(map[string][]postgres.DomainEvent)
	var mu sync.Mutex
	for c, name := range consumers {
		reading.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(c)))
			for ended := false; ; {
				n, err := store.Consume(t.Context(), name, 1+random.IntN(4), func(_ context.Context, _ pgx.Tx, events []postgres.DomainEvent) error {
					if random.IntN(5) == 0 {
						return errors.ErrUnsupported
					}
					mu.Lock()
					defer mu.Unlock()
					read[name] = append(read[name], events...)
					return nil
				})
				if err != nil && !errors.Is(err, errors.ErrUnsupported) {
					t.Error(err)
					return
				}
				if n == 0 && err == nil {
					if ended {
						return
					}
					select {
					case <-done:
						ended = true // one more look, after the last commit
					default:
					}
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()

	rows, err := pool.Query(t.Context(), "SELECT sequence FROM almanac.outbox ORDER BY sequence")
	require.NoError(t, err)
	stored, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	require.Greater(t, len(stored), writers*changes)
	for name, events := range read {
		numbers := make([]int64, len(events))
		versions := map[uuid.UUID]int{}
		for i, e := range events {
			numbers[i] = e.Sequence
			if e.Kind == postgres.UserTimezoneChanged {
				require.Greater(t, e.Version, versions[e.UserID], "%s reads the changes of a user in order", name)
				versions[e.UserID] = e.Version
			}
		}
		slices.Sort(numbers)
		require.Equal(t, stored, numbers, "%s reads everything, and once", name)
		require.Len(t, versions, len(users))
	}
}

// The position is part of the transaction in which a consumer handles what it has read.
func TestAConsumerMovesWithItsTransaction(t *testing.T) {
	t.Parallel()
	pool, store := withOutbox(t, "billing")
	_, err := pool.Exec(t.Context(), "CREATE TABLE public.bills (domain_event uuid PRIMARY KEY)")
	require.NoError(t, err)
	_, err = newScheduler(t, store).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	var seen [][]postgres.DomainEvent
	refused := errors.New("no bills today")
	bill := func(fails error) error {
		_, err := store.Consume(t.Context(), "billing", 100, func(ctx context.Context, tx pgx.Tx, events []postgres.DomainEvent) error {
			seen = append(seen, events)
			for _, e := range events {
				if _, err := tx.Exec(ctx, "INSERT INTO public.bills VALUES ($1)", e.ID); err != nil {
					return err
				}
			}
			return fails
		})
		return err
	}

	require.ErrorIs(t, bill(refused), refused)
	require.NoError(t, bill(nil))
	require.NoError(t, bill(nil), "there is nothing more")
	require.Len(t, seen, 2)
	require.Equal(t, seen[0], seen[1], "the same again")
	var bills int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM public.bills").Scan(&bills))
	require.Equal(t, 2, bills)
}

// A consumer that changes something writes to the outbox in the transaction in which it
// reads it, and reads that next.
func TestAConsumerReadsItsOwnChanges(t *testing.T) {
	t.Parallel()
	_, store := withOutbox(t, "echo")
	_, err := newScheduler(t, store).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	for range 3 {
		var read []postgres.DomainEvent
		n, err := store.Consume(t.Context(), "echo", 100, func(_ context.Context, tx pgx.Tx, events []postgres.DomainEvent) error {
			read = events
			bound := mustStore(t, tx)
			_, err = newScheduler(t, bound).CreateUser(t.Context(), ada)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, postgres.UserCreated, read[0].Kind)
	}
}

// In the host's transaction its commit moves the consumer. What the transaction itself
// writes, before or after, is read by the next.
func TestAConsumerInTheHostsTransaction(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool, store := withOutbox(t, "billing")
			other, err := newScheduler(t, store).CreateUser(t.Context(), ada)
			require.NoError(t, err)
			within := func(end func(pgx.Tx, context.Context) error) (before, after uuid.UUID) {
				tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
				require.NoError(t, err)
				bound := mustStore(t, tx)
				own, err := newScheduler(t, bound).CreateUser(t.Context(), ada)
				require.NoError(t, err)
				_, err = pool.Exec(t.Context(), "SELECT pg_current_xact_id()") // others go on meanwhile
				require.NoError(t, err)
				events := consume(t, bound, "billing", 1)
				require.Len(t, events, 2)
				require.Equal(t, other.User.ID, events[0].UserID)
				more, err := newScheduler(t, bound).CreateUser(t.Context(), ada)
				require.NoError(t, err)
				require.NoError(t, end(tx, t.Context()))
				return own.User.ID, more.User.ID
			}
			within(pgx.Tx.Rollback)
			before, after := within(pgx.Tx.Commit)
			events := consume(t, store, "billing", 100)
			require.Len(t, events, 4)
			require.Equal(t, []uuid.UUID{before, after}, []uuid.UUID{events[0].UserID, events[2].UserID})
		})
	}
}

func TestRowsArePrunedBehindTheSlowestConsumer(t *testing.T) {
	t.Parallel()
	_, store := withOutbox(t, "fast", "slow")
	scheduler := newScheduler(t, store)
	for range 5 {
		_, err := scheduler.CreateUser(t.Context(), ada)
		require.NoError(t, err)
	}
	prune := func() int {
		n, err := store.PruneOutbox(t.Context(), 4)
		require.NoError(t, err)
		return n
	}
	require.Len(t, consume(t, store, "fast", 100), 10)
	require.Zero(t, prune(), "no other consumer has read")
	n, err := store.Consume(t.Context(), "slow", 7, func(context.Context, pgx.Tx, []postgres.DomainEvent) error { return nil })
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.Equal(t, []int{4, 3, 0}, []int{prune(), prune(), prune()}, "in steps, in the middle of a snapshot")

	consumers, err := store.Consumers(t.Context())
	require.NoError(t, err)
	require.Equal(t, "fast", consumers[0].Name)
	require.Zero(t, consumers[0].Oldest)
	require.WithinDuration(t, time.Now(), consumers[1].Oldest, time.Minute)
	require.WithinDuration(t, time.Now(), consumers[1].MovedAt, time.Minute)
	require.Len(t, consume(t, store, "slow", 2), 3)
	require.Equal(t, 3, prune())

	_, err = scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.Len(t, consume(t, store, "fast", 1), 2)
	require.NoError(t, store.DeleteConsumer(t.Context(), "slow"))
	require.Equal(t, 2, prune(), "it is waited for no longer")
	var missing *postgres.NoConsumerError
	require.ErrorAs(t, store.DeleteConsumer(t.Context(), "slow"), &missing)
	require.ErrorIs(t, missing, almanac.ErrNotFound)
}

func TestAConsumerReadsChangesCommittedAfterItsCreation(t *testing.T) {
	t.Parallel()
	pool, store := withOutbox(t)
	scheduler := newScheduler(t, store)
	open, err := pool.Begin(t.Context())
	require.NoError(t, err)
	bound := mustStore(t, open)
	opened, err := newScheduler(t, bound).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	_, err = scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)

	require.NoError(t, store.CreateConsumer(t.Context(), "billing"))
	require.NoError(t, open.Commit(t.Context()))
	events := consume(t, store, "billing", 100)
	require.Len(t, events, 2)
	require.Equal(t, opened.User.ID, events[0].UserID)
	require.NoError(t, store.CreateConsumer(t.Context(), "billing"), "one that is there is left as it is")
	require.Empty(t, consume(t, store, "billing", 100))

	require.NoError(t, postgres.DisableOutbox(t.Context(), pool))
	require.NoError(t, postgres.DisableOutbox(t.Context(), pool), "a second time")
	_, err = scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.Empty(t, consume(t, store, "billing", 100))
}

// What is about a user who is gone goes with them, save what a consumer has not read, which
// goes when it is pruned.
func TestTheOutboxErasesADeletedUser(t *testing.T) {
	t.Parallel()
	pool, store := withOutbox(t, "fast", "slow")
	scheduler := newScheduler(t, store)
	about := func(user uuid.UUID) (kinds []string) {
		rows, err := pool.Query(t.Context(), "SELECT kind FROM almanac.outbox WHERE user_id = $1 ORDER BY sequence", user)
		require.NoError(t, err)
		kinds, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return kinds
	}
	read, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	consume(t, store, "slow", 1)
	unread, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	consume(t, store, "fast", 100)
	for _, user := range []uuid.UUID{read.User.ID, unread.User.ID} {
		_, err = scheduler.DeleteUser(t.Context(), user, almanac.DeleteOptions{AtOnce: true})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"user_deleted"}, about(read.User.ID))
	require.Equal(t, []string{"user_created", "event_created", "user_deleted"}, about(unread.User.ID))
	require.Len(t, consume(t, store, "slow", 100), 4, "it misses nothing")
	consume(t, store, "fast", 100)
	_, err = store.PruneOutbox(t.Context(), 100)
	require.NoError(t, err)
	require.Empty(t, slices.Concat(about(read.User.ID), about(unread.User.ID)))
}

// A frozen or slow reader keeps others of its name waiting no longer than for a lock.
func TestAConsumerReadsInOneCallAtATime(t *testing.T) {
	t.Parallel()
	pool, store := withOutbox(t, "billing")
	hasty := mustStore(t, pool, postgres.WithLockTimeout(50*time.Millisecond))
	_, err := newScheduler(t, store).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	_, err = store.Consume(t.Context(), "billing", 1, func(ctx context.Context, _ pgx.Tx, _ []postgres.DomainEvent) error {
		_, err := hasty.Consume(ctx, "billing", 1, func(context.Context, pgx.Tx, []postgres.DomainEvent) error {
			return errors.New("read by two at once")
		})
		require.ErrorIs(t, err, almanac.ErrLocked)
		return nil
	})
	require.NoError(t, err)
}

func TestConsumeNamesEveryBadField(t *testing.T) {
	t.Parallel()
	_, store := withOutbox(t)
	never := func(context.Context, pgx.Tx, []postgres.DomainEvent) error { return errors.ErrUnsupported }
	_, err := store.Consume(t.Context(), "", 10_001, never)
	require.EqualError(t, err, "almanac: invalid input: consumer is not 1 to 100 bytes long; limit is not between 1 and 10000")
	require.ErrorIs(t, store.CreateConsumer(t.Context(), strings.Repeat("x", 101)), almanac.ErrInvalid)
	_, err = store.PruneOutbox(t.Context(), 0)
	require.ErrorIs(t, err, almanac.ErrInvalid)
	_, err = store.Consume(t.Context(), "unknown", 1, never)
	require.EqualError(t, err, `postgres: no consumer "unknown"`)
	require.ErrorIs(t, err, almanac.ErrNotFound)
}
