package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// versionOf returns the version that a database is at, and the newest.
func versionOf(t *testing.T, db postgres.DB, options ...postgres.Option) (found, known int) {
	t.Helper()
	store, err := postgres.New(db, options...)
	require.NoError(t, err)
	v, err := store.SchemaVersion(t.Context())
	require.NoError(t, err)
	return v.Found, v.Known
}

// whole describes a schema as it is now, also one without anything.
func whole(t *testing.T, db postgres.DB, schema string) string {
	t.Helper()
	store, err := postgres.New(db, postgres.WithSchema(schema))
	require.NoError(t, err)
	catalog, err := store.Catalog(t.Context())
	require.NoError(t, err)
	return catalog
}

// Each migration has a way back, which leaves what was there before it, and nothing
// of its own.
func TestMigrateDownStepByStepAndUpAgain(t *testing.T) {
	t.Parallel()
	pool, within := emptyPool(t), postgres.WithSchema("steps")
	require.NoError(t, postgres.Migrate(t.Context(), pool, within))
	found, known := versionOf(t, pool, within)
	require.Equal(t, known, found)
	top := whole(t, pool, "steps")

	for version := known - 1; version >= 0; version-- {
		require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}, within))
		found, _ = versionOf(t, pool, within)
		require.Equal(t, version, found)
		require.Equal(t, whole(t, climbed(t, version), "steps"), whole(t, pool, "steps"), "as if it had been migrated no further than to %d", version)
	}
	require.Empty(t, whole(t, pool, "steps"))
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'steps'::regnamespace)
		+ (SELECT count(*) FROM pg_type WHERE typnamespace = 'steps'::regnamespace)`).Scan(&left))
	require.Zero(t, left, "the schema is left, and empty")

	require.NoError(t, postgres.Migrate(t.Context(), pool, within))
	require.Equal(t, top, whole(t, pool, "steps"))
}

// climbed returns a database that was migrated as far as a version, and no further.
func climbed(t *testing.T, version int) *pgxpool.Pool {
	t.Helper()
	pool := emptyPool(t)
	files, err := postgres.Export{Layout: postgres.GolangMigrate, Schema: "steps"}.Files()
	require.NoError(t, err)
	for _, f := range files {
		if strings.HasSuffix(f.Name, ".up.sql") && version > 0 {
			_, err := pool.Exec(t.Context(), f.SQL)
			require.NoError(t, err)
			version--
		}
	}
	return pool
}

func TestMigrateDownRefusesAtTheBottom(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	err := postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{LoseData: true})
	require.ErrorIs(t, err, postgres.ErrBottom)
	require.EqualError(t, err, "postgres: take down schema almanac: there is no migration to undo: it is at version 0")
	var exists bool
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'almanac')").Scan(&exists))
	require.False(t, exists)
}

func TestMigrateDownRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), "INSERT INTO almanac.migrations (version, name) VALUES (999, '0999_future')")
	require.NoError(t, err)
	before := whole(t, pool, "almanac")

	err = postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{LoseData: true})

	var newer *postgres.SchemaVersionError
	require.True(t, errors.As(err, &newer), "%v", err)
	_, known := versionOf(t, pool)
	require.Equal(t, postgres.SchemaVersionError{Schema: "almanac", Found: 999, Known: known}, *newer)
	require.NotErrorIs(t, err, almanac.ErrOutdated, "the program is, and not the database")
	require.ErrorContains(t, err, `schema "almanac" is at version 999, and this program knows none after `)
	require.Equal(t, before, whole(t, pool, "almanac"))
}

// first takes a database down to its first migration, which loses nothing.
func first(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for found, _ := versionOf(t, pool); found > 1; found-- {
		require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}))
	}
}

// downTo takes a database down to a version, whatever is lost.
func downTo(t *testing.T, pool *pgxpool.Pool, version int) {
	t.Helper()
	for found, _ := versionOf(t, pool); found > version; found-- {
		require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{LoseData: true}))
	}
}

const somebody = `INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone)
	VALUES ('5f3b1c9e-0000-4000-8000-000000000001', 'Ada', 'Lovelace', '1990-12-10', 'UTC')`

func TestMigrateDownLosesDataOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, err := newScheduler(t, mustStore(t, pool)).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	first(t, pool)
	before := whole(t, pool, "almanac")

	err = postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{})

	var loss *postgres.DataLossError
	require.True(t, errors.As(err, &loss), "%v", err)
	require.Equal(t, postgres.DataLossError{Schema: "almanac", Version: 1, Tables: []string{"users", "series", "keys"}}, *loss)
	require.EqualError(t, err, `postgres: undoing migration 1 of schema "almanac" would lose for good what is in users, series, keys`)
	require.Equal(t, before, whole(t, pool, "almanac"))
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	n, err := mustStore(t, pool).Count(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, n, "the event survived the way down and up")

	first(t, pool)
	require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{LoseData: true}))
	require.Empty(t, whole(t, pool, "almanac"))
}

func mustStore(t *testing.T, db postgres.DB) *postgres.Store {
	t.Helper()
	store, err := postgres.New(db)
	require.NoError(t, err)
	return store
}

// Whoever stores the first user while the way down looks for users is waited for,
// and seen.
func TestMigrateDownWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	first(t, pool)
	storing, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = storing.Rollback(t.Context()) }()
	_, err = storing.Exec(t.Context(), somebody)
	require.NoError(t, err)

	down := make(chan error, 1)
	go func() { down <- postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}) }()
	require.Eventually(t, func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'almanac.users'::regclass AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
		return err == nil && waits
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, storing.Commit(t.Context()))

	require.ErrorAs(t, <-down, new(*postgres.DataLossError))
}

func TestMigrateDownKeepsObjectsOfTheHost(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), "CREATE VIEW mine AS SELECT zone FROM almanac.zone_rules")
	require.NoError(t, err)
	before := whole(t, pool, "almanac")
	_, known := versionOf(t, pool)

	err = nil
	for range known {
		if err == nil {
			err = postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{LoseData: true})
		}
	}

	var depends *pgconn.PgError
	require.True(t, errors.As(err, &depends), "%v", err)
	require.Equal(t, "2BP01", depends.Code)
	require.ErrorContains(t, err, "0002_zone_rules")
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	require.Equal(t, before, whole(t, pool, "almanac"))
}

func TestMigrateDownInATransactionOfTheHosts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	before := whole(t, pool, "almanac")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	for found, _ := versionOf(t, pool); found > 0; found-- {
		require.NoError(t, postgres.MigrateDown(t.Context(), tx, postgres.MigrateDownOptions{}))
	}
	require.Empty(t, whole(t, tx, "almanac"))

	require.NoError(t, tx.Rollback(t.Context()))

	require.Equal(t, before, whole(t, pool, "almanac"))
}

// Several at once take the migrations back one after the other, and no more of them
// than there are.
func TestMigrateDownSeveralAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, known := versionOf(t, pool)
	errs := make(chan error, known+2)
	for range cap(errs) {
		go func() { errs <- postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}) }()
	}
	refused := 0
	for range cap(errs) {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, postgres.ErrBottom)
			refused++
		}
	}
	require.Equal(t, 2, refused)
	require.Empty(t, whole(t, pool, "almanac"))
}

func TestOnlyTheOwnerMigratesDown(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	for _, role := range []string{"worker", "api", "reader"} {
		requireRefused(t, postgres.MigrateDown(t.Context(), c.pools[role], postgres.MigrateDownOptions{LoseData: true}), role)
	}
	require.NoError(t, postgres.MigrateDown(t.Context(), c.pools["owner"], postgres.MigrateDownOptions{}))
	err := pgx.BeginTxFunc(t.Context(), c.pools["owner"], pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return postgres.MigrateDown(t.Context(), tx, postgres.MigrateDownOptions{})
	})
	require.Error(t, err, "a session that may not write")
}
