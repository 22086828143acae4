package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestVerifyComparesTheDatabaseWithTheRelease(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	require.NoError(t, store.Verify(t.Context()), "migrated by this release")

	_, err := pool.Exec(t.Context(), "INSERT INTO almanac.migrations (version, name) VALUES (999, '0999_future')")
	require.NoError(t, err)
	require.NoError(t, store.Verify(t.Context()), "migrated by a newer release")

	_, err = pool.Exec(t.Context(), "DELETE FROM almanac.migrations WHERE version = 999")
	require.NoError(t, err)
	next := mustStore(t, pool, postgres.Following())
	var older *postgres.SchemaVersionError
	err = next.Verify(t.Context())
	require.ErrorIs(t, err, almanac.ErrOutdated)
	require.True(t, errors.As(err, &older))
	require.Equal(t, postgres.SchemaVersionError{Schema: "almanac", Found: 1, Known: 2}, *older)

	store, err = postgres.New(pool, postgres.WithSchema("elsewhere"))
	require.NoError(t, err)
	err = store.Verify(t.Context())
	require.ErrorIs(t, err, almanac.ErrOutdated)
	require.ErrorContains(t, err, `there is no migrated schema "elsewhere" in this database: migrate it, unless another database or schema is meant`)
}

func TestVerifyReturnsDatabaseErrors(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	pool.Close()

	err := store.Verify(t.Context())

	require.Error(t, err)
	require.NotErrorIs(t, err, almanac.ErrOutdated)
}

// A migration waits for a table that a transaction reads for long, and other statements queue
// up behind the migration. Here an event trigger makes the migration lock the series.
func TestMigrateBlocksNoOneWhileItWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	stored := overdue(t, store)
	_, err := pool.Exec(t.Context(), `
		CREATE FUNCTION want() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN LOCK TABLE almanac.series; END';
		CREATE EVENT TRIGGER want ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION want()`)
	require.NoError(t, err)
	reader, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(t.Context()) }()
	_, err = reader.Exec(t.Context(), "SELECT count(*) FROM almanac.series")
	require.NoError(t, err)

	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(t.Context(), pool, postgres.Following()) }()
	require.Eventually(t, func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'almanac.series'::regclass AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
		return err == nil && waits
	}, 20*time.Second, time.Millisecond)
	// What an edit locks, in the words of every release.
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	locked, err := pool.Exec(soon, "SELECT FROM almanac.series WHERE user_id = $1 FOR UPDATE", stored.UserID)
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

// A migration that waits for a lock is undone alone. Otherwise, under frequent readers, an upgrade
// over many migrations would begin again for minutes.
func TestMigrateKeepsWhatItHasApplied(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	_, err := pool.Exec(t.Context(), `
		CREATE FUNCTION want() RETURNS event_trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF EXISTS (SELECT FROM almanac.migrations) THEN
				RAISE lock_not_available;
			END IF;
		END $$;
		CREATE EVENT TRIGGER want ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION want()`)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(ctx, pool, postgres.Following()) }()
	watching, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig.Copy())
	require.NoError(t, err)
	defer func() { _ = watching.Close(context.WithoutCancel(t.Context())) }()
	require.Eventually(t, func() bool {
		var version int
		err := watching.QueryRow(t.Context(), "SELECT max(version) FROM almanac.migrations").Scan(&version)
		return err == nil && version == 1
	}, 20*time.Second, time.Millisecond)
	require.Empty(t, migrated)

	stop()
	require.Error(t, <-migrated)
	found, _ := versionOf(t, watching)
	require.Equal(t, 1, found, "the next call goes on after the first migration")
	_, err = watching.Exec(t.Context(), "DROP EVENT TRIGGER want")
	require.NoError(t, err)
	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.Following()))
}
