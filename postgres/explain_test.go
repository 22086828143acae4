package postgres_test

import (
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

// A hundred thousand people, each with nine finished birthdays and one to come. A
// thousand of those to come are overdue, one in a hundred of the finished failed.
const millionRows = `
	INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone)
	SELECT md5(u::text)::uuid, 'Ada', 'Lovelace', '1990-01-01', 'UTC' FROM generate_series(1, 100000) u;

	WITH owed AS (
		SELECT (lpad(to_hex((1500000000::bigint + 10 * 31536000 + u) * 1000), 12, '0') || '7' || substr(md5(u::text), 1, 3) || '8' || substr(md5((u * 10 + 10)::text), 1, 15))::uuid AS id,
			md5(u::text)::uuid AS user_id, '2027' AS occurrence_key,
			CASE WHEN u > 1000 THEN now() + u * interval '5 minutes' ELSE now() - u * interval '1 minute' END AS due, 'UTC' AS zone, 'event-' || u || '-10' AS key
		FROM generate_series(1, 100000) u
	)` + storeOwed + `;

	WITH ended AS (
		INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local,
			target_timezone, policies, idempotency_key, delivery_payload, user_version, lease_token, executed_at, failure_reason, retry_count,
			claim_count, crash_count, version, created_at, updated_at)
		SELECT (lpad(to_hex((1500000000::bigint + y * 31536000 + u) * 1000), 12, '0') || '7' || substr(md5(u::text), 1, 3) || '8' || substr(md5((u * 10 + y)::text), 1, 15))::uuid,
			md5(u::text)::uuid, 'BIRTHDAY', (2017 + y)::text, CASE WHEN u % 100 = y THEN 'FAILED' ELSE 'COMPLETED' END,
			due, due, 'UTC', 'forward,first,feb28,clamp', 'event-' || u || '-' || y, '{"message": "Hey"}', 1, md5('token')::uuid,
			CASE WHEN u % 100 <> y THEN due END, CASE WHEN u % 100 = y THEN 'HTTP 404' END, 0, 1, 0, 3, due, due
		FROM generate_series(1, 9) y, generate_series(1, 100000) u,
			LATERAL (SELECT now() - u * interval '1 minute' - (10 - y) * interval '1 year') d (due)
		RETURNING idempotency_key
	)
	INSERT INTO almanac.keys (idempotency_key) SELECT idempotency_key FROM ended;

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
	if strings.Contains(data.SQL, "almanac") {
		r.asked = append(r.asked, statement{data.SQL, data.Args})
	}
	return ctx
}

// last returns the last statement that begins with a text.
func (r *recorder) last(text string) statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slices.Backward(r.asked) {
		if strings.HasPrefix(s.sql, text) {
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

// scansSequentially reports whether a whole table is read that grows.
func (p plan) scansSequentially() bool {
	if p.NodeType == "Seq Scan" && p.Relation != "leases" && p.Relation != "pauses" && p.Relation != "pruning" {
		return true
	}
	for _, child := range p.Plans {
		if child.scansSequentially() {
			return true
		}
	}
	return false
}

// explain has a store ask, hears how it does, undoes that, and runs the same
// statement once more under EXPLAIN.
func explain(t *testing.T, pool *pgxpool.Pool, r *recorder, ask func(*postgres.Store) error) (plan, string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	point, err := tx.Begin(t.Context())
	require.NoError(t, err)
	store, err := postgres.New(point)
	require.NoError(t, err)
	require.NoError(t, ask(store))
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
	heard := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = heard })
	_, err := pool.Exec(t.Context(), millionRows)
	require.NoError(t, err)
	types := []string{almanac.TypeBirthday}
	someone := uuid.MustParse("c4ca4238-a0b9-2382-0dcc-509a6f75849b") // md5('1')
	find := func(spec almanac.Spec) func(*postgres.Store) error {
		return func(s *postgres.Store) error { _, err := s.Find(t.Context(), spec, almanac.Page{}); return err }
	}

	queries := map[string]struct {
		ask    func(*postgres.Store) error
		blocks int // of 8 KiB, touched at most; the table has some 40,000
	}{
		"ready to claim": {func(s *postgres.Store) error {
			_, err := s.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: types, Limit: 100, Lease: time.Minute})
			return err
		}, 6000},
		"next due":             {func(s *postgres.Store) error { _, _, err := s.Until(t.Context(), types, time.Time{}); return err }, 50},
		"missed":               {func(s *postgres.Store) error { _, err := s.Missed(t.Context(), types, time.Second); return err }, 6000},
		"by user":              {find(almanac.ForUser(someone)), 50},
		"pending":              {find(almanac.InStatus(almanac.Pending)), 300},
		"processing":           {find(almanac.InStatus(almanac.Processing)), 1000},
		"completed":            {find(almanac.InStatus(almanac.Completed)), 300},
		"failed":               {find(almanac.InStatus(almanac.Failed)), 300},
		"failed, of one type":  {find(almanac.And{almanac.InStatus(almanac.Failed), almanac.OfType("BIRTHDAY")}), 300},
		"pending, of one user": {find(almanac.And{almanac.InStatus(almanac.Pending), almanac.ForUser(someone)}), 50},
		"pending, in a zone":   {find(almanac.And{almanac.InStatus(almanac.Pending), almanac.InZone{"UTC"}}), 300},
		"a page to prune": {func(s *postgres.Store) error {
			_, err := s.Prune(t.Context(), time.Now(), almanac.Page{Limit: 1000})
			return err
		}, 60_000},
		"other instants": {func(s *postgres.Store) error {
			found, err := s.Find(t.Context(), almanac.InStatus(almanac.Pending), almanac.Page{Limit: 1000})
			if err != nil {
				return err
			}
			for i := range found.Events {
				found.Events[i].Version++
			}
			_, err = s.MoveEvents(t.Context(), found.Events)
			return err
		}, 60_000},
		"all, from the beginning": {find(almanac.And{}), 300},
	}
	for name, query := range queries {
		t.Run(name, func(t *testing.T) {
			p, text := explain(t, pool, heard, query.ask)

			require.False(t, p.scansSequentially(), "a whole table is read:\n%s", text)
			require.LessOrEqual(t, p.Hit+p.Read, query.blocks, "too much of the table is touched:\n%s", text)
		})
	}
	t.Run("a page to backfill", func(t *testing.T) { requireBulkReadsNoWholeTable(t, pool, heard) })
}

// The statistics are from a moment at which nothing was in flight, as they usually
// are, and the table is small enough to be tempting.
func TestSettlingReadsNoWholeTable(t *testing.T) {
	t.Parallel()
	heard := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = heard })
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
	asked := heard.last("WITH n AS")
	require.NotEmpty(t, asked.sql)
	p, text := planOf(t, tx, "", asked)
	require.False(t, p.scansSequentially(), "a whole table is read:\n%s", text)
}
