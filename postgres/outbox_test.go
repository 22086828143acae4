package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// withOutbox returns a store whose outbox is on, with consumers.
func withOutbox(t *testing.T, consumers ...string) (*pgxpool.Pool, *postgres.Store) {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.MaxConns(8))
	store := mustStore(t, pool)
	for _, name := range consumers {
		require.NoError(t, store.CreateConsumer(t.Context(), name))
	}
	require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
	return pool, store
}

// consume reads all that a consumer has not read, in pages.
func consume(t *testing.T, store *postgres.Store, consumer string, page int) (events []postgres.DomainEvent) {
	t.Helper()
	for {
		n, err := store.Consume(t.Context(), consumer, page, func(_ context.Context, _ pgx.Tx, read []postgres.DomainEvent) error {
			events = append(events, read...)
			return nil
		})
		require.NoError(t, err)
		if n == 0 {
			return events
		}
	}
}

// said returns what happened to whom, in order; a name stands for an id.
func said(events []postgres.DomainEvent, names map[uuid.UUID]string) (lines []string) {
	for _, e := range events {
		id := e.UserID
		if e.EventID != uuid.Nil {
			id = e.EventID
		}
		lines = append(lines, fmt.Sprintf("%s %s %d", e.Kind, names[id], e.Version))
	}
	return lines
}

// settleOne claims the event that is due and stores an outcome, with a successor if its key
// is given. The successor is overdue by more than a transaction lasts: in one, a claim goes by its begin.
func settleOne(t *testing.T, store *postgres.Store, o almanac.Outcome, successor string) almanac.SettleResult {
	t.Helper()
	s := almanac.Settlement{Event: claimOne(t, store), Outcome: o}
	if successor != "" {
		s.Next = func(u almanac.User, now time.Time) (almanac.Event, error) {
			return almanactest.Event(now, almanactest.For(u), almanactest.Of(successor), almanactest.DueIn(-30*time.Second)), nil
		}
	}
	settled, err := store.Settle(t.Context(), []almanac.Settlement{s})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	return settled[0]
}

func TestTheOutboxContainsEveryDomainEventInOrder(t *testing.T) {
	t.Parallel()
	pool, store := withOutbox(t, "billing")
	require.NoError(t, postgres.EnableOutbox(t.Context(), pool), "a second time")
	scheduler := newScheduler(t, store)

	first := overdue(t, store)
	zone, name, born := "Pacific/Kiritimati", "Augusta", "1991-01-02"
	second := settleOne(t, store, almanac.Delivered(time.Now()), "2900").Successor
	settleOne(t, store, almanac.Released(almanac.AfterFailure, "HTTP 503", 0), "")
	third := settleOne(t, store, almanac.GaveUp("HTTP 410"), "2901").Successor
	_, err := scheduler.Cancel(t.Context(), third.ID, almanac.CancelOptions{EndSeries: true})
	require.NoError(t, err)
	again, err := scheduler.Requeue(t.Context(), third.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	settleOne(t, store, almanac.Delivered(time.Now()), "")
	_, err = scheduler.UpdateUser(t.Context(), first.UserID, almanac.ProfileChange{FirstName: &name})
	require.NoError(t, err)
	_, err = scheduler.UpdateUser(t.Context(), first.UserID, almanac.ProfileChange{Timezone: &zone, DateOfBirth: &born})
	require.NoError(t, err)
	_, err = scheduler.DeleteUser(t.Context(), first.UserID, almanac.DeleteOptions{AtOnce: true})
	require.NoError(t, err)

	events := consume(t, store, "billing", 100)
	names := map[uuid.UUID]string{first.UserID: "ada", first.ID: "first", second.ID: "second", third.ID: "third", again.ID: "again"}
	require.Equal(t, []string{
		"user_created ada 1", "event_created first 1",
		"event_completed first 4", "event_created second 1",
		"event_failed second 5", "event_created third 1",
		"event_cancelled third 2", "event_created again 1", "event_completed again 3",
		"event_created  1", // of the edit, which finds no event of the user
		"user_timezone_changed ada 3", "user_birthday_changed ada 3", "user_deleted ada 3",
	}, said(events, names))
	for _, e := range events {
		require.Equal(t, first.UserID, e.UserID)
		require.Equal(t, strings.HasPrefix(string(e.Kind), "event_"), e.EventType == almanac.TypeBirthday)
		require.WithinDuration(t, time.Now(), e.At, time.Minute)
		require.NotEqual(t, uuid.Nil, e.ID)
	}
}

// A consumer that reads late finds only the last zone in the user.
func TestAMoveNamesTheOldAndTheNewZone(t *testing.T) {
	t.Parallel()
	_, store := withOutbox(t, "billing")
	scheduler := newScheduler(t, store)
	e := overdue(t, store)
	u, err := store.User(t.Context(), e.UserID)
	require.NoError(t, err)
	for _, zone := range []string{"Asia/Tokyo", "Europe/Oslo"} {
		_, err := scheduler.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{Timezone: &zone})
		require.NoError(t, err)
	}
	var moves []string
	for _, d := range consume(t, store, "billing", 1) {
		if d.Kind == postgres.UserTimezoneChanged {
			moves = append(moves, d.OldTimezone+" to "+d.NewTimezone)
		} else {
			require.Empty(t, d.OldTimezone+d.NewTimezone, d.Kind)
		}
	}
	require.Equal(t, []string{u.Timezone.String() + " to Asia/Tokyo", "Asia/Tokyo to Europe/Oslo"}, moves)
}

