package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// contact is a profile with every optional field.
func contact(externalID string) almanac.Profile {
	p := ada
	p.Locale, p.Email, p.ExternalID = "en-GB", "ada@example.com", externalID
	return p
}

// The edit is undone alone, and the host's transaction goes on.
func TestATakenExternalIDLeavesTheTransactionOfTheHost(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	scheduler := newScheduler(t, mustStore(t, pool))
	first, err := scheduler.CreateUser(t.Context(), contact("1"))
	require.NoError(t, err)
	second, err := scheduler.CreateUser(t.Context(), contact("2"))
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	within := newScheduler(t, mustStore(t, tx))
	var taken *almanac.ExternalIDTakenError

	external := "1"
	_, err = within.UpdateUser(t.Context(), second.User.ID, almanac.ProfileChange{ExternalID: &external})
	require.ErrorAs(t, err, &taken)
	require.Equal(t, almanac.ExternalIDTakenError{UserID: second.User.ID, Holder: first.User.ID, ExternalID: "1"}, *taken)
	require.NotContains(t, err.Error(), "duplicate key")
	_, err = within.CreateUser(t.Context(), contact("1"))
	require.ErrorAs(t, err, &taken)
	require.Equal(t, first.User.ID, taken.Holder)
	third, err := within.CreateUser(t.Context(), contact("3"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))

	u, err := mustStore(t, pool).UserByExternalID(t.Context(), "3")
	require.NoError(t, err)
	require.Equal(t, third.User.ID, u.ID)
}

// The second transaction waits for the first. It is refused, or gets the id if the first is rolled back.
func TestTwoTransactionsWantOneExternalID(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		commits bool
		users   int // that the second transaction stores
	}{"the first commits": {true, 1}, "many wait for the first": {false, 3}, "the first gives up": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(t.Context()) }()
			first, err := newScheduler(t, mustStore(t, tx)).CreateUser(t.Context(), contact("42"))
			require.NoError(t, err)

			list := []almanac.UserWithEvents{{User: almanactest.User(almanactest.WithExternalID("42"))}}
			for len(list) < tt.users {
				list = append(list, almanac.UserWithEvents{User: almanactest.User()})
			}
			stored := make(chan []almanac.CreateUserResult, 1)
			go func() {
				results, err := mustStore(t, pool).CreateUsers(t.Context(), list)
				if err != nil {
					t.Error(err)
				}
				stored <- results
			}()
			if tt.users == 1 {
				require.Eventually(t, func() bool {
					var waits bool
					err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
						AND wait_event_type = 'Lock' AND query LIKE '%external_id%')`).Scan(&waits)
					return err == nil && waits
				}, 20*time.Second, time.Millisecond, "it does not wait")
			} else { // stored in halves, without a wait for the locked one
				results := <-stored
				require.ErrorIs(t, results[0].Err, almanac.ErrLocked)
				require.NoError(t, results[1].Err)
				require.NoError(t, results[2].Err)
				return
			}
			if !tt.commits {
				require.NoError(t, tx.Rollback(t.Context()))
				require.NoError(t, (<-stored)[0].Err)
				return
			}
			require.NoError(t, tx.Commit(t.Context()))
			var taken *almanac.ExternalIDTakenError
			require.ErrorAs(t, (<-stored)[0].Err, &taken)
			require.Equal(t, first.User.ID, taken.Holder)
		})
	}
}
