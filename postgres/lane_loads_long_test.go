//go:build long

package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// Ten thousand lanes, of which each tenth has limits, have thirty due events each, and one has 110,000. More events in each lane
// would cost no more: five are counted.
func TestLaneLoadsReadAPartOfManyEvents(t *testing.T) {
	t.Parallel()
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	store := mustStore(t, pool)
	queueInLanes(t, pool, 10_000, 30, 110_000)
	for _, prepare := range []string{"INSERT INTO almanac.lanes (name, places) SELECT 'crm/tenant-' || 10 * n, 2 FROM generate_series(0, 999) n", "VACUUM ANALYZE almanac.queue"} {
		_, err := pool.Exec(t.Context(), prepare)
		require.NoError(t, err)
	}
	require.NoError(t, store.PutLane(t.Context(), almanac.Lane{Name: "crm", Rate: 50, Burst: 10}))

	began := time.Now()
	loads, err := store.LaneLoads(t.Context())
	require.NoError(t, err)
	took := time.Since(began)
	require.Len(t, loads, 1001)
	require.LessOrEqual(t, loads[0].Waiting.N, int64(50_005))
	require.Equal(t, ops.AtLeast, loads[0].Waiting.Kind)
	require.Equal(t, 10_001, loads[0].Weights)
	p, text := explain(t, pool, received, func(s *postgres.Store) error { _, err := s.LaneLoads(t.Context()); return err })
	require.LessOrEqual(t, p.Hit+p.Read, 200_000, "too much of the table is touched:\n%s", text)
	t.Logf("all lanes: %v, %d blocks", took, p.Hit+p.Read)

	e := almanac.Event{ID: uuid.UUID{}, Status: almanac.Pending, Type: "BIRTHDAY", Lane: "crm/large"}
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT event_id, available_at FROM almanac.queue WHERE lane = 'crm/large' ORDER BY available_at DESC LIMIT 1").Scan(&e.ID, &e.AvailableAt))
	began = time.Now()
	wait, err := store.LaneWait(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, ops.Count{N: 100_000, Kind: ops.AtLeast}, wait.Before)
	t.Logf("one event: %v", time.Since(began))
}
