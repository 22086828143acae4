package postgres_test

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// A hundred thousand users, each with nine finished birthdays and one to come. A
// thousand of those to come are overdue, one in a hundred of the finished failed. A
// thousand users have an anniversary that is overdue by up to 100 minutes, each tenth
// of which was tried and is available in an hour, and one that was completed last year.
const millionRows = `
	INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone, external_id, email, folded_name, folded_last_name, folded_email)
	SELECT md5(u::text)::uuid, 'Ada', 'Lovelace', '1990-01-01', 'UTC', CASE WHEN u % 2 = 1 THEN u::text END, CASE WHEN u % 3 = 1 THEN 'U' || u || '@example.com' END,
		'ada lovelace', 'lovelace', CASE WHEN u % 3 = 1 THEN 'u' || u || '@example.com' END
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

// recorder is a pgx tracer that keeps the statements of a store, to be explained
// exactly as they were sent.
type recorder struct {
	mu    sync.Mutex
	asked []statement
}

type statement struct {
	sql  string
	args []any
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(data.SQL, `"almanac".`) {
		r.asked = append(r.asked, statement{data.SQL, data.Args})
	}
	return ctx
}

// last returns the last statement whose file has a name, or of any name if it is empty.
func (r *recorder) last(name string) statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slices.Backward(r.asked) {
		if name == "" || strings.HasPrefix(s.sql, "/* almanac "+name+" */") {
			return s
		}
	}
	return statement{}
}

func (r *recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *recorder) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	r.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: data.SQL, Args: data.Args})
}

func (r *recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// plan is what EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) says of a node.
type plan struct {
	NodeType string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Hit      int    `json:"Shared Hit Blocks"`
	Read     int    `json:"Shared Read Blocks"`
	Index    string `json:"Index Name"`
	Cond     string `json:"Index Cond"`
	Loops    *int   `json:"Actual Loops"`                  // nil where the plan was not executed
	Filtered int    `json:"Rows Removed by Filter"`        // in each loop
	Lossy    int    `json:"Rows Removed by Index Recheck"` // in each loop
	Plans    []plan `json:"Plans"`
}

// bound is what bounds the scan of an index.
func (p plan) bound(index string) string {
	if p.Index == index {
		return p.Cond
	}
	for _, child := range p.Plans {
		if bound := child.bound(index); bound != "" {
			return bound
		}
	}
	return ""
}

// uses reports whether an index is read.
func (p plan) uses(index string) bool {
	return p.Index == index && (p.Loops == nil || *p.Loops > 0) || slices.ContainsFunc(p.Plans, func(child plan) bool { return child.uses(index) })
}

// removed is how many rows were read for nothing.
func (p plan) removed() int {
	n := 0
	if p.Loops != nil && (p.Relation != "" || p.Index != "") {
		n = *p.Loops * (p.Filtered + p.Lossy)
	}
	for _, child := range p.Plans {
		n += child.removed()
	}
	return n
}

// scansSequentially reports whether a whole table is read that grows.
func (p plan) scansSequentially() bool {
	if p.Loops != nil && *p.Loops == 0 {
		return false
	}
	if p.NodeType == "Seq Scan" && p.Relation != "leases" && p.Relation != "pauses" && p.Relation != "settings" && p.Relation != "pruning" {
		return true
	}
	for _, child := range p.Plans {
		if child.scansSequentially() {
			return true
		}
	}
	return false
}

// explain has a store run a statement, records it, undoes it, and runs it once more under
// EXPLAIN. It removes the row versions that were rolled back.
func explain(t *testing.T, pool *pgxpool.Pool, r *recorder, ask func(*postgres.Store) error) (plan, string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	var wrote bool
	defer func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, tx.Rollback(ctx))
		if wrote {
			_, err := pool.Exec(ctx, "VACUUM almanac.queue, almanac.series, almanac.leases")
			require.NoError(t, err)
		}
	}()
	point, err := tx.Begin(t.Context())
	require.NoError(t, err)
	store, err := postgres.New(point)
	require.NoError(t, err)
	require.NoError(t, ask(store))
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT txid_current_if_assigned() IS NOT NULL").Scan(&wrote))
	require.NoError(t, point.Rollback(t.Context()))

	return planOf(t, tx, "ANALYZE, BUFFERS, ", r.last(""))
}

// planOf returns how a statement is executed, as EXPLAIN with more options has it.
func planOf(t *testing.T, tx pgx.Tx, options string, s statement) (plan, string) {
	t.Helper()
	var text string
	require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN ("+options+"FORMAT JSON) "+s.sql, s.args...).Scan(&text))
	var plans []struct{ Plan plan }
	require.NoError(t, json.Unmarshal([]byte(text), &plans))
	return plans[0].Plan, text
}

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

// The statistics are from a moment at which nothing was in flight, as they usually
// are, and the table is small enough to be tempting.
func TestSettlingReadsNoWholeTable(t *testing.T) {
	t.Parallel()
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	_, err := pool.Exec(t.Context(), owePeople, 60_000)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "ANALYZE almanac.users, almanac.series, almanac.queue, almanac.history, almanac.keys")
	require.NoError(t, err)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	claim, err := store.Claim(t.Context(), almanac.ClaimRequest{
		Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1000, Lease: time.Minute,
	})
	require.NoError(t, err)
	settlements := make([]almanac.Settlement, len(claim.Events))
	for i, e := range claim.Events {
		settlements[i] = almanac.Settlement{Event: e, Outcome: almanac.Delivered(claim.At), User: claim.Users[e.UserID], Next: nextBirthday}
	}
	_, err = store.Settle(t.Context(), settlements)
	require.NoError(t, err)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	asked := received.last("settle_ended")
	require.NotEmpty(t, asked.sql)
	p, text := planOf(t, tx, "", asked)
	require.False(t, p.scansSequentially(), "a whole table is read:\n%s", text)
}
