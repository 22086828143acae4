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
func TestNobodyIsHeldUntilAClockThatWasSetBackCatchesUp(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
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
