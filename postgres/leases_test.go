package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// A clock that is set back is the same as leases that were written later.
func TestLeasesEndOnTimeAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	take := func(lease time.Duration) almanac.Event {
		overdue(t, store)
		claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: lease})
		require.NoError(t, err)
		require.Len(t, claim.Events, 1)
		return claim.Events[0]
	}
	dead, alive, renewed := take(time.Millisecond), take(time.Hour), take(time.Millisecond)
	_, err = pool.Exec(t.Context(), "UPDATE almanac.leases SET claimed_at = claimed_at + interval '2 days', expires_at = expires_at + interval '2 days'")
	require.NoError(t, err)
	_, err = store.Renew(t.Context(), []uuid.UUID{renewed.LeaseToken}, time.Hour)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var released []almanac.Event
	for len(released) == 0 {
		released, err = store.ReleaseExpired(ctx, 10)
		require.NoError(t, err, "nothing is released")
	}

	require.Len(t, released, 1)
	require.Equal(t, dead.ID, released[0].ID)
	var kept []uuid.UUID
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT array_agg(token ORDER BY claimed_at) FROM almanac.leases
		WHERE claimed_at <= clock_timestamp() AND expires_at > clock_timestamp() AND expires_at <= clock_timestamp() + interval '1 hour'`).Scan(&kept))
	require.ElementsMatch(t, []uuid.UUID{alive.LeaseToken, renewed.LeaseToken}, kept)
}

// A settlement passes over a lease that is just being renewed, which then holds nothing.
// The next sweep ends it, and passes over those that somebody else holds just then.
func TestALeaseRenewedAfterItsEventsEndedIsRemoved(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	overdue(t, store)
	claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Hour})
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	renewing, err := postgres.New(tx)
	require.NoError(t, err)
	held, err := renewing.Renew(t.Context(), []uuid.UUID{claim.Events[0].LeaseToken}, time.Hour)
	require.NoError(t, err)
	require.Len(t, held, 1)
	settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.Delivered(claim.At)}})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	leases := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.leases").Scan(&n))
		return n
	}

	_, err = store.ReleaseExpired(t.Context(), 10)
	require.NoError(t, err)
	during := leases()
	require.NoError(t, tx.Commit(t.Context()))
	_, err = store.ReleaseExpired(t.Context(), 10)
	require.NoError(t, err)

	require.Equal(t, 1, during)
	require.Zero(t, leases())
}

// The statements with which the previous release claims and gives leases.
const (
	oldLease = `INSERT INTO almanac.leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at, ahead_since)
		SELECT $1, 'old', ARRAY[s.id], ARRAY[s.event_id], ARRAY[s.version], clock_timestamp(), clock_timestamp() + interval '1 minute', NULL
		FROM almanac.series s WHERE s.event_id = $2`
	oldRenew = `UPDATE almanac.leases SET expires_at = clock_timestamp() + interval '5 minutes' WHERE token = $1`
)

func TestAProgramOfTheReleaseBeforeLeavesTheProgramOfALeaseUnknown(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	request := birthdays(1)
	request.Program, request.ZoneData = "birthdayd v0.1.0", "2026f"
	overdue(t, store)
	_, err := store.Claim(t.Context(), request)
	require.NoError(t, err)

	// It claims, and it renews what this release claimed.
	e, token := overdue(t, store), uuid.New()
	_, err = pool.Exec(t.Context(), "DELETE FROM almanac.queue WHERE event_id = $1", e.ID)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), oldLease, token, e.ID)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), oldRenew, request.Token)
	require.NoError(t, err)

	leases, err := store.Leases(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, leases, 2)
	require.Equal(t, []any{request.Token, "birthdayd v0.1.0", "2026f"}, []any{leases[0].Token, leases[0].Program, leases[0].ZoneData})
	require.Equal(t, []any{token, "old", "", ""}, []any{leases[1].Token, leases[1].Owner, leases[1].Program, leases[1].ZoneData})
	held, err := store.Event(t.Context(), e.ID)
	require.NoError(t, err)
	leased, err := store.LeaseEach(t.Context(), []almanac.Event{held}, "alone", time.Minute)
	require.NoError(t, err)
	require.Len(t, leased, 1)
	released, err := store.Release(t.Context(), leased[0].LeaseToken)
	require.NoError(t, err)
	require.Len(t, released, 1)
}

func TestAnUnknownProgramIsNULL(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	overdue(t, store)
	_, err := store.Claim(t.Context(), birthdays(1))
	require.NoError(t, err)

	var unknown bool
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT program IS NULL AND zone_data IS NULL FROM almanac.leases").Scan(&unknown))
	require.True(t, unknown)
}

// A lease of this release is still held on the way down, and the previous release can claim.
func TestLeasesSurviveTheWayDownWithoutTheirPrograms(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	overdue(t, store)
	request := birthdays(1)
	request.Program = "birthdayd v0.1.0"
	_, err := store.Claim(t.Context(), request)
	require.NoError(t, err)
	for found, _ := versionOf(t, pool); found > 17; found-- {
		require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}))
	}
	e, token := overdue(t, store), uuid.New()
	_, err = pool.Exec(t.Context(), oldLease, token, e.ID)
	require.NoError(t, err)

	require.NoError(t, postgres.Migrate(t.Context(), pool))
	leases, err := store.Leases(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, leases, 2)
	require.Equal(t, almanac.Lease{Token: request.Token, Events: 1, ClaimedAt: leases[0].ClaimedAt, ExpiresAt: leases[0].ExpiresAt}, leases[0])
}
