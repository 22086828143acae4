package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// statsOf returns the statistics. It fails the test if a statement reads a whole table or too many blocks.
func statsOf(t *testing.T, pool *pgxpool.Pool, received *recorder) ops.Stats {
	t.Helper()
	received.mu.Lock()
	received.asked = nil
	received.mu.Unlock()
	stats, err := mustStore(t, pool).Stats(t.Context())
	require.NoError(t, err)
	_, err = mustStore(t, pool).Retries(t.Context())
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), "SET LOCAL jit = off")
	require.NoError(t, err)
	for _, s := range slices.Clone(received.asked) {
		p, text := planOf(t, tx, "ANALYZE, BUFFERS, ", s)
		require.False(t, p.scansSequentially(), "a whole table is read:\n%s", text)
		require.LessOrEqual(t, p.Hit+p.Read, 20_000, "%s\n%s", s.sql, text)
		t.Logf("%d blocks: %.70s", p.Hit+p.Read, strings.Join(strings.Fields(s.sql), " "))
	}
	return stats
}

// near requires that an estimate is within a fifth of a number.
func near(t *testing.T, want int, got ops.Count, what string) {
	t.Helper()
	require.Equal(t, ops.Estimated, got.Kind, what)
	require.InEpsilon(t, want, got.N, 0.2, "%s: %v", what, got)
}

func countOf(s ops.Stats, eventType string, status almanac.Status) ops.Count {
	for _, e := range s.Events {
		if e.Type == eventType && e.Status == status {
			return e.Count
		}
	}
	return ops.Count{}
}

// spread moves the pending birthdays to a year, many of them to the next hours, and the users to zones.
const spread = `
	BEGIN;
	SET LOCAL session_replication_role = replica; -- no triggers
	UPDATE almanac.users SET timezone = CASE WHEN right(id::text, 1) < '8' THEN 'Asia/Tokyo' WHEN right(id::text, 1) < 'c' THEN 'Europe/Paris' ELSE 'UTC' END;
	UPDATE almanac.series s SET target_timezone = u.timezone FROM almanac.users u WHERE u.id = s.user_id;
	CREATE TABLE almanac.moved AS SELECT * FROM almanac.queue WHERE event_type = 'BIRTHDAY';
	DELETE FROM almanac.queue WHERE event_type = 'BIRTHDAY';
	INSERT INTO almanac.queue SELECT to_timestamp(floor(extract(epoch FROM now()) / 900) * 900) + (x.n % 30) * interval '1 hour' + interval '20 minutes', event_id, series_id, event_type, delayed_from
	FROM (SELECT *, row_number() OVER () AS n FROM almanac.moved) x;
	DROP TABLE almanac.moved;
	INSERT INTO almanac.queue SELECT now() + interval '40 days', md5('rare' || n)::uuid, 0, 'RARE', NULL FROM generate_series(1, 7) n;
	INSERT INTO almanac.leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at)
	SELECT md5('lease' || n)::uuid, 'test', array_agg(s.id), array_agg(s.event_id), array_agg(s.version), now(), now() + interval '1 hour'
	FROM (SELECT s.*, s.id % 10 AS n FROM almanac.series s WHERE s.event_type = 'BIRTHDAY' ORDER BY s.id LIMIT 20000) s GROUP BY n;
	COMMIT`

// requireStatsReadFewBlocks changes the events of a million rows, and requires bounded statistics of them.
func requireStatsReadFewBlocks(t *testing.T, pool *pgxpool.Pool, received *recorder) {
	t.Helper()
	run := func(statements ...string) {
		t.Helper()
		for _, sql := range statements {
			_, err := pool.Exec(t.Context(), sql)
			require.NoError(t, err)
		}
	}
	run(spread, "VACUUM FULL almanac.queue", "VACUUM FULL almanac.users", "VACUUM FULL almanac.series", "VACUUM almanac.queue")
	requireEstimates(t, pool, statsOf(t, pool, received))
	run("ANALYZE almanac.users, almanac.series, almanac.queue, almanac.history, almanac.leases")
	requireEstimates(t, pool, statsOf(t, pool, received))
	run(fewer, "VACUUM ANALYZE almanac.queue")
	requireFewCounted(t, pool, statsOf(t, pool, received))
	run(retries, "VACUUM ANALYZE almanac.queue, almanac.unplanned")
	statsOf(t, pool, received)
	requireRetriesEstimated(t, pool)
}

