package postgres_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// directPool is a pool on a database of t's own that no pooler stands in front of:
// who listens needs a session.
func directPool(t *testing.T, options ...pgtest.PoolOption) *pgxpool.Pool {
	t.Helper()
	direct := func(c *pgxpool.Config) {
		config, err := pgxpool.ParseConfig(pgtest.Direct(t, c.ConnString()))
		require.NoError(t, err)
		config.MaxConns = c.MaxConns
		*c = *config
	}
	return pgtest.Pool(t, append([]pgtest.PoolOption{direct}, options...)...)
}

// process is a scheduler that runs, and looks by itself once an hour.
type process struct {
	delivered chan almanac.Event
	log       *lines
	stop      func()
}

func startProcess(t *testing.T, store almanac.Repository) process {
	t.Helper()
	p := process{delivered: make(chan almanac.Event, 100), log: new(lines)}
	deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		p.delivered <- d.Event
		return nil
	})
	s := newScheduler(t, store, almanac.WithDeliverer(almanac.ChannelWebhook, deliver), almanac.WithPoll(time.Hour), almanac.WithSweep(time.Hour),
		almanac.WithLogger(slog.New(slog.NewTextHandler(p.log, nil))))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	p.stop = func() { cancel(); running.Wait() }
	t.Cleanup(p.stop)
	return p
}

// awaits waits for the delivery of an event.
func (p process) awaits(t *testing.T, e almanac.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	select {
	case got := <-p.delivered:
		require.Equal(t, e.ID, got.ID)
	case <-ctx.Done():
		require.Fail(t, "not delivered", "%s", p.log)
	}
}

// lines are what was logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// listening is a store that reports each hint.
type listening struct {
	*postgres.Store
	woken chan struct{}
}

func (l listening) Listen(ctx context.Context, wake func()) error {
	return l.Store.Listen(ctx, func() { wake(); l.woken <- struct{}{} })
}

func newListening(t *testing.T, pool *pgxpool.Pool, options ...postgres.Option) listening {
	t.Helper()
	store := mustStore(t, pool, options...)
	return listening{store, make(chan struct{}, 1000)}
}

// receives waits until the store has received one more hint.
func (l listening) receives(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	select {
	case <-l.woken:
	case <-ctx.Done():
		require.Fail(t, "no hint is received")
	}
}

// storeSoon stores an event that is due at the next full second.
func storeSoon(t *testing.T, pool *pgxpool.Pool) almanac.Event {
	t.Helper()
	store := mustStore(t, pool)
	now := nowOf(t, store)
	u := almanactest.User()
	_, events, err := almanactest.CreateUser(t.Context(), store, u, almanactest.Event(now, almanactest.For(u), almanactest.DueIn(1050*time.Millisecond)))
	require.NoError(t, err)
	return events[0]
}

// listeners counts the sessions that listen, after something is done to each.
func listeners(t *testing.T, pool *pgxpool.Pool, do string) (n int) {
	t.Helper()
	err := pool.QueryRow(t.Context(), "SELECT count("+do+") FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE $1",
		postgres.ListenerName+"%").Scan(&n)
	require.NoError(t, err)
	return n
}

// gate lets no listener connect while it is shut.
type gate struct{ sync.Mutex }

func (g *gate) option(c *pgxpool.Config) {
	c.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
		if strings.HasPrefix(config.RuntimeParams["application_name"], postgres.ListenerName) {
			g.Lock()
			defer g.Unlock()
		}
		return nil
	}
}

func TestAnEventStoredByAnotherProcessStartsOnTime(t *testing.T) {
	t.Parallel()
	pool := directPool(t)
	b := newListening(t, pool)
	running := startProcess(t, b)
	b.receives(t)

	for range 3 {
		running.awaits(t, storeSoon(t, pool))
	}

	running.stop()
	require.NotContains(t, running.log.String(), "level=WARN")
}

func TestAListenerReconnectsAndClaims(t *testing.T) {
	t.Parallel()
	g := new(gate)
	pool := directPool(t, g.option)
	b := newListening(t, pool)
	running := startProcess(t, b)
	b.receives(t)

	g.Lock()
	require.Equal(t, 1, listeners(t, pool, "pg_terminate_backend(pid)"))
	require.Eventually(t, func() bool { return listeners(t, pool, "*") == 0 }, 10*time.Second, 10*time.Millisecond)
	unheard := storeSoon(t, pool)
	g.Unlock()

	running.awaits(t, unheard)
	running.awaits(t, storeSoon(t, pool))
	running.stop()
	require.Equal(t, 1, strings.Count(running.log.String(), "level=WARN"), "%s", running.log)
	require.Equal(t, 1, strings.Count(running.log.String(), "received again"), "%s", running.log)
}

