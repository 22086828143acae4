package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// stepDown takes a database back to its first migration.
func stepDown(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "DELETE FROM almanac.migrations WHERE version = 999")
	require.NoError(t, err)
	first(t, pool)
}

func TestVerifyComparesTheDatabaseWithTheRelease(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	require.NoError(t, store.Verify(t.Context()), "migrated by this release")

	_, err = pool.Exec(t.Context(), "INSERT INTO almanac.migrations (version, name) VALUES (999, '0999_future')")
	require.NoError(t, err)
	require.NoError(t, store.Verify(t.Context()), "migrated by a newer release")

	stepDown(t, pool)
	var older *postgres.SchemaVersionError
	err = store.Verify(t.Context())
	require.ErrorIs(t, err, almanac.ErrOutdated)
	require.True(t, errors.As(err, &older))
	require.Equal(t, postgres.SchemaVersionError{Schema: "almanac", Found: 1, Known: older.Known}, *older)
	require.Greater(t, older.Known, 1)

	store, err = postgres.New(pool, postgres.WithSchema("elsewhere"))
	require.NoError(t, err)
	err = store.Verify(t.Context())
	require.ErrorIs(t, err, almanac.ErrOutdated)
	require.ErrorContains(t, err, `there is no migrated schema "elsewhere" in this database: migrate it, unless another database or schema is meant`)
}

func TestVerifyReturnsDatabaseErrors(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	pool.Close()

	err = store.Verify(t.Context())

	require.Error(t, err)
	require.NotErrorIs(t, err, almanac.ErrOutdated)
}

// A migration wants a table that somebody reads for long, and whoever else wants it
// queues up behind the migration. Here an event trigger makes the last migration one
// that wants the events.
func TestMigrateBlocksNoOneWhileItWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	stored := overdue(t, store)
	stepDown(t, pool)
	// The statements below are of this release, and name a column that a later migration brings.
	_, err = pool.Exec(t.Context(), `
		ALTER TABLE almanac.users ADD creation_digest varchar(64);
		CREATE FUNCTION want() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN LOCK TABLE almanac.series; END';
		CREATE EVENT TRIGGER want ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION want()`)
	require.NoError(t, err)
	reader, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(t.Context()) }()
	_, err = reader.Exec(t.Context(), "SELECT count(*) FROM almanac.series")
	require.NoError(t, err)

	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(t.Context(), pool) }()
	require.Eventually(t, func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'almanac.series'::regclass AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
		return err == nil && waits
	}, 20*time.Second, time.Millisecond)
	// What an edit locks, in the words of every release.
	locked, err := pool.Exec(t.Context(), "SELECT FROM almanac.series WHERE user_id = $1 FOR UPDATE", stored.UserID)
	require.NoError(t, err)
	require.EqualValues(t, 1, locked.RowsAffected())
	require.Empty(t, migrated)

	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, <-migrated)
	require.NoError(t, store.Verify(t.Context()))
}

// However long another process migrates, it is waited for.
func TestMigrateWaitsForAnotherMigration(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	require.NoError(t, postgres.Migrate(t.Context(), tx, postgres.WithSchema("other")))

	const patience = 100 * time.Millisecond
	migrated := make(chan error, 1)
	go func() {
		migrated <- postgres.Migrate(t.Context(), pool, postgres.WithSchema("other"), postgres.WithTimeout(patience))
	}()
	require.Eventually(t, func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND clock_timestamp() > query_start + 3 * $1::interval)`, patience).Scan(&waits)
		return err == nil && waits
	}, 20*time.Second, time.Millisecond, "it does not wait")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-migrated)
}

// A migration that has to wait takes back nothing but itself: under frequent readers, an
// upgrade over many migrations would otherwise begin again for minutes.
func TestMigrateKeepsWhatItHasApplied(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	downTo(t, pool, 17)
	reader, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(t.Context()) }()
	_, err = reader.Exec(t.Context(), "SELECT count(*) FROM almanac.audit") // which migration 19 wants, and 18 does not
	require.NoError(t, err)

	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(t.Context(), pool) }()
	require.Eventually(t, func() bool {
		var version int
		err := pool.QueryRow(t.Context(), "SELECT max(version) FROM almanac.migrations").Scan(&version)
		return err == nil && version == 18
	}, 20*time.Second, time.Millisecond)
	require.Empty(t, migrated)

	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, <-migrated)
}
