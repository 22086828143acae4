package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// abandon puts so many pending events into leases of so many each that have run out.
const abandon = `
	WITH taken AS (
		DELETE FROM almanac.queue WHERE event_id IN (SELECT event_id FROM almanac.queue ORDER BY event_id LIMIT $1::integer) RETURNING series_id, event_id
	), numbered AS (
		SELECT *, (row_number() OVER () - 1) / $2::integer AS batch FROM taken
	)
	INSERT INTO almanac.leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at)
	SELECT gen_random_uuid(), 'dead', array_agg(series_id), array_agg(event_id), array_agg(1), now() - interval '2 minutes', now() - interval '1 minute'
	FROM numbered GROUP BY batch`

// Dead workers leave 6000 events behind in leases of several steps, and 3000 in one. No step releases more than it was asked for, each is
// within the deadline of one operation, and all events come back. The row "recovery" of bench does the same with a million.
func TestRecoveryReleasesAnyNumberOfEventsInBoundedSteps(t *testing.T) {
	t.Parallel()
	const large, many, step = 3000, 6000, 300
	pool := pgtest.ReusedPool(t)
	_, err := pool.Exec(t.Context(), owePeople, large+many)
	require.NoError(t, err)
	for _, part := range []struct{ events, lease int }{{large, large}, {many, 600}} {
		_, err = pool.Exec(t.Context(), abandon, part.events, part.lease)
		require.NoError(t, err)
	}
	_, err = pool.Exec(t.Context(), "VACUUM ANALYZE almanac.series, almanac.users, almanac.leases")
	require.NoError(t, err)
	store, err := postgres.New(pool, postgres.WithTimeout(30*time.Second)) // six times the default, for a machine that is loaded
	require.NoError(t, err)

	released, steps := 0, 0
	for {
		events, err := store.ReleaseExpired(t.Context(), step, 1000)
		require.NoError(t, err)
		require.LessOrEqual(t, len(events), step)
		if len(events) == 0 {
			break
		}
		released, steps = released+len(events), steps+1
		require.Equal(t, almanac.Pending, events[0].Status)
		require.Equal(t, 1, events[0].CrashCount)
	}
	require.Equal(t, large+many, released)
	require.LessOrEqual(t, steps, 2*(large+many)/step)
	var pending, leases int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM almanac.queue), (SELECT count(*) FROM almanac.leases)").Scan(&pending, &leases))
	require.Equal(t, large+many, pending)
	require.Zero(t, leases)
}

// An event that waits for another attempt was missed at its target, not since it can be claimed again.
func TestMissedEventsAreCountedByTheirTargets(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	now := nowOf(t, store)
	missed := func(ago time.Duration, options ...almanactest.EventOption) almanac.Event {
		u := almanactest.User()
		return almanactest.Store(t, store, u, almanactest.Event(now, append(options, almanactest.For(u), almanactest.ReadyFor(ago))...))[0]
	}
	newest := missed(3 * time.Hour)
	delayed := missed(5*time.Hour, almanactest.Tried(1))
	_, err := pool.Exec(t.Context(), "DELETE FROM almanac.queue WHERE event_id = $1", delayed.ID)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from)
		SELECT $2, event_id, id, event_type, target_timestamp_utc FROM almanac.series WHERE event_id = $1`, delayed.ID, now.Add(-2*time.Hour))
	require.NoError(t, err)

	m, err := store.Missed(t.Context(), []string{almanac.TypeBirthday}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, almanac.Missed{Count: 2, Oldest: delayed.Due, Newest: newest.Due}, m)
}
