package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A fill without indexes leaves the same tables as one with them.
func TestBulkFillsLeaveEveryIndex(t *testing.T) {
	db := migrated(t)
	const indexes = "SELECT count(*), count(*) FILTER (WHERE indisready AND indisvalid), count(*) FILTER (WHERE c.reloptions IS NOT NULL) " +
		"FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'almanac'::regnamespace"
	var before, after [3]int
	require.NoError(t, db.pool.QueryRow(t.Context(), indexes).Scan(&before[0], &before[1], &before[2]))

	require.NoError(t, storeMany(t.Context(), db, load{count: 100}))

	require.NoError(t, db.pool.QueryRow(t.Context(), indexes).Scan(&after[0], &after[1], &after[2]))
	require.Equal(t, before, after)
	require.Equal(t, after[0], after[1])
	var found int
	require.NoError(t, db.pool.QueryRow(t.Context(), `
		SELECT count(*)
		FROM almanac.queue q, LATERAL (SELECT event_id FROM almanac.series s WHERE s.id = q.series_id OFFSET 0) s
		WHERE s.event_id = q.event_id`).Scan(&found))
	require.Equal(t, 100, found)
	_, err := db.pool.Exec(t.Context(), "INSERT INTO almanac.keys (idempotency_key) SELECT idempotency_key FROM almanac.keys LIMIT 1")
	require.ErrorContains(t, err, "duplicate key")
	done, err := runLoop(t.Context(), db, 100, tinySizes().Limit)
	require.NoError(t, err)
	require.NoError(t, checkAlmanac(t.Context(), db, done.done))
}
