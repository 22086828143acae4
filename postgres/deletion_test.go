package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

var atOnce = almanac.DeleteOptions{AtOnce: true}

// mentions counts the rows of each table, whatever tables there are, that have a
// text anywhere in them.
func mentions(t *testing.T, pool *pgxpool.Pool, text string) map[string]int {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'almanac' AND table_type = 'BASE TABLE'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	found := make(map[string]int)
	for _, table := range tables {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac."+table+" AS r WHERE strpos(r::text, $1) > 0", text).Scan(&n))
		if n > 0 {
			found[table] = n
		}
	}
	return found
}

// At every point of an event's life, a deletion at once leaves no row in which the
// user can be found; and neither do those who were at work on it.
func TestAnImmediateDeletionErasesTheUser(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	scheduler := newScheduler(t, store)
	bystander := overdue(t, store)
	require.Equal(t, bystander.ID, claimOne(t, store).ID)
	for name, hold := range map[string]func(almanac.Event) almanac.Event{ // what a worker holds, or would have held
		"pending": func(e almanac.Event) almanac.Event {
			claimed, err := e.Claim(uuid.New())
			require.NoError(t, err)
			return claimed
		},
		"in flight": func(almanac.Event) almanac.Event { return claimOne(t, store) },
		"finished": func(almanac.Event) almanac.Event {
			claimed := claimOne(t, store)
			settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Next: nextBirthday}})
			require.NoError(t, err)
			require.NotNil(t, settled[0].Successor)
			return claimed
		},
		"hidden": func(e almanac.Event) almanac.Event {
			claimed := claimOne(t, store)
			_, err := store.DeleteUser(t.Context(), e.UserID, almanac.DeleteOptions{})
			require.NoError(t, err)
			return claimed
		},
	} {
		p := ada
		p.LastName, p.ExternalID, p.Email = "Byron, who is "+name, "id "+name, strings.ReplaceAll(name, " ", ".")+"@byron.example"
		e := overdueFor(t, store, p)
		held := hold(e)
		for _, text := range []string{e.UserID.String(), p.LastName} {
			found := mentions(t, pool, text)
			require.NotZero(t, found["users"], name)
			require.NotZero(t, found["series"]+found["history"], name)
		}

		_, err := scheduler.DeleteUser(t.Context(), e.UserID, atOnce)
		require.NoError(t, err)

		for _, text := range []string{e.UserID.String(), p.LastName, p.ExternalID, p.Email, e.IdempotencyKey.String()} {
			require.Empty(t, mentions(t, pool, text), name)
		}
		settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: held, Outcome: almanac.Delivered(held.UpdatedAt), Next: nextBirthday}})
		require.NoError(t, err)
		require.ErrorIs(t, settled[0].Err, almanac.ErrNotFound, name)
		for _, text := range []string{e.UserID.String(), p.LastName, e.IdempotencyKey.String(), e.ID.String()} {
			require.Empty(t, mentions(t, pool, text), name)
		}
		requireLeasesMatchEvents(t, pool)
	}
	require.Equal(t, map[string]int{"users": 1, "series": 1}, mentions(t, pool, bystander.UserID.String()))
}

// A birth by another calendar, and the one before an edit, are erased with their user.
func TestAnImmediateDeletionErasesABirthByAnotherCalendar(t *testing.T) {
	t.Parallel()
	require.NoError(t, calendar.RegisterSystems(calendartest.Lunar{}))
	pool := pgtest.Pool(t)
	require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
	scheduler := newScheduler(t, mustStore(t, pool))
	p := ada
	p.DateOfBirth, p.Calendar = "1986-03L-08", "lunar"
	created, err := scheduler.CreateUser(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"users": 1}, mentions(t, pool, p.DateOfBirth))
	born := "1989-04L-17"
	_, err = scheduler.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{DateOfBirth: &born, Calendar: &p.Calendar})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"users": 1}, mentions(t, pool, born))
	_, err = scheduler.DeleteUser(t.Context(), created.User.ID, atOnce)
	require.NoError(t, err)
	for _, text := range []string{p.DateOfBirth, born, "year:lunar"} {
		require.Empty(t, mentions(t, pool, text), text)
	}
}

