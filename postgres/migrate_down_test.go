package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
	store := mustStore(t, db, postgres.WithSchema(schema))
	catalog, err := store.Catalog(t.Context())
	require.NoError(t, err)
	return catalog
}

// Undoing a migration leaves what was there before it, and nothing of its own.
func TestMigrateDownStepByStepAndUpAgain(t *testing.T) {
	t.Parallel()
	pool, within, next := emptyPool(t), postgres.WithSchema("steps"), postgres.Following()
	require.NoError(t, postgres.Migrate(t.Context(), pool, within))
	first := whole(t, pool, "steps")
	require.NoError(t, postgres.Migrate(t.Context(), pool, within, next))
	found, known := versionOf(t, pool, within, next)
	require.Equal(t, known, found)
	top := whole(t, pool, "steps")
	require.NotEqual(t, first, top)

	require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}, within, next))
	require.Equal(t, first, whole(t, pool, "steps"))
	require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}, within, next))
	require.Empty(t, whole(t, pool, "steps"))
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'steps'::regnamespace)
		+ (SELECT count(*) FROM pg_type WHERE typnamespace = 'steps'::regnamespace)`).Scan(&left))
	require.Zero(t, left, "the schema is left, and empty")

	require.NoError(t, postgres.Migrate(t.Context(), pool, within, next))
	require.Equal(t, top, whole(t, pool, "steps"))
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

const insertUser = `INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone)
	VALUES ('5f3b1c9e-0000-4000-8000-000000000001', 'Ada', 'Lovelace', '1990-12-10', 'UTC')`

func TestMigrateDownLosesDataOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, err := newScheduler(t, mustStore(t, pool)).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	before := whole(t, pool, "almanac")

	err = postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{})

	var loss *postgres.DataLossError
	require.True(t, errors.As(err, &loss), "%v", err)
	require.Equal(t, postgres.DataLossError{Schema: "almanac", Version: 1, Tables: []string{"users", "series", "keys"}}, *loss)
	require.EqualError(t, err, `postgres: undoing migration 1 of schema "almanac" would lose for good what is in users, series, keys`)
	require.Equal(t, before, whole(t, pool, "almanac"))
	n, err := mustStore(t, pool).Count(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{LoseData: true}))
	require.Empty(t, whole(t, pool, "almanac"))
}

// A user stored by a transaction that is still open is not lost.
func TestMigrateDownWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	storing, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = storing.Rollback(t.Context()) }()
	_, err = storing.Exec(t.Context(), insertUser)
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

	err = postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{LoseData: true})

	var depends *pgconn.PgError
	require.True(t, errors.As(err, &depends), "%v", err)
	require.Equal(t, "2BP01", depends.Code)
	require.ErrorContains(t, err, "0001_schema")
	require.Equal(t, before, whole(t, pool, "almanac"))
}

func TestMigrateDownInATransactionOfTheHosts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	before := whole(t, pool, "almanac")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, postgres.MigrateDown(t.Context(), tx, postgres.MigrateDownOptions{}))
	require.Empty(t, whole(t, tx, "almanac"))

	require.NoError(t, tx.Rollback(t.Context()))

	require.Equal(t, before, whole(t, pool, "almanac"))
}

// Concurrent calls undo one migration each, one after the other.
func TestMigrateDownSeveralAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.Following()))
	_, known := versionOf(t, pool, postgres.Following())
	errs := make(chan error, known+2)
	for range cap(errs) {
		go func() {
			errs <- postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}, postgres.Following())
		}()
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

// A migration may lose some rows of a table, and then only those forbid to undo it.
func TestMigrateDownLooksForTheRowsThatWouldBeLost(t *testing.T) {
	t.Parallel()
	pool, next := pgtest.Pool(t), postgres.Following()
	require.NoError(t, postgres.Migrate(t.Context(), pool, next))
	step := func(place any) {
		_, err := pool.Exec(t.Context(), `INSERT INTO almanac.audit (kind, user_id, version, place) VALUES ('created', gen_random_uuid(), 1, $1)`, place)
		require.NoError(t, err)
	}
	step("here")
	var loss *postgres.DataLossError
	require.ErrorAs(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}, next), &loss)
	require.Equal(t, postgres.DataLossError{Schema: "almanac", Version: 2, Tables: []string{"audit"}}, *loss)

	_, err := pool.Exec(t.Context(), "DELETE FROM almanac.audit")
	require.NoError(t, err)
	step(nil)
	require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}, next))
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
