package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// contact is a profile with every optional field.
func contact(externalID string) almanac.Profile {
	p := ada
	p.Locale, p.Email, p.ExternalID = "en-GB", "ada@example.com", externalID
	return p
}

// The statements with which the previous release writes users.
const (
	oldCreate = `INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone, attributes, creation_digest)
		VALUES ($1, 'Grace', 'Hopper', '1906-12-09', 'UTC', '{}', NULL) ON CONFLICT (id) DO NOTHING`
	oldUpdate = `UPDATE almanac.users SET first_name = 'Augusta', last_name = 'King', date_of_birth = '1990-12-10', timezone = 'Asia/Tokyo',
		attributes = '{}', version = version + 1, updated_at = clock_timestamp() WHERE id = $1`
	oldHide = `UPDATE almanac.users SET deleted_at = clock_timestamp(), version = version + 1, updated_at = clock_timestamp() WHERE id = $1`
)

func TestAProgramOfTheReleaseBeforeMayRunBesideContacts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	scheduler := newScheduler(t, store)
	created, err := scheduler.CreateUser(t.Context(), contact("42"))
	require.NoError(t, err)

	_, err = pool.Exec(t.Context(), oldUpdate, created.User.ID)
	require.NoError(t, err)
	u, err := store.UserByExternalID(t.Context(), "42")
	require.NoError(t, err)
	require.Equal(t, []string{"Augusta", "en-GB", "ada@example.com"}, []string{u.FirstName, u.Locale, u.Email}, "what it edits stays a contact")

	grace := uuid.New()
	_, err = pool.Exec(t.Context(), oldCreate, grace)
	require.NoError(t, err)
	u, err = store.User(t.Context(), grace)
	require.NoError(t, err)
	require.Empty(t, u.Locale+u.Email+u.ExternalID)
	email, external := "grace@example.com", "43"
	_, err = scheduler.UpdateUser(t.Context(), grace, almanac.ProfileChange{Email: &email, ExternalID: &external})
	require.NoError(t, err)

	_, err = pool.Exec(t.Context(), oldHide, created.User.ID)
	require.NoError(t, err)
	_, err = scheduler.CreateUser(t.Context(), contact("42"))
	require.NoError(t, err, "whom it hides has no external id")
}

func TestContactsAreLostOnTheWayDownOnlyIfTheyMay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*almanac.Profile){
		"locale":      func(p *almanac.Profile) { p.Locale = "en-GB" },
		"email":       func(p *almanac.Profile) { p.Email = "ada@example.com" },
		"external id": func(p *almanac.Profile) { p.ExternalID = "42" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			store := mustStore(t, pool)
			p := ada
			change(&p)
			created, err := newScheduler(t, store).CreateUser(t.Context(), p)
			require.NoError(t, err)
			downTo(t, pool, 14)

			var loss *postgres.DataLossError
			require.ErrorAs(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}), &loss)
			require.Equal(t, []string{"users"}, loss.Tables)

			downTo(t, pool, 13)
			require.NoError(t, postgres.Migrate(t.Context(), pool))
			u, err := store.User(t.Context(), created.User.ID)
			require.NoError(t, err)
			require.Equal(t, "Ada", u.FirstName)
			require.Empty(t, u.Locale+u.Email+u.ExternalID)
		})
	}
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

// Whoever comes second waits for the first, and is refused, or gets the id if the first gives up.
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