// What was in flight with others stays in the list of its lease until those have
// ended, and the deletion does not wait for a lease that another transaction has locked.
func TestAnErasedUserRemainsInLeasesOnly(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, store *postgres.Store, others []almanac.Event){
		"until the others have ended": func(t *testing.T, store *postgres.Store, others []almanac.Event) {
			t.Helper()
			for _, e := range others {
				settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(e.UpdatedAt)}})
				require.NoError(t, err)
				require.NoError(t, settled[0].Err)
			}
		},
		"until the worker has died": func(t *testing.T, store *postgres.Store, others []almanac.Event) {
			t.Helper()
			held, err := store.Renew(t.Context(), []uuid.UUID{others[0].LeaseToken}, time.Microsecond)
			require.NoError(t, err)
			require.Len(t, held, 1)
			released, err := store.ReleaseExpired(t.Context(), 10, 1000)
			require.NoError(t, err)
			require.Len(t, released, len(others))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool)
			for range 3 {
				overdue(t, store)
			}
			claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 3, Lease: time.Minute})
			require.NoError(t, err)
			require.Len(t, claim.Events, 3)
			e, others := claim.Events[1], []almanac.Event{claim.Events[0], claim.Events[2]}
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(t.Context()) }()
			_, err = tx.Exec(t.Context(), "SELECT FROM almanac.leases FOR UPDATE")
			require.NoError(t, err)

			_, err = store.DeleteUser(t.Context(), e.UserID, atOnce)

			require.NoError(t, err, "while the lease is locked")
			require.NoError(t, tx.Rollback(t.Context()))
			require.Empty(t, mentions(t, pool, e.UserID.String()))
			require.Empty(t, mentions(t, pool, e.IdempotencyKey.String()))
			require.Equal(t, map[string]int{"leases": 1}, mentions(t, pool, e.ID.String()))
			end(t, store, others)
			require.Empty(t, mentions(t, pool, e.ID.String()))
			requireLeasesMatchEvents(t, pool)
		})
	}
}

// race runs a deletion while a transaction holds its event, and ends the
// transaction when the deletion waits for it, or has not waited.
func race(t *testing.T, pool *pgxpool.Pool, deletion func() error, end func()) {
	t.Helper()
	deleted := make(chan error, 1)
	go func() { deleted <- deletion() }()
	awaitLockWaiter(t, pool, deleted)
	end()
	require.NoError(t, <-deleted)
}

func TestAnImmediateDeletionWaitsForASuccessorBeingStored(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	e := overdue(t, store)
	claimed := claimOne(t, store)
	deleted := make(chan error, 1)

	settled, err := store.Settle(t.Context(), []almanac.Settlement{{
		Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt),
		Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			go func() {
				_, err := store.DeleteUser(t.Context(), u.ID, atOnce)
				deleted <- err
			}()
			awaitLockWaiter(t, pool, deleted)
			return nextBirthday(u, now)
		},
	}})
	require.NoError(t, err)
	require.NoError(t, errors.Join(settled[0].Err, settled[0].PlanErr, <-deleted))

	require.NotNil(t, settled[0].Successor)
	require.Empty(t, mentions(t, pool, e.UserID.String()))
}

func TestADeletionWaitsForAClaimInProgress(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]almanac.DeleteOptions{"at once": atOnce, "when it has ended": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool)
			e := overdue(t, store)
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			inside := mustStore(t, tx)
			claimed := claimOne(t, inside)

			var d almanac.DeleteResult
			race(t, pool, func() (err error) {
				d, err = store.DeleteUser(t.Context(), e.UserID, options)
				return err
			}, func() { require.NoError(t, tx.Commit(t.Context())) })

			require.Equal(t, almanac.DeleteResult{InFlight: []uuid.UUID{e.ID}, Hidden: !options.AtOnce}, d, "it was claimed by then")
			settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Next: nextBirthday}})
			require.NoError(t, err)
			require.Equal(t, options.AtOnce, errors.Is(settled[0].Err, almanac.ErrNotFound))
			require.Nil(t, settled[0].Successor)
			requireNothing(t, pool, store)
		})
	}
}

// A release looks at the user and then at the event. A deletion in between must
// not leave the event to be claimed once more.
func TestNoClaimFindsEventsOfADeletedUser(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]almanac.DeleteOptions{"at once": atOnce, "when it has ended": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool)
			e := overdue(t, store)
			claimed := claimOne(t, store)
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "SELECT FROM almanac.series WHERE event_id = $1 FOR UPDATE", e.ID)
			require.NoError(t, err)
			released, err := store.Release(t.Context(), claimed.LeaseToken)
			require.NoError(t, err)
			require.Empty(t, released, "its series is locked")

			deleted := make(chan error, 1)
			go func() {
				_, err := store.DeleteUser(t.Context(), e.UserID, options)
				deleted <- err
			}()
			awaitLockWaiter(t, pool, deleted)
			require.NoError(t, tx.Commit(t.Context()))
			require.NoError(t, <-deleted)

			claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{e.Type}, Limit: 1, Lease: time.Minute})
			require.NoError(t, err)
			require.Empty(t, claim.Events, "a deleted user gets no greeting")
			requireNothing(t, pool, store)
		})
	}
}

// requireNothing sweeps until no user, no event and no lease is left. A sweep skips rows that
// another transaction has locked.
func requireNothing(t *testing.T, pool *pgxpool.Pool, store *postgres.Store) {
	t.Helper()
	left := -1
	for deadline := time.Now().Add(10 * time.Second); left != 0 && time.Now().Before(deadline); {
		_, err := store.ReleaseExpired(t.Context(), 1000, 1000)
		require.NoError(t, err)
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM almanac.users) + (SELECT count(*) FROM almanac.events) + (SELECT count(*) FROM almanac.leases)").Scan(&left))
	}
	require.Zero(t, left)
}
