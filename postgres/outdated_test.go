package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
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

// While a schema has another name, as at the end of a move to another server, no outcome is given up, also if earlier calls
// have stored some. They are stored when the schema has its name back.
func TestOutcomesAreKeptWhileTheSchemaHasAnotherName(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	rename := func(from, to string) {
		_, err := pool.Exec(t.Context(), "ALTER SCHEMA "+from+" RENAME TO "+to)
		require.NoError(t, err)
	}
	settlements := claimedAndDelivered(t, pool, store, 6)
	requireSettled := func(list []almanac.Settlement) {
		settled, err := store.Settle(t.Context(), list)
		require.NoError(t, err)
		for _, one := range settled {
			require.NoError(t, errors.Join(one.Err, one.PlanErr))
			require.NotNil(t, one.Successor)
		}
	}
	requireKept := func(list []almanac.Settlement) {
		settled, err := store.Settle(t.Context(), list)
		require.ErrorIs(t, err, almanac.ErrOutdated)
		require.Empty(t, settled)
		var row interface{ Refused() bool }
		require.ErrorAs(t, err, &row)
		require.False(t, row.Refused(), "no row is at fault")
	}
	requireSettled(settlements[:1])
	rename("almanac", "almanac_moved")

	requireKept(settlements[1:2])
	requireKept(settlements[1:3])
	events := []almanac.Event{settlements[1].Event, settlements[2].Event}
	_, confirmed := store.Confirm(t.Context(), events)
	_, renewed := store.Renew(t.Context(), []uuid.UUID{events[0].LeaseToken}, time.Minute)
	_, returned := store.Return(t.Context(), events)
	_, released := store.Release(t.Context(), events[0].LeaseToken)
	_, expired := store.ReleaseExpired(t.Context(), 10, 10)
	for _, err := range []error{confirmed, renewed, returned, released, expired} {
		require.ErrorIs(t, err, almanac.ErrOutdated)
	}
	rename("almanac_moved", "almanac")
	requireSettled(settlements[1:3])

	// The name changes after the transaction has read the leases.
	now := settlements[3]
	now.Next = func(u almanac.User, at time.Time) (almanac.Event, error) {
		rename("almanac", "almanac_moved")
		return nextBirthday(u, at)
	}
	requireKept([]almanac.Settlement{now})
	rename("almanac_moved", "almanac")
	requireSettled(settlements[3:5])
	held, err := store.Renew(t.Context(), []uuid.UUID{events[0].LeaseToken}, time.Minute)
	require.NoError(t, err)
	require.Len(t, held, 1, "the last event")
}

// A trigger of the host that lacks its own table refuses one row.
func TestATableThatATriggerLacksIsNotTheStores(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"by RAISE": raise("42P01"), "a table": "PERFORM 1 FROM public.lost", "a schema": "PERFORM lost.call()", "a column": "PERFORM NEW.lost",
		"a table by EXECUTE": "EXECUTE 'SELECT 1 FROM public.lost'", "a lock": "LOCK TABLE public.lost",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			store := mustStore(t, pool)
			settlements := claimedAndDelivered(t, pool, store, 3)
			_, err := pool.Exec(t.Context(), fmt.Sprintf(`
				CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; RETURN NEW; END $$;
				CREATE TRIGGER refuse BEFORE UPDATE ON almanac.series FOR EACH ROW WHEN (OLD.event_id = '%s') EXECUTE FUNCTION public.refuse()`,
				body, settlements[1].Event.ID))
			require.NoError(t, err)

			settled, err := store.Settle(t.Context(), settlements)

			require.NoError(t, err)
			for i, one := range settled {
				require.Equal(t, i == 1, one.Err != nil, "%v", one.Err)
			}
		})
	}
}
