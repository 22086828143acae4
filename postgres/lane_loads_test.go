package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
)

// queueIn queues due events in lanes of crm, which have no series: $1 lanes with $2 events each, and one lane with $3.
const queueIn = `
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, lane)
	SELECT now() - n * interval '1 millisecond', gen_random_uuid(), n, 'BIRTHDAY', 'crm/tenant-' || n % $1
	FROM generate_series(1, $1::integer * $2) n
	UNION ALL
	SELECT now() - n * interval '1 millisecond', gen_random_uuid(), n, 'BIRTHDAY', 'crm/large'
	FROM generate_series(1, $3::integer) n`

func queueInLanes(t *testing.T, pool *pgxpool.Pool, lanes, each, large int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "ALTER TABLE almanac.queue DISABLE TRIGGER USER")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), queueIn, lanes, each, large)
	require.NoError(t, err)
}

// Of each lane five events are counted. The lanes that have more share a total, unless that is less than fifty for each.
func TestLaneLoadsCountsUpToATotal(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	queueInLanes(t, pool, 2, 13, 50)
	for _, name := range []string{"crm", "crm/large", "crm/tenant-0", "crm/none"} {
		require.NoError(t, store.PutLane(t.Context(), almanac.Lane{Name: name, Places: 2}))
	}
	counted := func(limit, all int) map[string]ops.Count {
		rows, err := pool.Query(t.Context(), store.Statements(everySpec)["LaneLoads"], pgx.NamedArgs{"lanes": nil, "limit": limit, "all": all})
		require.NoError(t, err)
		counts := make(map[string]ops.Count)
		for rows.Next() {
			values, err := rows.Values()
			require.NoError(t, err)
			count := ops.Count{N: values[6].(int64)}
			if values[7].(bool) {
				count.Kind = ops.AtLeast
			}
			counts[values[0].(string)] = count
		}
		require.NoError(t, rows.Err())
		return counts
	}
	atLeast := func(n int64) ops.Count { return ops.Count{N: n, Kind: ops.AtLeast} }
	exactly := func(n int64) ops.Count { return ops.Count{N: n} }
	for _, tt := range []struct {
		limit, all int
		want       map[string]ops.Count
	}{
		{100, 1000, map[string]ops.Count{"crm": exactly(76), "crm/large": exactly(50), "crm/tenant-0": exactly(13), "crm/none": {}}},
		{50, 1000, map[string]ops.Count{"crm": exactly(76), "crm/large": exactly(50), "crm/tenant-0": exactly(13), "crm/none": {}}},
		{49, 1000, map[string]ops.Count{"crm": atLeast(75), "crm/large": atLeast(49), "crm/tenant-0": exactly(13), "crm/none": {}}},
		{100, 150, map[string]ops.Count{"crm": exactly(76), "crm/large": exactly(50), "crm/tenant-0": exactly(13), "crm/none": {}}},
		{100, 149, map[string]ops.Count{"crm": atLeast(15), "crm/large": atLeast(5), "crm/tenant-0": atLeast(5), "crm/none": {}}},
	} {
		require.Equal(t, tt.want, counted(tt.limit, tt.all), "up to %d and %d", tt.limit, tt.all)
	}
}
