package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

var ada = almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}

func newScheduler(t *testing.T, store almanac.Repository, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(store, registry, options...)
	require.NoError(t, err)
	return scheduler
}

// decorated is a repository of a host's that embeds another.
type decorated struct{ almanac.Repository }

func TestSchedulingInTheHostsTransaction(t *testing.T) {
	t.Parallel()
	for name, around := range map[string]func(almanac.Repository) almanac.Repository{
		"plain":     func(r almanac.Repository) almanac.Repository { return r },
		"decorated": func(r almanac.Repository) almanac.Repository { return decorated{r} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkHostsTransaction(t, around)
		})
	}
}

func checkHostsTransaction(t *testing.T, around func(almanac.Repository) almanac.Repository) {
	t.Helper()
	pool := pgtest.ReusedPool(t)
	outside := mustStore(t, pool)
	var notified []almanac.NoticeKind
	scheduler := newScheduler(t, outside, almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
		notified = append(notified, n.Kind)
	})))

	create := func(finish func(pgx.Tx, context.Context) error) almanac.User {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		store := mustStore(t, tx)
		inside := scheduler.With(around(store))
		enrolment, err := inside.CreateUser(t.Context(), ada)
		require.NoError(t, err)
		zone := "America/New_York"
		_, err = inside.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{Timezone: &zone})
		require.NoError(t, err)
		other, err := inside.CreateUser(t.Context(), ada)
		require.NoError(t, err)
		_, err = inside.Cancel(t.Context(), other.Events[0].ID, almanac.CancelOptions{Reason: "moved away"})
		require.NoError(t, err)
		_, err = inside.DeleteUser(t.Context(), other.User.ID, almanac.DeleteOptions{})
		require.NoError(t, err)
		_, err = inside.RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		_, err = outside.User(t.Context(), enrolment.User.ID)
		require.ErrorIs(t, err, almanac.ErrNotFound, "what is not committed is not seen")
		require.NoError(t, finish(tx, t.Context()))
		return enrolment.User
	}

	undone := create(pgx.Tx.Rollback)
	_, err := outside.User(t.Context(), undone.ID)
	require.ErrorIs(t, err, almanac.ErrNotFound)
	n, err := outside.Count(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, n, "a rollback leaves nothing")

	kept := create(pgx.Tx.Commit)
	user, err := outside.User(t.Context(), kept.ID)
	require.NoError(t, err)
	require.Equal(t, "America/New_York", user.Timezone.String())
	found, err := outside.Find(t.Context(), almanac.ForUser(kept.ID), almanac.Page{})
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	require.Equal(t, "America/New_York", found.Items[0].Zone)
	require.Empty(t, notified, "observers are notified only of what is known to be committed")
}

func TestAnErrorInTheHostsTransactionCanBeSurvived(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	store := mustStore(t, tx)
	scheduler := newScheduler(t, store)

	enrolment, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	again := ada
	again.ID = enrolment.User.ID
	_, err = scheduler.CreateUser(t.Context(), again)
	require.ErrorIs(t, err, almanac.ErrExists)
	_, err = scheduler.Schedule(t.Context(), enrolment.User.ID, "UNHEARD_OF")
	require.ErrorIs(t, err, almanac.ErrUnsupportedEventType)

	require.NoError(t, tx.Commit(t.Context()), "only the savepoint was undone")
	outside := mustStore(t, pool)
	_, err = outside.User(t.Context(), enrolment.User.ID)
	require.NoError(t, err)
}

// A process may be frozen in the middle of a transaction, with its connection open: to
// the server it is just silent.
func TestTheServerEndsASilentTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	e := overdue(t, store)
	silent := mustStore(t, pool, postgres.WithTimeout(4*time.Second))

	free := errors.New("no failure")
	_, err := silent.EditUser(t.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, free = pool.Exec(ctx, "SELECT FROM almanac.users WHERE id = $1 FOR UPDATE", e.UserID)
		return almanac.Edit{}, nil
	})

	require.Error(t, err)
	require.NoError(t, free, "the person is held for as long as the silence lasts")
}

// An administrator sees in pg_stat_activity which statement a session runs or has run last.
func TestTheServerKnowsTheNamesOfStatements(t *testing.T) {
	t.Parallel()
	pool := pgtest.DirectPool(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	store := mustStore(t, conn.Conn())
	_, err = store.Now(t.Context())
	require.NoError(t, err)

	var last string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT query FROM pg_stat_activity WHERE pid = $1", conn.Conn().PgConn().PID()).Scan(&last))
	require.True(t, strings.HasPrefix(last, "/* almanac now */ "), last)
}

// All transactions that write are READ COMMITTED, whatever is the default of a role or a database: in
// stricter ones, concurrent claims and settlements make each other fail.
func TestWritesAreReadCommitted(t *testing.T) {
	t.Parallel()
	pool := pgtest.DirectPool(t) // its sessions are those of the server
	_, err := pool.Exec(t.Context(), `
		CREATE FUNCTION note_isolation() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF current_setting('transaction_isolation') <> 'read committed' THEN
				RAISE EXCEPTION '% is written %', TG_TABLE_NAME, current_setting('transaction_isolation');
			END IF;
			RETURN NULL;
		END $$;
		DO $$
		DECLARE
			name text;
		BEGIN
			FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'almanac' LOOP
				EXECUTE format('CREATE TRIGGER isolation AFTER INSERT OR UPDATE OR DELETE ON almanac.%I EXECUTE FUNCTION note_isolation()', name);
			END LOOP;
			EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
		END $$`)
	require.NoError(t, err)
	pool.Reset()
	store := mustStore(t, pool)
	var isolation string
	require.NoError(t, pool.QueryRow(t.Context(), "SHOW default_transaction_isolation").Scan(&isolation))
	require.Equal(t, "serializable", isolation)
	work(t, store)
	_, err = store.ReleaseExpired(t.Context(), 10, 1000)
	require.NoError(t, err)
	require.NoError(t, store.Pause(t.Context(), almanac.Pause{Lane: almanac.TypeBirthday}))
}