// A user who is deleted while an event of theirs is in flight is deleted for others at
// once, and no second time when nothing is left of them.
func TestTheOutboxContainsADeletionOnce(t *testing.T) {
	t.Parallel()
	_, store := withOutbox(t, "billing")
	e := overdue(t, store)
	held := claimOne(t, store)
	consume(t, store, "billing", 100)

	_, err := store.DeleteUser(t.Context(), e.UserID, almanac.DeleteOptions{})
	require.NoError(t, err)
	settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: held, Outcome: almanac.Delivered(time.Now())}})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	names := map[uuid.UUID]string{e.UserID: "ada", e.ID: "first"}
	require.Equal(t, []string{"user_deleted ada 2", "event_completed first 4"}, said(consume(t, store, "billing", 100), names))
	require.Eventually(t, func() bool {
		_, err := store.ReleaseExpired(t.Context(), 10, 1000) // which also removes hidden users
		require.NoError(t, err)
		return !exists(t, store, e.UserID)
	}, 10*time.Second, 10*time.Millisecond)
	require.Empty(t, consume(t, store, "billing", 100))
}

func exists(t *testing.T, store *postgres.Store, user uuid.UUID) bool {
	t.Helper()
	_, err := store.User(t.Context(), user)
	return !errors.Is(err, almanac.ErrNotFound)
}

func TestTheOutboxIsPartOfTheHostsTransaction(t *testing.T) {
	t.Parallel()
	pool, store := withOutbox(t, "billing")
	for name, end := range map[string]func(pgx.Tx, context.Context) error{"rollback": pgx.Tx.Rollback, "commit": pgx.Tx.Commit} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		bound := mustStore(t, tx)
		_, err = newScheduler(t, bound).CreateUser(t.Context(), ada)
		require.NoError(t, err)
		require.Empty(t, consume(t, store, "billing", 100), "before the %s", name)
		require.NoError(t, end(tx, t.Context()))
		require.Len(t, consume(t, store, "billing", 100), map[string]int{"rollback": 0, "commit": 2}[name], name)
	}
}

// work is what a host does on a store, from the first user to the last.
func work(t *testing.T, store *postgres.Store) {
	t.Helper()
	scheduler := newScheduler(t, store)
	zone := "Pacific/Kiritimati"
	for i := range 3 {
		e := overdue(t, store)
		settleOne(t, store, almanac.Delivered(time.Now()), fmt.Sprint(2900+i))
		last := settleOne(t, store, almanac.GaveUp("HTTP 410"), "3000").Successor
		_, err := scheduler.Cancel(t.Context(), last.ID, almanac.CancelOptions{EndSeries: true})
		require.NoError(t, err)
		_, err = scheduler.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{Timezone: &zone})
		require.NoError(t, err)
	}
}

// counter is a pgx tracer that counts statements.
type counter struct{ statements int }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements++
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	c.statements += d.Batch.Len()
	return ctx
}
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// While the outbox is off, the same work takes as many statements and writes as many rows
// as in a database that has no outbox.
func TestTheOutboxCostsNothingWhileItIsOff(t *testing.T) {
	t.Parallel()
	measure := func(prepare func(pool *pgxpool.Pool)) (statements int, writes map[string]int) {
		counted := &counter{}
		pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = counted })
		prepare(pool)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		store := mustStore(t, tx)
		written := func(sign int) {
			rows, err := tx.Query(t.Context(), `SELECT relname::text, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_xact_user_tables
				WHERE schemaname = 'almanac' AND n_tup_ins + n_tup_upd + n_tup_del > 0`)
			require.NoError(t, err)
			var table string
			var n int
			_, err = pgx.ForEachRow(rows, []any{&table, &n}, func() error { writes[table] += sign * n; return nil })
			require.NoError(t, err)
		}
		writes = map[string]int{}
		written(-1) // of what the session did before, some is not yet passed on
		counted.statements = 0
		work(t, store)
		statements = counted.statements
		written(+1)
		maps.DeleteFunc(writes, func(_ string, n int) bool { return n == 0 })
		return statements, writes
	}
	// As if there were no outbox at all.
	without := func(pool *pgxpool.Pool) {
		_, err := pool.Exec(t.Context(), `DROP TABLE almanac.outbox, almanac.outbox_consumers`)
		require.NoError(t, err)
	}
	// A slow moment can cost a statement more on either side. What an outbox costs, it costs each
	// time, so the fewest of each side are compared.
	const attempts = 10
	for name, tt := range map[string]struct {
		prepare func(*pgxpool.Pool)
		rows    int // of the outbox
	}{
		"never on": {func(*pgxpool.Pool) {}, 0},
		"off again": {func(pool *pgxpool.Pool) {
			require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
			require.NoError(t, postgres.DisableOutbox(t.Context(), pool))
		}, 0},
		"on, by triggers": {func(pool *pgxpool.Pool) { require.NoError(t, postgres.EnableOutbox(t.Context(), pool)) }, 27},
	} {
		wantStatements, statements := math.MaxInt, math.MaxInt
		for attempt := 1; ; attempt++ {
			n, wantWrites := measure(without)
			wantStatements = min(wantStatements, n)
			require.Greater(t, wantWrites["history"], 5)
			n, writes := measure(tt.prepare)
			statements = min(statements, n)
			rows := writes["outbox"]
			delete(writes, "outbox")
			if attempt < attempts && (statements != wantStatements || !maps.Equal(writes, wantWrites)) {
				continue
			}
			require.Equal(t, wantStatements, statements, name)
			require.Equal(t, wantWrites, writes, name)
			require.Equal(t, tt.rows, rows, name)
			break
		}
	}
}

