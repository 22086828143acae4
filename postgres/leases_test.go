package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// A clock that is set back is the same as leases that were written later.
func TestLeasesEndOnTimeAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	take := func(lease time.Duration) almanac.Event {
		overdue(t, store)
		claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: lease})
		require.NoError(t, err)
		require.Len(t, claim.Events, 1)
		return claim.Events[0]
	}
	dead, alive, renewed := take(time.Millisecond), take(time.Hour), take(time.Millisecond)
	_, err := pool.Exec(t.Context(), "UPDATE almanac.leases SET claimed_at = claimed_at + interval '2 days', expires_at = expires_at + interval '2 days'")
	require.NoError(t, err)
	_, err = store.Renew(t.Context(), []uuid.UUID{renewed.LeaseToken}, time.Hour)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var released []almanac.Event
	for len(released) == 0 {
		released, err = store.ReleaseExpired(ctx, 10, 1000)
		require.NoError(t, err, "nothing is released")
	}

	require.Len(t, released, 1)
	require.Equal(t, dead.ID, released[0].ID)
	var kept []uuid.UUID
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT array_agg(token ORDER BY claimed_at) FROM almanac.leases
		WHERE claimed_at <= clock_timestamp() AND expires_at > clock_timestamp() AND expires_at <= clock_timestamp() + interval '1 hour'`).Scan(&kept))
	require.ElementsMatch(t, []uuid.UUID{alive.LeaseToken, renewed.LeaseToken}, kept)
}

// A settlement skips a lease that is just being renewed, which then holds nothing. The next
// sweep ends it, and skips leases that another transaction has locked.
func TestALeaseRenewedAfterItsEventsEndedIsRemoved(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	overdue(t, store)
	claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Hour})
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	renewing := mustStore(t, tx)
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

	_, err = store.ReleaseExpired(t.Context(), 10, 1000)
	require.NoError(t, err)
	during := leases()
	require.NoError(t, tx.Commit(t.Context()))
	_, err = store.ReleaseExpired(t.Context(), 10, 1000)
	require.NoError(t, err)

	require.Equal(t, 1, during)
	require.Zero(t, leases())
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
