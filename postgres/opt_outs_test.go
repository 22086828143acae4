package postgres_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
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

func TestTheTrailHasOptOuts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	s := newScheduler(t, store)
	long := strings.Repeat(`"`, 200)
	letter := almanac.OptOut{Type: "LETTER", Channel: "mail", Reason: long, Author: long}
	u := refusing(t, s, letter, almanac.OptOut{Type: almanac.TypeBirthday, Reason: long, Author: long}, letter)
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
	both := u.OptOuts
	require.Equal(t, [][]almanac.OptOut{{both[1]}, both, {both[1]}, {}}, trail)

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
		require.Empty(t, is.OptOuts, "what is not committed is not seen")
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
	for i := range is.OptOuts {
		require.False(t, is.OptOuts[i].Since.IsZero())
		is.OptOuts[i].Since = time.Time{}
	}
	require.Equal(t, []almanac.OptOut{{Channel: "a"}, {Channel: "b"}, {Channel: "c"}, {Channel: "d"}, {Type: almanac.TypeBirthday}}, is.OptOuts)
}
