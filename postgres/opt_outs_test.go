package postgres_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// refusing opts a new user out, and returns the user.
func refusing(t *testing.T, s almanac.Scheduler, what ...almanac.OptOut) almanac.User {
	t.Helper()
	created, err := s.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	u := created.User
	for _, one := range what {
		result, err := s.OptOut(t.Context(), u.ID, one)
		require.NoError(t, err)
		u = result.User
	}
	return u
}

func TestAProgramOfTheReleaseBeforeKeepsOptOuts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	s := newScheduler(t, store)
	birthday := almanac.OptOut{Type: almanac.TypeBirthday}
	u := refusing(t, s, birthday)

	_, err := pool.Exec(t.Context(), oldUpdate, u.ID)
	require.NoError(t, err)
	is, err := store.User(t.Context(), u.ID)
	require.NoError(t, err)
	require.Equal(t, "Augusta", is.FirstName)
	require.Equal(t, []almanac.OptOut{birthday}, is.OptOuts)

	// It plans what the user refuses. A program of this release ends it when it comes due.
	planned := almanactest.Event(time.Now(), almanactest.For(u))
	_, err = store.EditUser(t.Context(), u.ID, func(almanac.Roster) (almanac.Edit, error) {
		return almanac.Edit{New: []almanac.Event{planned}}, nil
	})
	require.NoError(t, err)
	did, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.NoError(t, err)
	require.Equal(t, almanac.RunOnceResult{Claimed: 1, Cancelled: 1}, did)
}

func TestOptOutsAreLostOnTheWayDownOnlyIfTheyMay(t *testing.T) {
	t.Parallel()
	for table, refuse := range map[string]func(t *testing.T, db postgres.DB, s almanac.Scheduler){
		"users": func(t *testing.T, _ postgres.DB, s almanac.Scheduler) { refusing(t, s, almanac.OptOut{}) },
		"audit": func(t *testing.T, db postgres.DB, s almanac.Scheduler) {
			require.NoError(t, postgres.EnableAudit(t.Context(), db))
			_, err := s.OptIn(t.Context(), refusing(t, s, almanac.OptOut{}).ID, almanac.OptOut{})
			require.NoError(t, err)
		},
		"series": func(t *testing.T, _ postgres.DB, s almanac.Scheduler) {
			created, err := s.CreateUser(t.Context(), ada)
			require.NoError(t, err)
			_, err = s.Cancel(t.Context(), created.Events[0].ID, almanac.CancelOptions{})
			require.NoError(t, err)
			_, err = s.Requeue(t.Context(), created.Events[0].ID, almanac.RequeueOptions{Force: true})
			require.NoError(t, err)
		},
	} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			downTo(t, pool, 15)
			refuse(t, pool, newScheduler(t, mustStore(t, pool)))

			var loss *postgres.DataLossError
			require.ErrorAs(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}), &loss)
			require.Equal(t, []string{table}, loss.Tables)
			downTo(t, pool, 14)
			require.NoError(t, postgres.Migrate(t.Context(), pool))
		})
	}
}

func TestTheTrailHasOptOuts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	downTo(t, pool, 14)
	require.NoError(t, postgres.Migrate(t.Context(), pool), "a trail that is kept goes on")
	s := newScheduler(t, store)
	letter := almanac.OptOut{Type: "LETTER", Channel: "mail"}
	u := refusing(t, s, letter, almanac.OptOut{Type: almanac.TypeBirthday}, letter)
	name := "Augusta"
	_, err := s.UpdateUser(t.Context(), u.ID, almanac.ProfileChange{FirstName: &name})
	require.NoError(t, err)
	for _, one := range u.OptOuts {
		_, err = s.OptIn(t.Context(), u.ID, one)
		require.NoError(t, err)
	}

	var trail [][]almanac.OptOut
	var versions []int
	steps, err := store.Audit(t.Context(), u.ID)
	require.NoError(t, err)
	for _, step := range steps {
		require.Equal(t, "opt_outs_changed", step.Kind)
		require.NotEmpty(t, step.Actor)
		var refused []almanac.OptOut
		require.NoError(t, json.Unmarshal([]byte(step.Detail), &refused))
		trail, versions = append(trail, refused), append(versions, step.Version)
	}
	require.Equal(t, []int{2, 3, 5, 6}, versions, "not what is refused already, and not the name")
	require.Equal(t, [][]almanac.OptOut{{letter}, u.OptOuts, {letter}, {}}, trail)

	_, err = s.DeleteUser(t.Context(), u.ID, almanac.DeleteOptions{AtOnce: true})
	require.NoError(t, err)
	steps, err = store.Audit(t.Context(), u.ID)
	require.NoError(t, err)
	require.Empty(t, steps, "the trail goes with its user")
	p := ada
	p.OptOuts = []almanac.OptOut{letter}
	created, err := s.CreateUser(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, []string{"opt_outs_changed"}, kinds(t, store, created.User.ID))
}

// Two opt-outs at the same time both take effect, and the second waits for the host's
// transaction with the first.
func TestOptOutsInTransactionsOfTheHost(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	s := newScheduler(t, store)
	u := refusing(t, s)
	for _, finish := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
	} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		result, err := s.With(mustStore(t, tx)).OptOut(t.Context(), u.ID, almanac.OptOut{Type: almanac.TypeBirthday})
		require.NoError(t, err)
		require.Len(t, result.Removed, 1)
		is, err := store.User(t.Context(), u.ID)
		require.NoError(t, err)
		require.Empty(t, is.OptOuts, "nobody sees what is not committed")
		require.NoError(t, finish(tx))
	}
	n, err := store.Count(t.Context(), almanac.ForUser(u.ID))
	require.NoError(t, err)
	require.Zero(t, n)

	var others sync.WaitGroup
	for _, channel := range []almanac.Channel{"a", "b", "c", "d"} {
		others.Go(func() {
			if _, err := s.OptOut(t.Context(), u.ID, almanac.OptOut{Channel: channel}); err != nil {
				t.Error(err)
			}
		})
	}
	others.Wait()
	is, err := store.User(t.Context(), u.ID)
	require.NoError(t, err)
	require.Equal(t, []almanac.OptOut{{Channel: "a"}, {Channel: "b"}, {Channel: "c"}, {Channel: "d"}, {Type: almanac.TypeBirthday}}, is.OptOuts)
}
