//go:build long

package postgres_test

import (
	"cmp"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// A hundred thousand users, each with nine finished birthdays and one to come. A
// thousand of those to come are overdue, one in a hundred of the finished failed. A
// thousand users have an anniversary that is overdue by up to 100 minutes, each tenth
// of which was tried and is available in an hour, and one that was completed last year.
const millionRows = `
	INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone, external_id, email, folded_name, folded_last_name, folded_email,
		zone_source)
	SELECT md5(u::text)::uuid, 'Ada', 'Lovelace', '1990-01-01', 'UTC', CASE WHEN u % 2 = 1 THEN u::text END, CASE WHEN u % 3 = 1 THEN 'U' || u || '@example.com' END,
		'ada lovelace', 'lovelace', CASE WHEN u % 3 = 1 THEN 'u' || u || '@example.com' END,
		CASE WHEN u % 100 = 1 THEN 'guessed' WHEN u % 1000 = 2 THEN 'default' ELSE 'declared' END
	FROM generate_series(1, 100000) u;

	WITH owed AS (
		SELECT (lpad(to_hex((1500000000::bigint + 10 * 31536000 + u) * 1000), 12, '0') || '7' || substr(md5(u::text), 1, 3) || '8' || substr(md5((u * 10 + 10)::text), 1, 15))::uuid AS id,
			md5(u::text)::uuid AS user_id, '2027' AS occurrence_key,
			CASE WHEN u > 1000 THEN now() + u * interval '5 minutes' ELSE now() - u * interval '1 minute' END AS due, 'UTC' AS zone, 'event-' || u || '-10' AS key
		FROM generate_series(1, 100000) u
	)` + storePlanned + `;

	-- Indexes are built faster than they grow.
	CREATE TEMPORARY TABLE dropped AS
	SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition
	FROM pg_index
	WHERE indrelid = 'almanac.history'::regclass AND NOT indisprimary;
	DO 'DECLARE i dropped; BEGIN FOR i IN SELECT * FROM dropped LOOP EXECUTE ''DROP INDEX '' || i.name; END LOOP; END';

	INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local,
		target_timezone, policies, idempotency_key, delivery_payload, user_version, lease_token, executed_at, failure_reason, retry_count,
		claim_count, crash_count, version, created_at, updated_at)
	SELECT (lpad(to_hex((1500000000::bigint + y * 31536000 + u) * 1000), 12, '0') || '7' || substr(name, 1, 3) || '8' || substr(md5((u * 10 + y)::text), 1, 15))::uuid,
		name::uuid, 'BIRTHDAY', (2017 + y)::text, CASE WHEN u % 100 = y THEN 'FAILED' ELSE 'COMPLETED' END,
		due, due, 'UTC', 'forward,first,feb28,clamp', 'event-' || u || '-' || y, '{"message": "Hey"}', 1, '3c469e9d-6c58-75d3-7a43-a46f1cacfe9f',
		CASE WHEN u % 100 <> y THEN due END, CASE WHEN u % 100 = y THEN 'HTTP 404' END, 0, 1, 0, 3, due, due
	FROM generate_series(1, 9) y,
		LATERAL (
			SELECT u, md5(u::text), now() - u * interval '1 minute' - (10 - y) * interval '1 year'
			FROM generate_series(1, 100000) u
			OFFSET 0 -- computes each once
		) d (u, name, due);
	INSERT INTO almanac.keys (idempotency_key) SELECT idempotency_key FROM almanac.history ORDER BY idempotency_key COLLATE "C";

	DO 'DECLARE i dropped; BEGIN FOR i IN SELECT * FROM dropped LOOP EXECUTE i.definition; END LOOP; END';

	WITH owed AS (
		INSERT INTO almanac.series (user_id, event_type, name, current_user_version, event_id, occurrence_key, target_timestamp_utc,
			target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, claim_count)
		SELECT md5(u::text)::uuid, 'ANNIVERSARY', '', 1, ('1f000000-0000-7000-8000-' || lpad(u::text, 12, '0'))::uuid, '2027', due, due, 'UTC',
			'forward,first,feb28,clamp', 'event-a-' || u, '{"message": "Hey"}', 1, CASE WHEN u % 10 = 0 THEN 1 ELSE 0 END
		FROM generate_series(99001, 100000) u, LATERAL (SELECT now() - (u - 99000) * interval '6 seconds') d (due)
		RETURNING id, event_id, event_type, target_timestamp_utc, claim_count
	)
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from)
	SELECT CASE claim_count WHEN 0 THEN target_timestamp_utc ELSE now() + interval '1 hour' END, event_id, id, event_type,
		CASE WHEN claim_count > 0 THEN target_timestamp_utc END
	FROM owed;

	INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local,
		target_timezone, policies, idempotency_key, delivery_payload, user_version, lease_token, executed_at, retry_count, claim_count,
		crash_count, version, created_at, updated_at)
	SELECT ('1e000000-0000-7000-8000-' || lpad(u::text, 12, '0'))::uuid, md5(u::text)::uuid, 'ANNIVERSARY', '2026', 'COMPLETED', due, due, 'UTC',
		'forward,first,feb28,clamp', 'event-b-' || u, '{"message": "Hey"}', 1, md5('token')::uuid, due, 0, 1, 0, 3, due, due
	FROM generate_series(1, 1000) u, LATERAL (SELECT now() - interval '1 year' - u * interval '6 seconds') d (due);

	ANALYZE almanac.users, almanac.series, almanac.queue, almanac.history, almanac.leases, almanac.keys;`

func TestEveryQueryIsServedAtAMillionRows(t *testing.T) {
	t.Parallel()
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	_, err := pool.Exec(t.Context(), millionRows)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "VACUUM almanac.queue, almanac.series, almanac.leases")
	require.NoError(t, err)
	for name, query := range servedQueries() {
		t.Run(name, func(t *testing.T) {
			p, text := explain(t, pool, received, func(s *postgres.Store) error { return query.ask(t.Context(), s) })

			require.False(t, p.scansSequentially(), "a whole table is read:\n%s", text)
			require.LessOrEqual(t, p.Hit+p.Read, query.blocks, "too much of the table is touched:\n%s", text)
			require.LessOrEqual(t, p.removed(), cmp.Or(query.removed, 100), "rows are read for nothing:\n%s", text)
			for _, index := range query.indexes {
				require.True(t, p.uses(index), "%s is not used:\n%s", index, text)
			}
			t.Logf("%d blocks, %d rows removed", p.Hit+p.Read, p.removed())
		})
	}
	t.Run("a page to backfill", func(t *testing.T) { requireBulkReadsNoWholeTable(t, pool, received) })
	t.Run("statistics", func(t *testing.T) { requireStatsReadFewBlocks(t, pool, received) })
}
