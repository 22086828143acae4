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
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

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
	if p.NodeType == "Seq Scan" && p.Relation != "leases" && p.Relation != "lanes" && p.Relation != "lane_states" && p.Relation != "lane_clock" && p.Relation != "visits" && p.Relation != "settings" && p.Relation != "pruning" {
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

// A new release of a calendar reads the events that looked at it, however many others there are.
func TestConsultedCalendarsAreReadFromTheirIndex(t *testing.T) {
	t.Parallel()
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	_, err := pool.Exec(t.Context(), owePeople, 60_000)
	require.NoError(t, err)
	looked := calendar.Consulted{Calendars: "DE-BY@2026-11-02", From: calendar.Date{Year: 2026, Month: 11, Day: 28}, Until: calendar.Date{Year: 2026, Month: 12, Day: 28}}
	other := looked
	other.Calendars = "DE-BE@2026-11-02"
	_, err = pool.Exec(t.Context(), "ALTER TABLE almanac.queue DISABLE TRIGGER queue_guard")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "UPDATE almanac.queue SET consulted = CASE series_id % 3 WHEN 0 THEN $1 WHEN 1 THEN $2 ELSE 'DE-BY@2026-11-03 ' || (DATE '2026-11-28' + series_id::int % 5000) || ' ' || (DATE '2026-11-28' + series_id::int % 5000) END",
		looked.String(), other.String())
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "VACUUM ANALYZE almanac.users, almanac.series, almanac.queue")
	require.NoError(t, err)
	for name, query := range map[string]served{
		"the texts": {func(ctx context.Context, s *postgres.Store) error {
			list, err := s.Consulted(ctx, almanac.TypeBirthday, map[string]string{"DE-BY": "2026-11-03", "DE-BE": "2026-11-03"})
			require.Equal(t, []calendar.Consulted{other, looked}, list)
			return err
		}, 60, nil, 0},
		"5,000 texts of an earlier release": {func(ctx context.Context, s *postgres.Store) error {
			list, err := s.Consulted(ctx, almanac.TypeBirthday, map[string]string{"DE-BY": "2026-11-04"})
			require.Greater(t, len(list), 1000)
			return err
		}, 25_000, nil, 0},
		"a page of events": {func(ctx context.Context, s *postgres.Store) error {
			found, err := s.FindConsulted(ctx, almanac.TypeBirthday, looked, almanac.Page{Limit: 100})
			require.Len(t, found.Items, 100)
			return err
		}, 2000, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, text := explain(t, pool, received, func(s *postgres.Store) error { return query.ask(t.Context(), s) })

			require.True(t, p.uses("queue_consulted"), "the index is not used:\n%s", text)
			require.False(t, p.scansSequentially(), "a whole table is read:\n%s", text)
			require.LessOrEqual(t, p.Hit+p.Read, query.blocks, "too much is touched:\n%s", text)
			require.LessOrEqual(t, p.removed(), 10, "rows are read for nothing:\n%s", text)
		})
	}
}
