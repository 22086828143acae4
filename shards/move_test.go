package shards_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/shards"
)

const moving = "almanac_07"

// servers starts two servers.
func servers(t *testing.T) (from, to *pgxpool.Pool) {
	t.Helper()
	var pools [2]*pgxpool.Pool
	var started sync.WaitGroup
	for i := range pools {
		started.Go(func() {
			server, err := pgserver.Start(t.Context(), pgserver.Config{MaxConnections: 100, Settings: map[string]string{"wal_level": "logical"}})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = server.Stop(context.Background()) })
			pools[i], err = pgxpool.New(t.Context(), server.URL())
			if err != nil {
				t.Error(err)
			}
			t.Cleanup(func() { pools[i].Close() })
		})
	}
	started.Wait()
	require.False(t, t.Failed())
	return pools[0], pools[1]
}

// place is where the schema is, for programs.
type place struct{ atomic.Pointer[pgxpool.Pool] }

func (p *place) Begin(ctx context.Context) (pgx.Tx, error) { return p.Load().Begin(ctx) }
func (p *place) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	return p.Load().BeginTx(ctx, o)
}
func (p *place) Acquire(ctx context.Context) (*pgxpool.Conn, error) { return p.Load().Acquire(ctx) }
func (p *place) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.Load().Exec(ctx, sql, args...)
}
func (p *place) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.Load().Query(ctx, sql, args...)
}
func (p *place) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return p.Load().SendBatch(ctx, b)
}

// ticks is due each second, thirty times.
type ticks struct{ start calendar.WallTime }

func (t ticks) After(w calendar.WallTime, _ calendar.Policies) (calendar.Slot, error) {
	n := 0
	if !w.Before(t.start) {
		n = int(w.Labelled().Sub(t.start.Labelled())/time.Second) + 1
	}
	if n >= 30 {
		return calendar.Slot{}, calendar.ErrNoOccurrence
	}
	at := calendar.WallTimeOf(t.start.Labelled().Add(time.Duration(n) * time.Second))
	return calendar.Slot{Key: at.String(), Wall: at}, nil
}

// moved is a schema that programs use while it moves.
type moved struct {
	*testing.T
	from, to *pgxpool.Pool
	place    *place
	store    *postgres.Store
	mu       sync.Mutex
	sent     map[string]int // by idempotency key
	planner  almanac.Scheduler
}

func inUse(t *testing.T) *moved {
	t.Helper()
	m := &moved{T: t, place: new(place), sent: make(map[string]int)}
	m.from, m.to = servers(t)
	m.place.Store(m.from)
	require.NoError(t, postgres.Migrate(t.Context(), m.from, postgres.WithSchema(moving)))
	require.NoError(t, postgres.EnableOutbox(t.Context(), m.from, postgres.WithSchema(moving)))
	var err error
	m.store, err = postgres.New(m.place, postgres.WithSchema(moving), postgres.WithTimeout(5*time.Second), postgres.PollOnly())
	require.NoError(t, err)
	m.planner = m.program()
	return m
}

// program returns a scheduler that delivers to the test.
func (m *moved) program() almanac.Scheduler {
	m.Helper()
	start := calendar.WallTimeOf(time.Now().UTC().Truncate(time.Second).Add(time.Second))
	registry, err := almanac.NewRegistry(almanac.Recurring{Type: "TICK", Rule: func(almanac.User) (calendar.Recurrence, error) { return ticks{start}, nil }})
	require.NoError(m, err)
	s, err := almanac.NewScheduler(m.store, registry, almanac.WithPoll(200*time.Millisecond), almanac.WithSweep(500*time.Millisecond), almanac.WithLease(10*time.Second),
		almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.sent[string(d.Event.IdempotencyKey)]++
			return nil
		})))
	require.NoError(m, err)
	return s
}

// conns returns connections for a move.
func (m *moved) conns() (from, to *pgx.Conn) {
	m.Helper()
	var conns []*pgx.Conn
	for _, pool := range []*pgxpool.Pool{m.from, m.to} {
		conn, err := pgx.ConnectConfig(m.Context(), pool.Config().ConnConfig)
		require.NoError(m, err)
		m.Cleanup(func() { _ = conn.Close(context.Background()) })
		conns = append(conns, conn)
	}
	return conns[0], conns[1]
}

func (m *moved) options() shards.MoveOptions {
	return shards.MoveOptions{
		Schema: moving, Source: m.from.Config().ConnString(),
		Publish: func(context.Context) error {
			m.place.Store(m.to)
			return nil
		},
		Progress: func(p shards.MoveProgress) { m.Logf("%+v", p) },
	}
}

// A schema moves while a program delivers its events and another one edits its users. Nothing is lost, and nothing comes twice.
func TestASchemaMovesWhileProgramsUseIt(t *testing.T) {
	t.Parallel()
	m := inUse(t)
	profiles := func(yield func(almanac.Profile, error) bool) {
		for range 200 {
			if !yield(almanac.Profile{ID: uuid.New(), FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"}, nil) {
				return
			}
		}
	}
	created, err := m.planner.CreateUsers(t.Context(), profiles, almanac.CreateUsersOptions{})
	require.NoError(t, err)
	require.Equal(t, 200, created.Created, "%v", created.Refused)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, m.planner.Run(ctx)) })
	require.Eventually(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.sent) > 200 }, 20*time.Second, 10*time.Millisecond)

	from, to := m.conns()
	result, err := shards.Move(t.Context(), from, to, m.options())
	require.NoError(t, err)
	require.Equal(t, shards.Done, result.Step)
	t.Logf("closed for %v", result.Closed)
	require.Less(t, result.Closed, 2*time.Second)
	require.Eventually(t, func() bool {
		n, err := m.store.Count(t.Context(), almanac.InStatus(almanac.Completed))
		return err == nil && n == 200*30
	}, 60*time.Second, 100*time.Millisecond)
	stop()
	running.Wait()
	require.Len(t, m.sent, 200*30)
	for key, times := range m.sent {
		require.Equal(t, 1, times, key)
	}
	differences, err := m.store.Examine(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
}
