package postgres_test

import (
	"context"
	"encoding/binary"
	"iter"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// folk are n users with ids and names of their own, which follow from their position.
func folk(n int) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for i := range n {
			p := ada
			p.ID, p.LastName = uuid.NewSHA1(uuid.NameSpaceOID, binary.BigEndian.AppendUint64(nil, uint64(i))), strconv.Itoa(i)
			if !yield(p, nil) {
				return
			}
		}
	}
}

func requireEvents(t *testing.T, store almanac.Repository, want int) {
	t.Helper()
	n, err := store.Count(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, want, n)
}

func TestCreateUsersSurvivesABrokenConnection(t *testing.T) {
	t.Parallel()
	c := &cutter{after: enrolling}
	store := newStore(t, c.option)
	done, err := newScheduler(t, store).CreateUsers(t.Context(), folk(100), almanac.CreateUsersOptions{Batch: 10})
	require.NoError(t, err, "a batch is repeated by itself")
	require.EqualValues(t, 1, c.cuts.Load())
	require.Equal(t, 100, done.Created)
	requireEvents(t, store, 100)

	c = &cutter{after: enrolling, commit: true}
	store = newStore(t, c.option)
	var notified notices
	scheduler := newScheduler(t, store, almanac.WithObserver(&notified))
	done, err = scheduler.CreateUsers(t.Context(), folk(100), almanac.CreateUsersOptions{Batch: 10})
	require.Error(t, err)
	require.False(t, pgconn.SafeToRetry(err), "the COMMIT was sent")
	require.Positive(t, done.Created, "and it took effect")
	notified.requireOf(t, store, done)
	again, err := scheduler.CreateUsers(t.Context(), folk(100), almanac.CreateUsersOptions{Batch: 10})
	require.NoError(t, err)
	require.Equal(t, done.Created, again.Existing)
	requireEvents(t, store, 100)
}

// notices counts what an observer is notified of.
type notices struct{ users, events atomic.Int64 }

func (n *notices) Observe(_ context.Context, notice almanac.Notice) {
	switch notice.Kind {
	case almanac.UserCreated:
		n.users.Add(1)
	case almanac.EventCreated:
		n.events.Add(1)
	}
}

// requireOf checks that an enrolment counted, and its observer was notified of, what is stored.
func (n *notices) requireOf(t *testing.T, store almanac.Repository, done almanac.CreateUsersResult) {
	t.Helper()
	require.Equal(t, []int64{int64(done.Created), int64(done.Events)}, []int64{n.users.Load(), n.events.Load()})
	requireEvents(t, store, done.Events)
}

// A batch that is stored in parts can fail in the middle. What was stored until then counts.
func TestCreateUsersCountsUsersStoredBeforeAFailure(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	_, err := pool.Exec(t.Context(), `
		CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.last_name = '2' THEN RAISE 'refused'; END IF;
			IF (SELECT count(*) FROM almanac.users) = 2 THEN RAISE 'no space' USING ERRCODE = 'disk_full'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER fail BEFORE INSERT ON almanac.users FOR EACH ROW EXECUTE FUNCTION public.fail()`)
	require.NoError(t, err)
	var notified notices

	done, err := newScheduler(t, store, almanac.WithObserver(&notified)).CreateUsers(t.Context(), folk(10), almanac.CreateUsersOptions{})

	require.ErrorContains(t, err, "no space")
	require.Contains(t, []int{1, 2}, done.Created)
	notified.requireOf(t, store, done)
}

func TestABackfillSurvivesABrokenConnection(t *testing.T) {
	t.Parallel()
	c := &cutter{after: "FOR SHARE"}
	store := newStore(t, c.option)
	_, err := newScheduler(t, store).CreateUsers(t.Context(), folk(30), almanac.CreateUsersOptions{})
	require.NoError(t, err)

	done, err := with(t, store, []almanac.EventHandler{party{}}).Backfill(t.Context(), "PARTY", almanac.BackfillOptions{})

	require.NoError(t, err)
	require.EqualValues(t, 1, c.cuts.Load())
	require.Equal(t, 30, done.Events)
	requireEvents(t, store, 60)
}