// Programs write the outbox through triggers, which act as the owner; a relay reads it,
// and nothing else.
func TestRolesWriteTheOutboxAndTheRelayReadsIt(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	relay := c.store(t, "relay")
	require.NoError(t, relay.CreateConsumer(t.Context(), "billing"))
	require.NoError(t, postgres.EnableOutbox(t.Context(), c.pools["owner"]))
	e := overdue(t, c.store(t, "api"))
	settleOne(t, c.store(t, "worker"), almanac.Delivered(time.Now()), "2900")
	require.Len(t, consume(t, relay, "billing", 2), 4)
	n, err := relay.PruneOutbox(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	consumers, err := c.store(t, "reader").Consumers(t.Context())
	require.NoError(t, err)
	require.Len(t, consumers, 1)
	_, err = newScheduler(t, c.store(t, "api")).DeleteUser(t.Context(), e.UserID, almanac.DeleteOptions{AtOnce: true})
	require.NoError(t, err)
	require.Len(t, consume(t, relay, "billing", 2), 1)
	require.NoError(t, relay.DeleteConsumer(t.Context(), "billing"))

	forged := "INSERT INTO almanac.outbox (kind, user_id, version) SELECT 'user_deleted', gen_random_uuid(), 1"
	for _, role := range []string{"worker", "api", "operator", "relay", "reader"} {
		require.Error(t, postgres.DisableOutbox(t.Context(), c.pools[role]), role)
		for _, sql := range []string{forged, "UPDATE almanac.outbox SET kind = 'user_deleted'", "SELECT nextval('almanac.outbox_sequence_seq')"} {
			_, err := c.pools[role].Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
			requireRefused(t, err, role+": "+sql)
		}
		if role == "relay" {
			continue
		}
		for _, sql := range []string{"SELECT user_id FROM almanac.outbox", "DELETE FROM almanac.outbox", "DELETE FROM almanac.outbox_consumers", "UPDATE almanac.outbox_consumers SET last = 0"} {
			_, err := c.pools[role].Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
			requireRefused(t, err, role+": "+sql)
		}
	}
}

func TestExamineExpectsAllTriggersOfTheOutboxOrNone(t *testing.T) {
	t.Parallel()
	pool, store := withOutbox(t)
	differences, err := store.Examine(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
	_, err = pool.Exec(t.Context(), "DROP TRIGGER history_outbox ON almanac.history")
	require.NoError(t, err)
	differences, err = store.Examine(t.Context())
	require.NoError(t, err)
	require.Len(t, differences, 1)
	require.Contains(t, differences[0].String(), "trigger history.history_outbox is missing")
	require.NoError(t, postgres.DisableOutbox(t.Context(), pool))
	differences, err = store.Examine(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
}

// An occurrence whose key is the same text in another unit is another one, for the trail and for the
// outbox too.
func TestTheTrailAndTheOutboxKnowTheUnitOfAKey(t *testing.T) {
	t.Parallel()
	pool, store := withOutbox(t, "mirror")
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	text, u := almanactest.Event(time.Now(), almanactest.Of("2026")), almanactest.User()
	almanactest.For(u)(&text, time.Now())
	text.KeyUnit = calendar.UnitText
	_, _, err := almanactest.CreateUser(t.Context(), store, u, text)
	require.NoError(t, err)

	year := settleOne(t, store, almanac.Delivered(time.Now()), "2026").Successor
	require.NotNil(t, year)
	settleOne(t, store, almanac.Delivered(time.Now()), "2027")

	require.Equal(t, []string{"created", "claimed", "completed"}, kinds(t, store, year.ID))
	names := map[uuid.UUID]string{u.ID: "ada", text.ID: "text", year.ID: "year"}
	require.Equal(t, []string{
		"user_created ada 1", "event_created text 1", "event_completed text 3", "event_created year 1", "event_completed year 3", "event_created  1",
	}, said(consume(t, store, "mirror", 100), names))
}
