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

// logical starts two servers between which a schema can move.
func logical(t *testing.T) (from, to *pgxpool.Pool) {
	t.Helper()
	var pools [2]*pgxpool.Pool
	var started sync.WaitGroup
	for i, binaries := range []pgserver.Binaries{secondBinaries(t), {}} {
		started.Go(func() {
			server, err := pgserver.Start(t.Context(), pgserver.Config{MaxConnections: 100, Binaries: binaries, Settings: map[string]string{"wal_level": "logical"}})
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
	m.from, m.to = logical(t)
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
	start := calendar.WallTimeOf(time.Now().UTC().Truncate(time.Second).Add(5 * time.Second)) // when all users are stored
	registry, err := almanac.NewRegistry(almanac.Recurring{Type: "TICK", Execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{All: true}}, Rule: func(almanac.User) (calendar.Recurrence, error) { return ticks{start}, nil }})
	require.NoError(m, err)
	s, err := almanac.NewScheduler(m.store, registry, almanac.WithPoll(200*time.Millisecond), almanac.WithSweep(500*time.Millisecond), almanac.WithLease(time.Minute),
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
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		if err := m.planner.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	require.Eventually(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.sent) > 200 }, 20*time.Second, 10*time.Millisecond)

	from, to := m.conns()
	result, err := shards.Move(t.Context(), from, to, m.options())
	require.NoError(t, err)
	require.Equal(t, shards.Done, result.Step)
	t.Logf("closed for %v", result.Closed)
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

// consume reads what a consumer has not read, up to a number of domain events, and returns their ids.
func (m *moved) consume(name string, limit int) (ids []uuid.UUID) {
	m.Helper()
	for {
		n, err := m.store.Consume(m.Context(), name, min(limit, 1000), func(_ context.Context, _ pgx.Tx, events []postgres.DomainEvent) error {
			for _, e := range events {
				ids = append(ids, e.ID)
			}
			return nil
		})
		require.NoError(m, err)
		if n == 0 || len(ids) >= limit {
			return ids
		}
	}
}

func (m *moved) user() almanac.User {
	m.Helper()
	created, err := m.planner.CreateUser(m.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"})
	require.NoError(m, err)
	return created.User
}

// Consumers of the outbox go on where they were, whatever the transaction ids of the other server are.
func TestTheOutboxGoesOnAfterAMove(t *testing.T) {
	t.Parallel()
	for name, burn := range map[string]func(m *moved) *pgxpool.Pool{
		"to lower transaction ids":   func(m *moved) *pgxpool.Pool { return m.from },
		"to greater transaction ids": func(m *moved) *pgxpool.Pool { return m.to },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := inUse(t)
			for range 3000 {
				_, err := burn(m).Exec(t.Context(), "SELECT pg_current_xact_id()")
				require.NoError(t, err)
			}
			for _, name := range []string{"all", "some", "none"} {
				require.NoError(t, m.store.CreateConsumer(t.Context(), name))
			}
			open, err := m.from.Begin(t.Context()) // whose changes come after those of later transactions
			require.NoError(t, err)
			_, err = open.Exec(t.Context(), "SELECT pg_current_xact_id()")
			require.NoError(t, err)
			for range 5 {
				m.user()
			}
			some := m.consume("some", 4)
			bound, err := postgres.New(open, postgres.WithSchema(moving))
			require.NoError(t, err)
			late, err := m.planner.With(bound).CreateUser(t.Context(),
				almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"})
			require.NoError(t, err)
			all := m.consume("all", 1000)
			require.NoError(t, open.Commit(t.Context()))
			m.user()

			from, to := m.conns()
			_, err = shards.Move(t.Context(), from, to, m.options())
			require.NoError(t, err)
			m.user()
			all, some = append(all, m.consume("all", 1000)...), append(some, m.consume("some", 1000)...)
			none := m.consume("none", 1000)
			require.NotZero(t, late.User.ID)
			require.Len(t, unique(none), len(none))
			require.GreaterOrEqual(t, len(none), 8)
			require.ElementsMatch(t, none, unique(all))
			require.ElementsMatch(t, none, unique(some))
			require.LessOrEqual(t, len(all)+len(some), 2*len(none)+4, "few are read again")
			require.Empty(t, m.consume("all", 1000))
		})
	}
}

func unique(ids []uuid.UUID) (once []uuid.UUID) {
	seen := make(map[uuid.UUID]bool)
	for _, id := range ids {
		if !seen[id] {
			once = append(once, id)
		}
		seen[id] = true
	}
	return once
}

// A move is killed before and after each of its steps, and repeated.
func TestAMoveIsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	m := inUse(t)
	for range 20 {
		m.user()
	}
	require.NoError(t, m.store.CreateConsumer(t.Context(), "all"))
	kept := m.user()
	published := 0
	for _, at := range []shards.MoveStep{shards.Prepare, shards.Copy, shards.Close, shards.Wake, shards.Publish} {
		// Killed when the step begins: the one before it is done.
		from, to := m.conns()
		ctx, kill := context.WithCancel(t.Context())
		o := m.options()
		publish := o.Publish
		o.Publish = func(ctx context.Context) error {
			published++
			return publish(ctx)
		}
		o.Progress = func(p shards.MoveProgress) {
			if p.Step == at {
				kill()
			}
		}
		result, err := shards.Move(ctx, from, to, o)
		require.ErrorIs(t, err, context.Canceled, "%s", at)
		require.Equal(t, at, result.Step)
		if at == shards.Prepare || at == shards.Copy || at == shards.Close {
			m.user() // the source takes writes
		} else {
			_, err := m.from.Exec(t.Context(), "INSERT INTO "+moving+".settings DEFAULT VALUES")
			require.ErrorContains(t, err, "does not exist")
		}
		if at != shards.Prepare && at != shards.Publish {
			_, err := m.to.Exec(t.Context(), "DELETE FROM "+moving+".users")
			require.ErrorContains(t, err, "still moving", "%s", at)
		}
	}
	from, to := m.conns()
	result, err := shards.Move(t.Context(), from, to, m.options())
	require.NoError(t, err)
	require.Equal(t, moving+"_moved", result.Kept)
	require.Zero(t, published)
	stored, err := m.store.User(t.Context(), kept.ID)
	require.NoError(t, err)
	require.Equal(t, kept, stored)
	m.user()
	require.Len(t, m.consume("all", 1000), 10)                    // five users, each with an event
	result, err = shards.Move(t.Context(), from, to, m.options()) // nothing is left to do
	require.NoError(t, err)
	require.Equal(t, shards.Done, result.Step)
	var left int
	require.NoError(t, m.from.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)").Scan(&left))
	require.Zero(t, left)
}

// A transaction that writes to the schema and does not end makes the switch let all go on, and try again.
func TestAnOpenTransactionPutsTheSwitchOff(t *testing.T) {
	t.Parallel()
	m := inUse(t)
	user := m.user()
	o := m.options()
	o.Wait = 100 * time.Millisecond
	var open pgx.Tx
	var once sync.Once
	o.Progress = func(p shards.MoveProgress) {
		if p.Step == shards.Close && open == nil {
			var err error
			open, err = m.from.Begin(t.Context())
			require.NoError(t, err)
			_, err = open.Exec(t.Context(), "UPDATE "+moving+".users SET first_name = 'Grace' WHERE id = $1", user.ID)
			require.NoError(t, err)
		}
		if p.Tries == 2 {
			m.user() // the source takes writes meanwhile
			once.Do(func() { require.NoError(t, open.Commit(t.Context())) })
		}
	}
	from, to := m.conns()
	result, err := shards.Move(t.Context(), from, to, o)
	require.NoError(t, err)
	require.Greater(t, result.Tries, 2)
	stored, err := m.store.User(t.Context(), user.ID)
	require.NoError(t, err)
	require.Equal(t, "Grace", stored.FirstName)
}

// A target that is late takes no writes until it has the last change of the source.
func TestTheTargetGetsTheLastChangeBeforeItWakes(t *testing.T) {
	t.Parallel()
	m := inUse(t)
	subscription := func(sql string) {
		t.Helper()
		_, err := m.to.Exec(t.Context(), "DO $$ BEGIN EXECUTE (SELECT format('ALTER SUBSCRIPTION %I "+sql+"', subname) FROM pg_subscription); END $$")
		require.NoError(t, err)
	}
	var last almanac.User
	late := 0
	o := m.options()
	o.Progress = func(p shards.MoveProgress) {
		switch {
		case p.Step == shards.Close && last.ID == uuid.Nil:
			subscription("DISABLE")
			last = m.user()
		case p.Step == shards.Wake && p.Behind > 0:
			if late++; late == 3 { // it has looked again
				subscription("ENABLE")
			}
		}
	}
	from, to := m.conns()
	_, err := shards.Move(t.Context(), from, to, o)
	require.NoError(t, err)
	require.GreaterOrEqual(t, late, 3)
	stored, err := m.store.User(t.Context(), last.ID)
	require.NoError(t, err)
	require.Equal(t, last, stored)
}

// Rights and triggers move too. A dry run says what is missing, and changes nothing. What a move has made can be removed before the source
// is closed.
func TestAMoveIsCheckedAndAbandoned(t *testing.T) {
	t.Parallel()
	m := inUse(t)
	m.user()
	for _, sql := range []string{
		"CREATE ROLE owner", "ALTER SCHEMA " + moving + " OWNER TO owner", "CREATE ROLE reader", "GRANT USAGE ON SCHEMA " + moving + " TO reader", "GRANT SELECT ON " + moving + ".series TO reader", "GRANT UPDATE (first_name) ON " + moving + ".users TO reader",
	} {
		_, err := m.from.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	from, to := m.conns()
	_, err := shards.Move(t.Context(), from, to, shards.MoveOptions{Schema: moving, DryRun: true})
	require.ErrorContains(t, err, "the target lacks the roles owner, reader")
	_, err = m.to.Exec(t.Context(), "CREATE ROLE owner; CREATE ROLE reader")
	require.NoError(t, err)
	result, err := shards.Move(t.Context(), from, to, shards.MoveOptions{Schema: moving, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, shards.Prepare, result.Step)

	_, err = m.from.Exec(t.Context(), "INSERT INTO "+moving+".migrations (version, name) VALUES (999, '0999_future')")
	require.NoError(t, err)
	result, err = shards.Move(t.Context(), from, to, m.options())
	require.ErrorContains(t, err, "the schema is at version 999")
	require.Equal(t, shards.Prepare, result.Step)
	_, err = m.from.Exec(t.Context(), "DELETE FROM "+moving+".migrations WHERE version = 999")
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	o := m.options()
	o.Progress = func(p shards.MoveProgress) {
		if p.Tables > 0 {
			stop()
		}
	}
	_, err = shards.Move(ctx, from, to, o)
	require.ErrorIs(t, err, context.Canceled)
	from, to = m.conns()
	require.NoError(t, shards.Abandon(t.Context(), from, to, shards.MoveOptions{Schema: moving}))
	require.NoError(t, shards.Abandon(t.Context(), from, to, shards.MoveOptions{Schema: moving}))
	var left int
	require.NoError(t, m.from.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)").Scan(&left))
	require.Zero(t, left)

	_, err = shards.Move(t.Context(), from, to, m.options())
	require.NoError(t, err)
	for _, query := range []string{
		"SELECT tableowner = 'owner' FROM pg_tables WHERE schemaname = '" + moving + "' AND tablename = 'series'",
		"SELECT has_table_privilege('reader', '" + moving + ".series', 'SELECT') AND NOT has_table_privilege('reader', '" + moving + ".series', 'UPDATE')",
		"SELECT has_column_privilege('reader', '" + moving + ".users', 'first_name', 'UPDATE') AND has_schema_privilege('reader', '" + moving + "', 'USAGE')",
	} {
		var so bool
		require.NoError(t, m.to.QueryRow(t.Context(), query).Scan(&so))
		require.True(t, so, query)
	}
	err = shards.Abandon(t.Context(), from, to, shards.MoveOptions{Schema: moving})
	require.ErrorContains(t, err, "the target takes writes")
}

// A source that is closed gets its name back when the move is abandoned before the target takes writes.
func TestAClosedSourceIsOpenedAgain(t *testing.T) {
	t.Parallel()
	m := inUse(t)
	ctx, kill := context.WithCancel(t.Context())
	o := m.options()
	o.Progress = func(p shards.MoveProgress) {
		if p.Step == shards.Wake {
			kill()
		}
	}
	from, to := m.conns()
	_, err := shards.Move(ctx, from, to, o)
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.planner.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"})
	require.ErrorContains(t, err, "does not exist")
	from, to = m.conns()
	other, _ := m.conns()
	_, err = other.Exec(t.Context(), "CREATE SCHEMA "+moving)
	require.NoError(t, err)
	_, err = shards.Move(t.Context(), from, to, m.options())
	require.ErrorContains(t, err, "and not "+moving+"_moved, which has the rows")
	_, err = other.Exec(t.Context(), "DROP SCHEMA "+moving)
	require.NoError(t, err)
	require.NoError(t, shards.Abandon(t.Context(), from, to, shards.MoveOptions{Schema: moving}))
	m.user()
	_, err = shards.Move(t.Context(), from, to, m.options())
	require.NoError(t, err)
	m.user()
}

// A source that is closed is opened again, or the target woken, only with the target for which it was closed. The source and another one would
// both take writes otherwise.
func TestAClosedSourceKnowsItsTarget(t *testing.T) {
	t.Parallel()
	m := inUse(t)
	_, err := m.to.Exec(t.Context(), "CREATE DATABASE other")
	require.NoError(t, err)
	wrong := func() *pgx.Conn {
		config := m.to.Config().ConnConfig.Copy()
		config.Database = "other"
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}()
	abandon := func(from *pgx.Conn) error {
		return shards.Abandon(t.Context(), from, wrong, shards.MoveOptions{Schema: moving})
	}
	for _, at := range []shards.MoveStep{shards.Wake, shards.Publish} {
		ctx, kill := context.WithCancel(t.Context())
		o := m.options()
		o.Progress = func(p shards.MoveProgress) {
			if p.Step == at {
				kill()
			}
		}
		from, to := m.conns()
		_, err := shards.Move(ctx, from, to, o)
		require.ErrorIs(t, err, context.Canceled)
		from, _ = m.conns()
		require.ErrorContains(t, abandon(from), "the source was closed for another target", "%s", at)
	}
	_, err = wrong.Exec(t.Context(), "CREATE SCHEMA "+moving) // takes writes
	require.NoError(t, err)
	from, to := m.conns()
	_, err = shards.Move(t.Context(), from, wrong, m.options())
	require.ErrorContains(t, err, "the source was closed for another target")
	_, err = shards.Move(t.Context(), from, to, m.options())
	require.NoError(t, err)
	_, err = wrong.Exec(t.Context(), "DROP SCHEMA "+moving)
	require.NoError(t, err)
	require.ErrorContains(t, abandon(from), "the move has ended")
	var open bool
	require.NoError(t, m.from.QueryRow(t.Context(), "SELECT to_regnamespace($1) IS NOT NULL", moving).Scan(&open))
	require.False(t, open)
}

// A step that is done counts, also if the catalogs cannot be read after it.
func TestAMoveWithoutItsTargetSaysWhichStepIsNext(t *testing.T) {
	t.Parallel()
	m := inUse(t)
	from, to := m.conns()
	o := m.options()
	o.Progress = func(p shards.MoveProgress) {
		if p.Step == shards.Close {
			_ = to.Close(t.Context())
		}
	}
	result, err := shards.Move(t.Context(), from, to, o)
	require.Error(t, err)
	require.Equal(t, shards.Wake, result.Step)
	require.Equal(t, moving+"_moved", result.Kept)
}

// Wrong options are named, each.
func TestAMoveRefusesWrongOptions(t *testing.T) {
	t.Parallel()
	_, err := shards.Move(t.Context(), nil, nil, shards.MoveOptions{Wait: time.Millisecond})
	require.ErrorIs(t, err, almanac.ErrInvalid)
	require.ErrorContains(t, err, "schema does not have 1 to 50 bytes; source is empty; publish is nil; wait is less than 10 ms")
}
