package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// A program that forgot to migrate, or has the wrong database, gets that error from its first call, whatever the call.
func TestCallsBeforeASchemaThatIsMissingOrOldAreOutdated(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	migrated := mustStore(t, pool)
	u := almanactest.User()
	almanactest.Store(t, migrated, u)
	elsewhere := mustStore(t, pool, postgres.WithSchema("elsewhere"))
	_, err := pool.Exec(t.Context(), "CREATE SCHEMA half")
	require.NoError(t, err)
	half := mustStore(t, pool, postgres.WithSchema("half"))
	for what, store := range map[string]*postgres.Store{"no schema": elsewhere, "no table": half} {
		requireOutdated(t, store, what)
		require.ErrorContains(t, store.Verify(t.Context()), "there is no migrated schema", what)
	}

	_, err = pool.Exec(t.Context(), "ALTER TABLE almanac.users DROP COLUMN opt_outs CASCADE")
	require.NoError(t, err)
	_, err = migrated.User(t.Context(), u.ID)
	require.ErrorIs(t, err, almanac.ErrOutdated, "no column")
}

// requireOutdated makes calls that read and calls that write.
func requireOutdated(t *testing.T, store *postgres.Store, what string) {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	s, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	_, created := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"})
	_, read := store.User(t.Context(), almanactest.User().ID)
	_, counted := store.Stats(t.Context())
	paused := s.Pause(t.Context(), almanac.Pause{Lane: almanac.TypeBirthday})
	for _, err := range []error{created, read, counted, paused} {
		require.ErrorIs(t, err, almanac.ErrOutdated, what)
		require.Equal(t, 1, strings.Count(err.Error(), "SQLSTATE"), "%s: %v", what, err)
		require.ErrorContains(t, err, "is this the right database and schema, and is it migrated?", what)
	}
}