func TestListenNeedsAPool(t *testing.T) {
	t.Parallel()
	pool := directPool(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	for name, tt := range map[string]struct {
		db      postgres.DB
		options []postgres.Option
	}{
		"on a connection":  {conn.Conn(), nil},
		"in a transaction": {tx, nil},
		"with PollOnly":    {pool, []postgres.Option{postgres.PollOnly()}},
	} {
		store := mustStore(t, tt.db, tt.options...)

		err = store.Listen(t.Context(), func() { t.Errorf("woken %s", name) })

		require.NoError(t, err, name)
	}
	require.EqualValues(t, 1, pool.Stat().TotalConns())
}

// What a host sets for its own connections is not to harm the one that listens.
func TestAListenerUsesTheConfigOfThePool(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	pool := directPool(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = "greeter"
		c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
		c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Hour}
		}
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { asked.Add(1); return nil }
	})
	store := newListening(t, pool, postgres.Probing(100*time.Millisecond, 5*time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := store.Listen(ctx, func() { store.woken <- struct{}{} }); err != nil {
			t.Error(err)
		}
	})
	for range 3 { // again and again, since it makes sure
		store.receives(t)
	}
	require.Equal(t, 1, listeners(t, pool, "CASE application_name WHEN 'almanac listen: greeter' THEN 1 END"))
	require.EqualValues(t, 1+pool.Stat().NewConnsCount(), asked.Load())

	cancel()
	running.Wait()
	for listeners(t, pool, "*") > 0 { // until the server has noticed
	}
}

// Names of schemas may be as long as those of channels.
func TestHintsReachTheirSchemaOnly(t *testing.T) {
	t.Parallel()
	pool := directPool(t)
	long := strings.Repeat("s", 63)
	received := make(map[string]listening)
	for _, schema := range []string{long[:54] + "a", long[:54] + "b", long[:62] + "a", long[:62] + "b"} {
		require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.WithSchema(schema)))
		store := newListening(t, pool, postgres.WithSchema(schema))
		received[schema] = store
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = store.Store.Listen(ctx, func() { store.woken <- struct{}{} }) })
		t.Cleanup(func() { cancel(); running.Wait() })
		store.receives(t)
	}
	for schema, store := range received {
		now := nowOf(t, store)
		u := almanactest.User()
		_, _, err := almanactest.CreateUser(t.Context(), store, u, almanactest.Event(now, almanactest.For(u)))
		require.NoError(t, err)
		store.receives(t)
		for other, ear := range received {
			require.Empty(t, ear.woken, "%s has a hint of %s", other, schema)
		}
	}
}

// dead is a connection over which, from a moment on, nothing goes or comes.
type dead struct {
	net.Conn
	now *atomic.Bool
}

func (d dead) Read(p []byte) (int, error) {
	for {
		n, err := d.Conn.Read(p)
		if err != nil || !d.now.Load() {
			return n, err
		}
	}
}

func (d dead) Write(p []byte) (int, error) {
	if d.now.Load() {
		return len(p), nil
	}
	return d.Conn.Write(p)
}

// pooled is a connection through a pooler in transaction mode: notifications between two
// transactions are lost.
type pooled struct {
	net.Conn
	busy   atomic.Bool // from a request to the end of its answer
	answer []byte      // what came, whole messages first
	ready  int         // how much of that may be read
}

func (p *pooled) Write(request []byte) (int, error) {
	p.busy.Store(true)
	return p.Conn.Write(request)
}

func (p *pooled) Read(into []byte) (int, error) {
	for p.ready == 0 {
		chunk := make([]byte, 1<<10)
		n, err := p.Conn.Read(chunk)
		if err != nil {
			return 0, err
		}
		p.answer = append(p.answer, chunk[:n]...)
		p.sift()
	}
	n := copy(into, p.answer[:p.ready])
	p.answer, p.ready = p.answer[n:], p.ready-n
	return n, nil
}

// sift makes whole messages ready, but for notifications that come unasked.
func (p *pooled) sift() {
	for len(p.answer) >= p.ready+5 {
		message := p.answer[p.ready:]
		end := 1 + int(binary.BigEndian.Uint32(message[1:]))
		switch {
		case len(message) < end:
			return
		case message[0] == 'A' && !p.busy.Load():
			p.answer = append(p.answer[:p.ready:p.ready], message[end:]...)
			continue
		case message[0] == 'Z':
			p.busy.Store(false)
		}
		p.ready += end
	}
}

// Both are silent: nothing fails, and nothing comes.
func TestAListenerNoticesALostSession(t *testing.T) {
	t.Parallel()
	for name, behindPooler := range map[string]bool{"since its session is lent out": true, "since the line is dead": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var listens, deaf atomic.Bool
			pool := directPool(t, func(c *pgxpool.Config) {
				dial := c.ConnConfig.DialFunc
				c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := dial(ctx, network, address)
					if err != nil || !listens.Load() {
						return conn, err
					}
					if behindPooler {
						return &pooled{Conn: conn}, nil
					}
					return dead{conn, &deaf}, nil
				}
			})
			require.NoError(t, pool.Ping(t.Context()))
			listens.Store(true)
			store := newListening(t, pool, postgres.Probing(200*time.Millisecond, 500*time.Millisecond))

			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // pgx alone would take fifteen to hang up
			defer cancel()

			err := store.Store.Listen(ctx, func() { deaf.Store(true); store.woken <- struct{}{} })

			require.ErrorContains(t, err, "postgres: listen: ")
			if behindPooler {
				require.ErrorContains(t, err, "not received")
				require.Empty(t, store.woken)
				return
			}
			require.Len(t, store.woken, 1)
		})
	}
}