func TestCreateUsersStoresTheOthersWhenTheDatabaseRefusesARow(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	_, err := pool.Exec(t.Context(), `
		ALTER TABLE almanac.users ADD CONSTRAINT hosts_own CHECK (last_name <> '13');
		CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
		CREATE TRIGGER fail BEFORE INSERT ON almanac.series FOR EACH ROW
		WHEN (NEW.user_id = '`+uuid.NewSHA1(uuid.NameSpaceOID, binary.BigEndian.AppendUint64(nil, 77)).String()+`') EXECUTE FUNCTION public.fail()`)
	require.NoError(t, err)

	done, err := newScheduler(t, store).CreateUsers(t.Context(), folk(100), almanac.CreateUsersOptions{Batch: 50})

	require.NoError(t, err)
	require.Equal(t, 98, done.Created)
	require.Len(t, done.Refused, 2)
	require.Equal(t, 13, done.Refused[0].Position)
	require.ErrorContains(t, done.Refused[0].Err, "hosts_own")
	require.Equal(t, 77, done.Refused[1].Position)
	_, err = store.User(t.Context(), done.Refused[1].UserID)
	require.ErrorIs(t, err, almanac.ErrNotFound, "no user is stored without events")
	requireEvents(t, store, 98)
}

func TestBulkInTheHostsTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	outside := mustStore(t, pool)
	notified := 0
	scheduler := with(t, outside, []almanac.EventHandler{almanac.Birthday{}, party{}},
		almanac.WithObserver(almanac.ObserverFunc(func(context.Context, almanac.Notice) { notified++ })))

	store := func(finish func(pgx.Tx, context.Context) error) {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		inside := mustStore(t, tx)
		done, err := with(t, inside, []almanac.EventHandler{almanac.Birthday{}}).CreateUsers(t.Context(), folk(95), almanac.CreateUsersOptions{Batch: 10, Writers: 8})
		require.NoError(t, err)
		require.Equal(t, 95, done.Created)
		filled, err := scheduler.With(inside).Backfill(t.Context(), "PARTY", almanac.BackfillOptions{})
		require.NoError(t, err)
		require.Equal(t, 95, filled.Events)
		requireEvents(t, outside, 0)
		require.NoError(t, finish(tx, t.Context()))
	}
	store(pgx.Tx.Rollback)
	requireEvents(t, outside, 0)
	store(pgx.Tx.Commit)
	requireEvents(t, outside, 190)
	require.Zero(t, notified)
}

// requireBulkReadsNoWholeTable looks at a page of a backfill among many users. The page is a
// small share of them: for one user in a hundred, the server may well prefer the whole table.
func requireBulkReadsNoWholeTable(t *testing.T, pool *pgxpool.Pool, received *recorder) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	store := mustStore(t, tx)
	var middle almanac.Cursor = "7fffffff-0000-0000-0000-000000000000"
	_, err = store.AddEvents(t.Context(), "PARTY", almanac.Page{Limit: 100, After: middle}, func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, error) {
		events := make([]almanac.Event, len(users))
		for i, one := range users {
			var err error
			if events[i], err = nextParty(one.User, now); err != nil {
				return nil, err
			}
		}
		return events, nil
	})
	require.NoError(t, err)
	for _, name := range []string{"page_users", "lock_users", "standings", "insert_events"} {
		asked := received.last(name)
		require.NotEmpty(t, asked.sql, name)
		p, text := planOf(t, tx, "", asked)
		require.False(t, p.scansSequentially(), "a whole table is read by %s:\n%s", name, text)
	}
}

func nextParty(u almanac.User, now time.Time) (almanac.Event, error) {
	o, err := party{}.Next(u, now)
	if err != nil {
		return almanac.Event{}, err
	}
	return almanac.NewEvent(u, party{}, almanac.Occurrence{Occurrence: o})
}

// counting is a database that notes what is asked of its transactions.
type counting struct {
	postgres.DB
	asked *[]string
}

func (c counting) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := c.DB.Begin(ctx)
	return countingTx{tx, c.asked}, err
}

type countingTx struct {
	pgx.Tx
	asked *[]string
}

func (c countingTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	*c.asked = append(*c.asked, "exec")
	return c.Tx.Exec(ctx, sql, args...)
}

func (c countingTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	*c.asked = append(*c.asked, "query")
	return c.Tx.Query(ctx, sql, args...)
}

func (c countingTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	*c.asked = append(*c.asked, "batch of "+strconv.Itoa(b.Len()))
	return c.Tx.SendBatch(ctx, b)
}

func TestOneUserIsStoredInOneRoundTrip(t *testing.T) {
	t.Parallel()
	var asked []string
	store := mustStore(t, counting{pgtest.Pool(t), &asked})
	_, err := newScheduler(t, store).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.Equal(t, []string{"batch of 2"}, asked, "the user and the events, between BEGIN and COMMIT")
}
