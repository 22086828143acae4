package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// stepDown takes a database back to its first migration.
func stepDown(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "DROP TABLE almanac.zone_rules; DELETE FROM almanac.migrations WHERE version > 1")
	require.NoError(t, err)
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
	require.NotErrorIs(t, err, postgres.ErrNewerSchema)
	require.True(t, errors.As(err, &older))
	require.Equal(t, postgres.SchemaVersionError{Schema: "almanac", Found: 1, Known: older.Known}, *older)
	require.Greater(t, older.Known, 1)

	store, err = postgres.New(pool, postgres.WithSchema("elsewhere"))
	require.NoError(t, err)
	err = store.Verify(t.Context())
	require.ErrorIs(t, err, almanac.ErrOutdated)
	require.ErrorContains(t, err, `schema "elsewhere" is at version 0, and this program is of version`)
}

func TestVerifyDoesNotTakeAFailureForAnAnswer(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	pool.Close()

	err = store.Verify(t.Context())

	require.Error(t, err)
	require.NotErrorIs(t, err, almanac.ErrOutdated)
}
