package main

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func open(t *testing.T) (*pgxpool.Pool, *postgres.Store) {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.MaxConns(16))
	migrate(t.Context(), pool)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	return pool, store
}

// due stores a user whose birthday is due.
func due(t *testing.T, store *postgres.Store) almanac.Event {
	t.Helper()
	now, err := store.Now(t.Context())
	require.NoError(t, err)
	u := almanactest.User(almanactest.WithEmail("ada@example.org"))
	return almanactest.Store(t, store, u, almanactest.Event(now, almanactest.For(u)))[0]
}

func unsent(context.Context, letter) error { return errors.New("nothing works jobs in this test") }

func jobs(t *testing.T, pool *pgxpool.Pool, state string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM river_job WHERE kind = 'letter' AND state::text LIKE $1", state).Scan(&n))
	return n
}

func TestEveryDeliveryIsOneJobThatIsWorked(t *testing.T) {
	t.Parallel()
	pool, store := open(t)
	first, second := due(t, store), due(t, store)
	sent := make(chan letter)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, pool, func(_ context.Context, l letter) error { sent <- l; return nil })
	}()

	letters := []letter{<-sent, <-sent}
	stop() // the jobs may still be on their way to be stored, and the program waits for them

	require.NoError(t, <-ended)
	require.ElementsMatch(t, []letter{
		{string(first.IdempotencyKey), "ada@example.org", string(first.Payload)},
		{string(second.IdempotencyKey), "ada@example.org", string(second.Payload)},
	}, letters)
	require.Equal(t, 2, jobs(t, pool, "completed"))
	almanactest.FindEvents(t, store, almanac.InStatus(almanac.Completed), 2)
}

// The outcome of the first attempt is lost after the job was inserted.
func TestARepeatedDeliveryInsertsOneJob(t *testing.T) {
	t.Parallel()
	pool, store := open(t)
	event := due(t, store)
	attempts := 0
	scheduler := newScheduler(pool, almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		attempts++
		if err := (queue{newClient(pool, unsent)}).Deliver(ctx, d); err != nil || attempts > 1 {
			return err
		}
		return errors.New("connection reset by peer")
	}))
	did, err := scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, did.Retried)
	require.Equal(t, 1, jobs(t, pool, "available"))

	_, err = scheduler.RunNow(t.Context(), event.ID, almanac.ForceOptions{}) // rather than wait for the retry
	require.NoError(t, err)
	did, err = scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})

	require.NoError(t, err)
	require.Equal(t, 1, did.Completed)
	require.Equal(t, 2, attempts)
	require.Equal(t, 1, jobs(t, pool, "%"))
}

func TestAKeyHasOneJobInWhateverState(t *testing.T) {
	t.Parallel()
	pool, store := open(t)
	client := newClient(pool, unsent)
	deliver := func(e almanac.Event) {
		t.Helper()
		u, err := store.User(t.Context(), e.UserID)
		require.NoError(t, err)
		require.NoError(t, queue{client}.Deliver(t.Context(), almanac.Delivery{Event: e, User: u, Attempt: 1}))
	}
	event := due(t, store)
	var racing sync.WaitGroup
	for range 8 {
		racing.Go(func() { deliver(event) })
	}
	racing.Wait()
	require.Equal(t, 1, jobs(t, pool, "%"))
	moved := almanac.Delivery{Event: event, User: almanactest.User(almanactest.WithEmail("ada@example.net")), Attempt: 2}
	require.NoError(t, queue{client}.Deliver(t.Context(), moved), "the user has a new address")
	require.Equal(t, 1, jobs(t, pool, "%"))

	for _, state := range []string{"completed", "discarded", "cancelled"} {
		_, err := pool.Exec(t.Context(), "UPDATE river_job SET state = $1::text::river_job_state, finalized_at = now()", state)
		require.NoError(t, err)
		deliver(event)
		require.Equal(t, 1, jobs(t, pool, "%"), state)
	}

	deliver(due(t, store))
	require.Equal(t, 2, jobs(t, pool, "%"))
}
