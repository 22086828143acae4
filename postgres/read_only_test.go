package postgres_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// requireReads requires that a store reads and does not write.
func requireReads(t *testing.T, store *postgres.Store, stored almanac.Event) {
	t.Helper()
	found, err := store.Find(t.Context(), almanac.Ready{}, almanac.Page{})
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	missed, err := store.Missed(t.Context(), []string{stored.Type}, 0)
	require.NoError(t, err)
	require.Equal(t, 1, missed.Count)
	stats, err := store.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, ops.Count{N: 1}, stats.Backlog)
	_, err = store.Leases(t.Context(), 0)
	require.NoError(t, err)
	_, err = store.Retries(t.Context())
	require.NoError(t, err)
	require.NoError(t, store.Verify(t.Context()))
	require.NoError(t, store.Listen(t.Context(), func() { t.Error("it listens") }))

	for what, write := range map[string]func() error{
		"claim":  func() error { _, err := store.Claim(t.Context(), birthdays(1)); return err },
		"edit":   func() error { _, err := newScheduler(t, store).Reschedule(t.Context(), stored.UserID); return err },
		"create": func() error { _, err := newScheduler(t, store).CreateUser(t.Context(), ada); return err },
		"pause":  func() error { return store.Pause(t.Context(), almanac.Pause{Lane: stored.Type}) },
		"delete": func() error {
			_, err := store.DeleteUser(t.Context(), stored.UserID, almanac.DeleteOptions{})
			return err
		},
	} {
		var pg *pgconn.PgError
		require.ErrorAs(t, write(), &pg, what)
		require.Equal(t, "25006", pg.Code, what)
	}
}

func TestReadOnlyStoresReadAndDoNotWrite(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	stored := overdue(t, mustStore(t, pool))
	conns := pool.Stat().NewConnsCount()
	within := func(use func(tx pgx.Tx)) {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		use(tx)
	}

	store := mustStore(t, pool, postgres.ReadOnly(0))
	requireReads(t, store, stored)
	require.Equal(t, conns, pool.Stat().NewConnsCount(), "no connection is closed")

	// A transaction of the host may write again afterwards, under its own settings.
	const still = "UPDATE almanac.users SET updated_at = updated_at WHERE id = $1 AND current_setting('statement_timeout') = '7min'"
	within(func(tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), "SET LOCAL statement_timeout = '7min'")
		require.NoError(t, err)
		store := mustStore(t, tx, postgres.ReadOnly(0))
		requireReads(t, store, stored)
		did, err := tx.Exec(t.Context(), still, stored.UserID)
		require.NoError(t, err)
		require.EqualValues(t, 1, did.RowsAffected())
	})
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "SET LOCAL statement_timeout = '7min'")
	require.NoError(t, err)
	store, err = postgres.NewSQL(tx, postgres.ReadOnly(0))
	require.NoError(t, err)
	requireReads(t, store, stored)
	did, err := tx.ExecContext(t.Context(), still, stored.UserID)
	require.NoError(t, err)
	n, err := did.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.NoError(t, tx.Rollback())

	is, err := mustStore(t, pool).Event(t.Context(), stored.ID)
	require.NoError(t, err)
	require.Equal(t, stored, is)
}

func TestReadOnlyStatementsEndAtTheirLimit(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	stored := overdue(t, mustStore(t, pool))
	store := mustStore(t, pool, postgres.WithTimeout(time.Minute), postgres.ReadOnly(50*time.Millisecond))
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = holder.Exec(t.Context(), "LOCK TABLE almanac.users, almanac.queue, almanac.leases IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)

	for what, read := range map[string]func() error{
		"a user":     func() error { _, err := store.User(t.Context(), stored.UserID); return err },
		"missed":     func() error { _, err := store.Missed(t.Context(), []string{stored.Type}, 0); return err },
		"statistics": func() error { _, err := store.Stats(t.Context()); return err },
		"retries":    func() error { _, err := store.Retries(t.Context()); return err },
		"leases":     func() error { _, err := store.Leases(t.Context(), 1); return err },
	} {
		began := time.Now()
		err := read()
		require.ErrorIs(t, err, context.DeadlineExceeded, what)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, what)
		require.Equal(t, "57014", pg.Code, what)
		require.Less(t, time.Since(began), 25*time.Second, "%s: the lock timeout is 30 s", what)
	}
	require.NoError(t, holder.Rollback(t.Context()))
	require.Eventually(t, func() bool {
		_, err := store.Stats(t.Context())
		return err == nil
	}, time.Minute, time.Millisecond, "a busy machine may need more than the limit at first")

	_, err = postgres.New(pool, postgres.ReadOnly(-1))
	require.ErrorContains(t, err, "negative")
}

// begins is a tracer that keeps the statements that begin transactions.
type begins struct {
	mu   sync.Mutex
	seen []string
}

func (b *begins) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.HasPrefix(data.SQL, "begin") {
		b.seen = append(b.seen, data.SQL)
	}
	return ctx
}

func (b *begins) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestReadOnlyTakesTwoSecondsAtMostByDefault(t *testing.T) {
	t.Parallel()
	seen := new(begins)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = seen })
	for limit, want := range map[time.Duration]string{0: "2000", time.Minute: "60000", time.Microsecond: "1"} {
		store := mustStore(t, pool, postgres.ReadOnly(limit))
		seen.seen = nil

		_, err := store.Now(t.Context())

		if limit != time.Microsecond { // within a millisecond a busy machine may not answer
			require.NoError(t, err)
		}
		require.Len(t, seen.seen, 1)
		require.True(t, strings.HasPrefix(seen.seen[0], "begin isolation level repeatable read read only;"), seen.seen[0])
		require.True(t, strings.HasSuffix(seen.seen[0], "set local statement_timeout = "+want), seen.seen[0])
	}
}
