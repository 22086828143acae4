package postgres_test

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// fullQueue is a database of a server whose queue of notifications another role has filled.
type fullQueue struct {
	pool *pgxpool.Pool
	free func() // ends the session that keeps the queue full
}

// newFullQueue fills the queue as any role can that may connect. Before PostgreSQL 17 a queue always
// has room for 8 GB. There the server only says that the queue is half full.
func newFullQueue(t *testing.T) fullQueue {
	t.Helper()
	if binaries, err := pgserver.Find(); err == nil && binaries.Major >= 17 {
		return filledQueue(t)
	}
	pool := directPool(t)
	sayUsage(t, pool, "0.5")
	return fullQueue{pool, func() { sayUsage(t, pool, "0.49") }}
}

// sayUsage makes the server say in this database that so much of the queue is in use.
func sayUsage(t *testing.T, pool *pgxpool.Pool, usage string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "CREATE OR REPLACE FUNCTION pg_catalog.pg_notification_queue_usage() RETURNS float8 LANGUAGE sql VOLATILE AS 'SELECT "+usage+"::float8'")
	require.NoError(t, err)
	pool.Reset() // no plan notices that a function of the server has changed
}

// filledQueue starts a server with a small queue, and fills it.
func filledQueue(t *testing.T) fullQueue {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{Settings: map[string]string{"max_notify_queue_pages": "64"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	pool, err := pgxpool.New(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	for _, sql := range []string{"CREATE ROLE mallory LOGIN PASSWORD 'mallory'", "CREATE DATABASE another"} {
		_, err = pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	at, err := url.Parse(server.URL())
	require.NoError(t, err)
	at.User, at.Path = url.UserPassword("mallory", "mallory"), "/another"
	dial := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), at.String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	listener, sender := dial(), dial()
	for _, sql := range []string{"LISTEN x", "BEGIN", "SELECT 1"} {
		_, err = listener.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	for err == nil {
		_, err = sender.Exec(t.Context(), "SELECT pg_notify('x', repeat('x', 7980) || g) FROM generate_series(1, 10) g")
	}
	require.ErrorContains(t, err, "too many notifications in the NOTIFY queue")
	return fullQueue{pool, func() { require.NoError(t, listener.Close(t.Context())) }}
}

// A role that fills the server's queue of notifications stops nothing: hints are left out.
func TestAFullQueueOfNotificationsStopsNoWrite(t *testing.T) {
	t.Parallel()
	queue := newFullQueue(t)
	store := mustStore(t, queue.pool)
	now := nowOf(t, store)
	for name, prepare := range writes {
		require.NoError(t, prepare(writer{t, store, queue.pool, now, -time.Hour})(), "%s", name)
	}

	tx, err := queue.pool.Begin(t.Context())
	require.NoError(t, err)
	host := mustStore(t, tx)
	writer{t, host, queue.pool, now, -time.Hour}.store()
	require.NoError(t, tx.Commit(t.Context()), "the host's COMMIT")
}

func TestNoHintIsSentWhileTheQueueOfNotificationsIsHalfFull(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	now := nowOf(t, store)
	received := listenTo(t, pool)
	for usage, hints := range map[string]int{"0.5": 0, "0.49": 1} {
		sayUsage(t, pool, usage)
		for name, prepare := range writes {
			write := prepare(writer{t, store, pool, now, -time.Hour})
			received.hints(t)
			require.NoError(t, write(), "%s", name)
			require.Equal(t, hints, received.hints(t), "%s at %s", name, usage)
		}
	}
}

func TestWorkersPollWhileTheQueueOfNotificationsIsFull(t *testing.T) {
	t.Parallel()
	queue := newFullQueue(t)
	store := newListening(t, queue.pool)
	log, delivered := new(lines), make(chan almanac.Event, 1)
	deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		delivered <- d.Event
		return nil
	})
	s := newScheduler(t, store, almanac.WithDeliverer(almanac.ChannelWebhook, deliver), almanac.WithPoll(100*time.Millisecond),
		almanac.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	require.Eventually(t, func() bool { return strings.Contains(log.String(), "level=WARN") }, 30*time.Second, 10*time.Millisecond)
	require.Contains(t, log.String(), "queue of notifications is half full")
	process{delivered: delivered, log: log}.awaits(t, storeSoon(t, queue.pool))
	queue.free()
	store.receives(t)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "received again") }, 30*time.Second, 10*time.Millisecond)

	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), "%s", log)
}

// Every statement that notifies looks at the queue first: PostgreSQL refuses the COMMIT otherwise.
func TestStatementsNotifyIfTheQueueHasRoom(t *testing.T) {
	t.Parallel()
	store := mustStore(t, pgtest.ReusedPool(t))
	var notify []string
	for name, statement := range store.Statements(everySpec) {
		if strings.Contains(strings.ToLower(statement), "notify(") {
			notify = append(notify, name)
			require.Contains(t, statement, "pg_notification_queue_usage() < 0.5::float8", "%s", name)
		}
	}
	require.NotEmpty(t, notify)
}
