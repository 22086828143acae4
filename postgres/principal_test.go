package postgres_test

import (
	"context"
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
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// askedBy returns "kind by principal" for each step of a trail.
func askedBy(t *testing.T, store *postgres.Store, id uuid.UUID) (steps []string) {
	t.Helper()
	trail, err := store.Audit(t.Context(), id)
	require.NoError(t, err)
	for _, step := range trail {
		steps = append(steps, step.Kind+" by "+step.Principal)
	}
	return steps
}

// as returns the context of a change that a principal asks for.
func as(t *testing.T, name string) context.Context {
	t.Helper()
	return almanac.WithPrincipal(t.Context(), name)
}

func TestTheTrailNamesWhoAskedForAStep(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	store := mustStore(t, pool)
	scheduler := newScheduler(t, store)
	created, err := scheduler.CreateUser(as(t, "creator"), ada)
	require.NoError(t, err)
	e := created.Events[0]
	zone := "Pacific/Kiritimati"
	_, err = scheduler.UpdateUser(as(t, "mover"), e.UserID, almanac.ProfileChange{Timezone: &zone})
	require.NoError(t, err)
	_, err = scheduler.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{Timezone: &ada.Timezone})
	require.NoError(t, err)
	_, err = scheduler.RunNow(as(t, "runner"), e.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	claim, err := store.Claim(as(t, "claimer"), almanac.ClaimRequest{Token: uuid.New(), Types: []string{e.Type}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)
	settled, err := store.Settle(as(t, "settler"), []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.GaveUp("HTTP 410")}})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	again, err := scheduler.Requeue(as(t, "requeuer"), e.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	_, err = ops.Operate(as(t, "canceller"), scheduler, ops.Cancel, almanac.ForUser(e.UserID), ops.OperateOptions{})
	require.NoError(t, err)
	_, err = scheduler.OptOut(as(t, "refuser"), e.UserID, almanac.OptOut{Type: e.Type})
	require.NoError(t, err)
	_, err = scheduler.OptIn(t.Context(), e.UserID, almanac.OptOut{Type: e.Type})
	require.NoError(t, err)

	require.Equal(t, []string{"created by creator", "rescheduled by mover", "rescheduled by ", "rescheduled by runner", "claimed by claimer", "failed by settler"},
		askedBy(t, store, e.ID))
	require.Equal(t, []string{"created by requeuer", "cancelled by canceller"}, askedBy(t, store, again.ID))
	require.Equal(t, []string{"opt_outs_changed by refuser", "opt_outs_changed by "}, askedBy(t, store, e.UserID))
}

// Whatever a principal looks like, the step is stored, with the name as the program has it.
func TestAnyPrincipalIsStored(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	store := mustStore(t, pool)
	for _, name := range []string{"'; DROP TABLE users; --", `\`, "$1", "a\nb", "\x00\xff", "🎂", strings.Repeat("é", 150), strings.Repeat("x", 1000)} {
		ctx := as(t, name)
		created, err := newScheduler(t, store).CreateUser(ctx, ada)
		require.NoError(t, err)
		require.Equal(t, []string{"created by " + almanac.Principal(ctx)}, askedBy(t, store, created.Events[0].ID))
	}
}

// A session serves other requests after the transaction.
func TestAPrincipalEndsWithItsTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.MaxConns(1))
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	store := mustStore(t, pool)
	e := overdue(t, store)
	_, err := newScheduler(t, store).CreateUser(as(t, "grace"), ada)
	require.NoError(t, err)
	_, err = newScheduler(t, store).UpdateUser(as(t, "grace"), uuid.New(), almanac.ProfileChange{})
	require.ErrorIs(t, err, almanac.ErrNotFound)
	none, err := store.Claim(as(t, "grace"), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"OTHER"}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Empty(t, none.Events)

	require.Equal(t, e.ID, claimOne(t, store).ID)

	require.Equal(t, []string{"created by ", "rescheduled by ", "claimed by "}, askedBy(t, store, e.ID))
}

// hosts begin a transaction of a host, and return a store in it and what runs and ends it.
var hosts = map[string]func(t *testing.T, pool *pgxpool.Pool) (store *postgres.Store, exec func(sql string), commit func()){
	"pgx": func(t *testing.T, pool *pgxpool.Pool) (*postgres.Store, func(string), func()) {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		exec := func(sql string) {
			_, err := tx.Exec(t.Context(), sql)
			require.NoError(t, err)
		}
		return mustStore(t, tx), exec, func() { require.NoError(t, tx.Commit(t.Context())) }
	},
	"database/sql": func(t *testing.T, pool *pgxpool.Pool) (*postgres.Store, func(string), func()) {
		t.Helper()
		tx, _ := newSQLHostOn(t, pool).begin()
		exec := func(sql string) {
			_, err := tx.ExecContext(t.Context(), sql)
			require.NoError(t, err)
		}
		return bindSQL(t, tx), exec, func() { require.NoError(t, tx.Commit()) }
	},
}

func TestAPrincipalEndsWithItsOperationInTheHostsTransaction(t *testing.T) {
	t.Parallel()
	for name, begin := range hosts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			require.NoError(t, postgres.EnableAudit(t.Context(), pool))
			store, exec, commit := begin(t, pool)
			scheduler := newScheduler(t, store)
			create := func(ctx context.Context) uuid.UUID {
				created, err := scheduler.CreateUser(ctx, ada)
				require.NoError(t, err)
				return created.Events[0].ID
			}
			var events []uuid.UUID
			events = append(events, create(as(t, "grace")), create(t.Context()))
			_, err := scheduler.UpdateUser(as(t, "grace"), uuid.New(), almanac.ProfileChange{})
			require.ErrorIs(t, err, almanac.ErrNotFound)
			events = append(events, create(t.Context()))
			exec("SET LOCAL almanac.principal = 'the host'")
			events = append(events, create(t.Context()), create(as(t, "grace")), create(t.Context()))
			_, err = scheduler.UpdateUser(as(t, "grace"), uuid.New(), almanac.ProfileChange{})
			require.ErrorIs(t, err, almanac.ErrNotFound)
			events = append(events, create(t.Context()))
			commit()

			var asked []string
			for _, id := range events {
				asked = append(asked, askedBy(t, mustStore(t, pool), id)...)
			}
			require.Equal(t, []string{
				"created by grace", "created by ", "created by ", "created by the host", "created by grace", "created by the host", "created by the host",
			}, asked)
		})
	}
}

// speech is a pgx tracer that keeps the statements.
type speech struct {
	mu   sync.Mutex
	said []string
}

func (s *speech) say(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, sql)
}

func (s *speech) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.say(d.SQL)
	return ctx
}

func (s *speech) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *speech) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	for _, q := range d.Batch.QueuedQueries {
		s.say(q.SQL)
	}
	return ctx
}

func (s *speech) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (s *speech) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestWithoutAPrincipalNothingIsSent(t *testing.T) {
	t.Parallel()
	received := &speech{}
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	named := func() (n int) {
		received.mu.Lock()
		defer received.mu.Unlock()
		for _, sql := range received.said {
			if strings.Contains(sql, "almanac.principal") {
				n++
			}
		}
		return n
	}
	work(t, mustStore(t, pool))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	work(t, mustStore(t, tx))
	require.NoError(t, tx.Commit(t.Context()))
	require.Zero(t, named())

	_, err = newScheduler(t, mustStore(t, pool)).CreateUser(as(t, "grace"), ada)
	require.NoError(t, err)
	require.NotZero(t, named(), "with a principal it is")
}

// The length of a setting has no limit, and a step must not fail because of it.
func TestASettingOfTheHostIsCut(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT set_config('almanac.principal', repeat('é', 300), true)")
	require.NoError(t, err)
	created, err := newScheduler(t, mustStore(t, tx)).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{"created by " + strings.Repeat("é", 200)}, askedBy(t, mustStore(t, pool), created.Events[0].ID))
}