func requireEstimates(t *testing.T, pool *pgxpool.Pool, s ops.Stats) {
	t.Helper()
	near(t, 100_000, s.Users, "users")
	near(t, 100_000, countOf(s, "BIRTHDAY", almanac.Pending), "pending")
	near(t, 20_000, countOf(s, "BIRTHDAY", almanac.Processing), "processing")
	near(t, 891_000, countOf(s, "BIRTHDAY", almanac.Completed), "completed")
	near(t, 9000, countOf(s, "BIRTHDAY", almanac.Failed), "failed")
	require.Equal(t, ops.Count{N: 7}, countOf(s, "RARE", almanac.Pending), "a sample would miss it")
	require.Equal(t, ops.Count{N: 900}, s.Backlog, "anniversaries that wait, and no birthday")
	for i, zone := range []string{"Asia/Tokyo", "Europe/Paris", "UTC"} {
		require.Equal(t, zone, s.Zones[i].Zone)
	}
	near(t, 50_000, s.Zones[0].Users, "users in Tokyo")
	near(t, 50_000, s.Zones[0].Pending, "pending in Tokyo")
	require.Len(t, s.Wave, 192)
	// A quarter of an hour may have passed since the events were moved, so they are found by their time.
	var first time.Time
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT min(available_at) FROM almanac.queue WHERE event_type = 'BIRTHDAY'").Scan(&first))
	full := int(first.Add(7*time.Hour).Sub(s.Wave[0].From) / (15 * time.Minute))
	near(t, 100_000/30, s.Wave[full].Count, "an hour of the wave")
	require.Equal(t, ops.Count{Kind: ops.Estimated}, s.Wave[full+1].Count)
	require.False(t, s.Analyzed.IsZero() || s.Analyzed.After(s.At))
}

// fewer makes the pending events overdue or due after the wave, and leaves few failures.
const fewer = `
	CREATE TABLE almanac.moved AS SELECT available_at + interval '60 days', event_id, series_id, event_type, delayed_from FROM almanac.queue;
	TRUNCATE almanac.queue;
	INSERT INTO almanac.queue SELECT * FROM almanac.moved;
	DROP TABLE almanac.moved;
	INSERT INTO almanac.queue SELECT now() - n * interval '1 second', md5('due' || n)::uuid, 0, 'DUE', NULL FROM generate_series(1, 120000) n;
	DELETE FROM almanac.history WHERE failure_reason IS NOT NULL AND right(id::text, 1) > '1'`

func requireFewCounted(t *testing.T, pool *pgxpool.Pool, s ops.Stats) {
	t.Helper()
	require.Equal(t, ops.Count{N: 100_000, Kind: ops.AtLeast}, s.Backlog)
	require.WithinDuration(t, s.At.Add(-120_000*time.Second), s.Oldest, 5*time.Minute)
	require.Equal(t, ops.Count{}, s.Wave[100].Count)
	require.Equal(t, ops.Exact, s.Wave[0].Count.Kind)
	var failed int64
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.history WHERE status = 'FAILED'").Scan(&failed))
	require.Equal(t, ops.Count{N: failed}, countOf(s, "BIRTHDAY", almanac.Failed))
}

// retries stores events of three types that wait for another attempt, and stalled series.
const retries = `
	BEGIN;
	SET LOCAL session_replication_role = replica; -- no triggers
	UPDATE almanac.series SET last_error = CASE WHEN id % 4 = 0 THEN 'HTTP 502' ELSE 'HTTP 503' END WHERE event_type = 'BIRTHDAY';
	INSERT INTO almanac.queue SELECT now() + n * interval '1 second', md5('retry' || n)::uuid, s.id,
		CASE WHEN n <= 20000 THEN 'R-MANY' WHEN n <= 25000 THEN 'R-SOME' ELSE 'R-FEW' END, now(), 1
	FROM (SELECT s.id, row_number() OVER (ORDER BY s.id) AS n FROM almanac.series s WHERE event_type = 'BIRTHDAY' LIMIT 25400) s;
	INSERT INTO almanac.unplanned (series_id, user_id, event_type, used_unit, used_key, last_error, failures)
	SELECT n, md5('stalled' || n)::uuid, 'BIRTHDAY', s.used_unit, s.used_key, 'no plan', 1
	FROM (SELECT s.used_unit, s.used_key, row_number() OVER (ORDER BY s.id) AS n FROM almanac.series s LIMIT 20000) s;
	UPDATE almanac.series s SET event_id = NULL FROM almanac.unplanned u WHERE u.series_id = s.id AND u.used_key = s.used_key;
	COMMIT`

func requireRetriesEstimated(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	r, err := mustStore(t, pool).Retries(t.Context())
	require.NoError(t, err)
	counts := make(map[string]ops.Count)
	for _, g := range r.Events {
		counts[g.Type+" "+g.Error] = g.Count
		require.False(t, g.Since.IsZero() || !g.Next.After(g.Since), "%+v", g)
	}
	require.Equal(t, map[string]ops.Count{
		"R-MANY HTTP 503": {N: 7500, Kind: ops.AtLeast}, "R-MANY HTTP 502": {N: 2500, Kind: ops.AtLeast},
		"R-SOME HTTP 503": {N: 3750, Kind: ops.Estimated}, "R-SOME HTTP 502": {N: 1250, Kind: ops.Estimated},
		"R-FEW HTTP 503": {N: 300}, "R-FEW HTTP 502": {N: 100},
	}, counts)
	require.Len(t, r.Series, 1)
	require.Equal(t, ops.AtLeast, r.Series[0].Count.Kind)
}
