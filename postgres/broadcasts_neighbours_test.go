package postgres_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// sale is a broadcast at an instant in three days.
func sale() broadcast.Broadcast {
	return broadcast.Broadcast{Name: "sale", Type: "NEWS", Instant: time.Now().Add(72 * time.Hour), Passed: broadcast.Skip}
}

// runs does what a program would do now.
func runs(t *testing.T, sender *broadcast.Sender) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, sender.RunOnce(ctx, broadcast.RunOptions{}))
}

func stops(t *testing.T, sender *broadcast.Sender) {
	t.Helper()
	_, err := sender.Stop(t.Context(), "sale", "typo")
	require.NoError(t, err)
}

func resumes(t *testing.T, sender *broadcast.Sender) {
	t.Helper()
	_, err := sender.Resume(t.Context(), "sale")
	require.NoError(t, err)
}

func progresses(t *testing.T, sender *broadcast.Sender) {
	t.Helper()
	_, err := sender.Progress(t.Context(), "sale")
	require.NoError(t, err)
}

// broadcasting stores users and a broadcast to them, and does steps of it.
func broadcasting(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n int, steps ...func(*testing.T, *broadcast.Sender)) ([]uuid.UUID, *broadcast.Sender) {
	t.Helper()
	ids := storeUsers(t, store, n)
	_, sender := newBroadcaster(t, pool)
	_, err := sender.Start(t.Context(), sale())
	require.NoError(t, err)
	for _, step := range steps {
		step(t, sender)
	}
	return ids, sender
}

const queuedNews = "SELECT count(*) FROM almanac.queue WHERE lane = 'NEWS/sale'"

func prepareStoreBroadcast(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	ids, sender := broadcasting(t, pool, store, n)
	call = func() error { return sender.RunOnce(t.Context(), broadcast.RunOptions{}) }
	return call, oneOf("NEW.user_id", ids[:refused]), rowsOf(t, pool, queuedNews)
}

func prepareCancelBroadcast(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	ids, sender := broadcasting(t, pool, store, n, runs, stops)
	call = func() error { return sender.RunOnce(t.Context(), broadcast.RunOptions{}) }
	return call, oneOf("OLD.user_id", ids[:refused]), rowsOf(t, pool, "SELECT count(*) FROM almanac.history WHERE lane = 'NEWS/sale' AND status = 'CANCELLED'")
}

func prepareRequeueBroadcast(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	ids, sender := broadcasting(t, pool, store, n, runs, stops, runs, resumes)
	call = func() error { return sender.RunOnce(t.Context(), broadcast.RunOptions{}) }
	return call, oneOf("NEW.user_id", ids[:refused]), rowsOf(t, pool, queuedNews)
}

// The database refuses three of thirteen rows. Each of the others is stored, cancelled or requeued.
func TestARefusedRowOfABroadcastDelaysNoOtherRow(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"StoreBroadcast", "CancelBroadcast", "RequeueBroadcast"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manyRowsCalls[name].checkOthersAreDone(t, pgtest.Pool(t), "P0001", 13, 3)
		})
	}
}

// A host keeps users locked for long. A resume waits for none of them, and requeues their events when they are free.
func TestAResumeTriesTheEventsOfLockedUsersAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	s, sender := newBroadcaster(t, pool)
	createCitizens(t, s, 5)
	_, err := sender.Start(t.Context(), sale())
	require.NoError(t, err)
	runs(t, sender)
	stops(t, sender)
	runs(t, sender)
	require.Zero(t, rowsOf(t, pool, queuedNews)())
	gone := listOf[string](t, pool, "SELECT id::text FROM almanac.users ORDER BY id DESC LIMIT 1")[0]
	host, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = host.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = host.Exec(t.Context(), "SELECT FROM almanac.users WHERE id IN (SELECT id FROM almanac.users ORDER BY id LIMIT 3) FOR UPDATE")
	require.NoError(t, err)
	_, err = host.Exec(t.Context(), "DELETE FROM almanac.users WHERE id = $1", gone)
	require.NoError(t, err)

	resumes(t, sender)
	for range 2 {
		runs(t, sender)
		require.Equal(t, 36, rowsOf(t, pool, queuedNews)())
		p, err := sender.Progress(t.Context(), "sale")
		require.NoError(t, err)
		require.Equal(t, broadcast.Storing, p.State)
		require.Equal(t, 4, p.Total().Cancelled)
		_, err = pool.Exec(t.Context(), "UPDATE almanac.broadcasts SET requeue_at = now(), look_at = now()")
		require.NoError(t, err)
	}
	require.NoError(t, host.Commit(t.Context()))
	runs(t, sender)
	require.Equal(t, 39, rowsOf(t, pool, queuedNews)(), "one user is deleted")
	is, err := sender.Get(t.Context(), "sale")
	require.NoError(t, err)
	require.Equal(t, broadcast.Stored, is.State)
}

// More events than one transaction counts have ended.
func TestABroadcastCountsItsEventsInParts(t *testing.T) {
	t.Parallel()
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	_, sender := broadcasting(t, pool, mustStore(t, pool), 1, runs, stops, runs, resumes, runs, stops, progresses, runs)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO almanac.history
		SELECT r.*
		FROM almanac.history h, generate_series(1, 110000) n, LATERAL jsonb_populate_record(h, jsonb_build_object('id', md5(n::text)::uuid)) r
		WHERE h.lane = 'NEWS/sale' AND h.origin = 'scheduled';
		ANALYZE almanac.history`)
	require.NoError(t, err)
	for _, name := range []string{"ended_of_broadcast", "cancelled_of_broadcast", "broadcast_progress", "create_broadcast"} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		if name == "broadcast_progress" || name == "create_broadcast" { // which would read a table that has no other events
			_, err = tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
			require.NoError(t, err)
		}
		asked := received.last(name)
		require.NotEmpty(t, asked.sql, name)
		p, text := planOf(t, tx, "", asked)
		require.True(t, p.uses("history_broadcasts"), text)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	_, err = pool.Exec(t.Context(), "UPDATE almanac.broadcasts SET ended_at = NULL, look_at = now()")
	require.NoError(t, err)
	runs(t, sender)
	p, err := sender.Progress(t.Context(), "sale")
	require.NoError(t, err)
	require.False(t, p.EndedAt.IsZero())
	require.Equal(t, 110_001, p.Total().Cancelled, "of two, one was requeued")
	require.Equal(t, 1, p.Total().Stored)
}

// An old transaction keeps the entries of cancelled events in the index. A page reads past none of them again.
func TestCancellingABroadcastIsFlatBesideAnOldTransaction(t *testing.T) {
	t.Parallel()
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	s, sender := newBroadcaster(t, pool)
	createCitizens(t, s, 1000)
	_, err := sender.Start(t.Context(), sale())
	require.NoError(t, err)
	runs(t, sender)
	stops(t, sender)
	old, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { require.NoError(t, old.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = old.Exec(t.Context(), "SELECT count(*) FROM almanac.queue")
	require.NoError(t, err)

	store, token := mustStore(t, pool), uuid.New()
	var blocks []int
	for {
		task, found, err := store.TakeBroadcast(t.Context(), token, time.Minute, nil)
		require.NoError(t, err)
		if !found {
			break
		}
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		open, _ := planOf(t, tx, "ANALYZE, BUFFERS, ", received.last("open_broadcast"))
		require.NoError(t, tx.Rollback(t.Context()))
		done, err := store.CancelBroadcast(t.Context(), task, time.Minute, 400)
		require.NoError(t, err)
		require.Len(t, done, 400)
		tx, err = pool.Begin(t.Context())
		require.NoError(t, err)
		next, _ := planOf(t, tx, "ANALYZE, BUFFERS, ", received.last("pending_of_broadcast"))
		require.NoError(t, tx.Rollback(t.Context()))
		blocks = append(blocks, open.Hit+open.Read+next.Hit+next.Read)
	}
	t.Log(blocks)
	require.Len(t, blocks, 20)
	require.LessOrEqual(t, blocks[18], 2*blocks[1])
}

// A list of three among two thousand users of a zone.
func TestAListIsReadAndNotItsZone(t *testing.T) {
	t.Parallel()
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	s, sender := newBroadcaster(t, pool)
	createCitizens(t, s, 2000)
	b := sale()
	b.Audience.Listed = true
	_, err := sender.Start(t.Context(), b)
	require.NoError(t, err)
	ids := listOf[string](t, pool, "SELECT id::text FROM almanac.users WHERE timezone = 'UTC' ORDER BY id DESC LIMIT 3")
	for _, id := range ids {
		_, err := sender.AddUsers(t.Context(), "sale", []uuid.UUID{uuid.MustParse(id)}, nil)
		require.NoError(t, err)
	}
	_, err = sender.Complete(t.Context(), "sale")
	require.NoError(t, err)
	runs(t, sender)
	require.Equal(t, 3, rowsOf(t, pool, queuedNews)())
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	page, text := planOf(t, tx, "ANALYZE, BUFFERS, ", received.last("broadcast_page"))
	require.Less(t, page.Hit+page.Read, 60, text)
}

// An edit of many users locks them in another order than a deletion, which therefore waits for none.
func TestADeletionOfABroadcastWaitsForNoUser(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, sender := newBroadcaster(t, pool)
	b := sale()
	b.Audience.Listed = true
	_, err := sender.Start(t.Context(), b)
	require.NoError(t, err)
	stops(t, sender)
	runs(t, sender)
	_, err = pool.Exec(t.Context(), "INSERT INTO almanac.broadcast_users (user_id, broadcast, zone) SELECT gen_random_uuid(), 'sale', 'UTC' FROM generate_series(1, 3)")
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE almanac.broadcast_users SET zone = 'Asia/Tokyo' WHERE user_id = (SELECT max(user_id::text)::uuid FROM almanac.broadcast_users)")
	require.NoError(t, err)
	for _, left := range []int{1, 1} {
		more, err := mustStore(t, pool).DeleteBroadcast(t.Context(), "sale")
		require.NoError(t, err)
		require.True(t, more)
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.broadcast_users").Scan(&n))
		require.Equal(t, left, n)
	}
	require.NoError(t, tx.Commit(t.Context()))
	more, err := mustStore(t, pool).DeleteBroadcast(t.Context(), "sale")
	require.NoError(t, err)
	require.False(t, more)
}

// The plans of a session may have been made when no broadcast had a list.
func TestAMoveOfAUserReadsNoListOfOthers(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, sender := newBroadcaster(t, pool)
	b := sale()
	b.Audience.Listed = true
	_, err := sender.Start(t.Context(), b)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "INSERT INTO almanac.users (id, first_name, last_name, timezone) SELECT gen_random_uuid(), '', '', 'UTC' FROM generate_series(1, 3000)")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "VACUUM ANALYZE almanac.broadcast_users")
	require.NoError(t, err)
	conn := freshConn(t, pool)
	move := func(zone string) {
		_, err := conn.Exec(t.Context(), "UPDATE almanac.users SET version = version + 1, timezone = $1 WHERE id = (SELECT min(id::text)::uuid FROM almanac.users)", zone)
		require.NoError(t, err)
	}
	move("Asia/Tokyo")
	_, err = pool.Exec(t.Context(), "INSERT INTO almanac.broadcast_users (user_id, broadcast, zone) SELECT id, 'sale', timezone FROM almanac.users")
	require.NoError(t, err)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	move("America/Lima")
	var read, followed int
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0), n_tup_upd FROM pg_stat_xact_user_tables WHERE relid = 'almanac.broadcast_users'::regclass").Scan(&read, &followed))
	require.Equal(t, []int{1, 1}, []int{read, followed})
}

func TestADeletionOfAUserReadsNoListOfOthers(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, sender := newBroadcaster(t, pool)
	b := sale()
	b.Audience.Listed = true
	_, err := sender.Start(t.Context(), b)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "INSERT INTO almanac.users (id, first_name, last_name, timezone) SELECT gen_random_uuid(), '', '', 'UTC' FROM generate_series(1, 3000)")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "VACUUM ANALYZE almanac.broadcast_users")
	require.NoError(t, err)
	conn := freshConn(t, pool)
	remove := func() {
		_, err := conn.Exec(t.Context(), "DELETE FROM almanac.users WHERE id = (SELECT min(id::text)::uuid FROM almanac.users)")
		require.NoError(t, err)
	}
	for range 7 { // from the sixth on, the plan may be kept
		remove()
	}
	_, err = pool.Exec(t.Context(), "INSERT INTO almanac.broadcast_users (user_id, broadcast, zone) SELECT id, 'sale', timezone FROM almanac.users")
	require.NoError(t, err)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	remove()
	var read, removed int
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0), n_tup_del FROM pg_stat_xact_user_tables WHERE relid = 'almanac.broadcast_users'::regclass").Scan(&read, &removed))
	require.Equal(t, []int{1, 1}, []int{read, removed})
}

// A broadcast whose events cannot be counted is tried again later, and keeps no other one waiting.
func TestABroadcastThatCannotBeCountedDelaysNoOther(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	s, sender := newBroadcaster(t, pool)
	createCitizens(t, s, 1)
	_, err := sender.Start(t.Context(), sale())
	require.NoError(t, err)
	runs(t, sender)
	stops(t, sender)
	_, err = pool.Exec(t.Context(), `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no counts'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE OF delivered ON almanac.broadcast_zones FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
	require.NoError(t, err)
	other := sale()
	other.Name = "other"
	_, err = sender.Start(t.Context(), other)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.ErrorContains(t, sender.RunOnce(ctx, broadcast.RunOptions{}), "no counts")
	const look = "UPDATE almanac.broadcasts SET look_at = now(), lease = NULL WHERE name = 'sale'"
	_, err = pool.Exec(t.Context(), look)
	require.NoError(t, err)
	token, store := uuid.New(), mustStore(t, pool)
	_, _, err = store.TakeBroadcast(t.Context(), token, time.Minute, nil)
	require.ErrorContains(t, err, "no counts")
	task, found, err := store.TakeBroadcast(t.Context(), token, time.Minute, nil)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "other", task.Name)
	_, err = pool.Exec(t.Context(), "DROP TRIGGER refuse ON almanac.broadcast_zones;"+look)
	require.NoError(t, err)
	runs(t, sender)
	is, err := sender.Get(t.Context(), "sale")
	require.NoError(t, err)
	require.False(t, is.EndedAt.IsZero())
}

// A long list is deleted in parts. In between, the broadcast cannot be resumed: it would reach a part of its list.
func TestABroadcastThatIsBeingDeletedCannotBeResumed(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, sender := newBroadcaster(t, pool)
	b := sale()
	b.Audience.Listed = true
	_, err := sender.Start(t.Context(), b)
	require.NoError(t, err)
	stops(t, sender)
	runs(t, sender)
	_, err = pool.Exec(t.Context(), "INSERT INTO almanac.broadcast_users (user_id, broadcast, zone) SELECT gen_random_uuid(), 'sale', 'UTC' FROM generate_series(1, 10001)")
	require.NoError(t, err)
	more, err := mustStore(t, pool).DeleteBroadcast(t.Context(), "sale")
	require.NoError(t, err)
	require.True(t, more)
	_, err = sender.Resume(t.Context(), "sale")
	require.ErrorIs(t, err, almanac.ErrInvalidStateTransition)
	require.NoError(t, sender.Delete(t.Context(), "sale"))
	_, err = sender.Get(t.Context(), "sale")
	require.ErrorIs(t, err, almanac.ErrNotFound)
}

// overtaken is a store beside another program, which stores the event of a user just before a page with that user does.
type overtaken struct {
	*postgres.Store
	user uuid.UUID
	page almanac.Page // of that user alone
	once sync.Once
}

func (o *overtaken) StoreBroadcast(ctx context.Context, task broadcast.Task, term time.Duration, limit int, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error)) (almanac.AddEventsResult, error) {
	return o.Store.StoreBroadcast(ctx, task, term, limit, func(users []almanac.UserSeries, now time.Time) (events []almanac.Event, refused []almanac.Refusal, err error) {
		events, refused, err = plan(users, now)
		i := slices.IndexFunc(events, func(e almanac.Event) bool { return e.UserID == o.user })
		if i >= 0 && err == nil {
			o.once.Do(func() {
				_, err = o.AddEvents(ctx, "NEWS", o.page, func([]almanac.UserSeries, time.Time) ([]almanac.Event, error) {
					e := events[i]
					e.ID = uuid.New()
					return []almanac.Event{e}, nil
				})
			})
		}
		return events, refused, err
	})
}

// A page is stored in two halves at once. They count as one transaction does: users whom another transaction has locked, users whose event the
// database refuses, and a user whose event another program has stored since the page was read are in both halves.
func TestTheHalvesOfAPageCountTogether(t *testing.T) {
	t.Parallel()
	const users = 2500 // the page of users 1,000 to 1,999 is stored in halves
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	ids, _ := broadcasting(t, pool, store, users)
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	locked, refused := []uuid.UUID{ids[1001], ids[1002], ids[1999]}, []uuid.UUID{ids[1003], ids[1998]}
	refuseRow(t, pool, "BEFORE INSERT ON almanac.series", oneOf("NEW.user_id", refused), "P0001")
	host, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = host.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = host.Exec(t.Context(), "SELECT FROM almanac.users WHERE "+oneOf("id", locked)+" FOR UPDATE")
	require.NoError(t, err)

	s, _ := newBroadcaster(t, pool)
	sender, err := broadcast.New(s, &overtaken{Store: store, user: ids[1500], page: almanac.Page{Limit: 1, After: almanac.Cursor(ids[1499].String())}})
	require.NoError(t, err)
	runs(t, sender)
	p, err := sender.Progress(t.Context(), "sale")
	require.NoError(t, err)
	require.Equal(t, broadcast.Counts{Users: users, Stored: users - len(locked) - len(refused) - 1, Refused: len(locked) + len(refused)}, p.Total().Counts)
	require.Equal(t, users-len(locked)-len(refused), rowsOf(t, pool, queuedNews)())
}

// The first half of a page fails as often as it is tried, and the second is stored. Users without an event count once nevertheless, and
// the users of the first half are set aside, because those of the second show that the database works.
func TestAHalfThatFailsCountsNoUserTwice(t *testing.T) {
	t.Parallel()
	const users = 200
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	ids, sender := broadcasting(t, pool, store, users)
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	refuseRow(t, pool, "BEFORE INSERT ON almanac.series", oneOf("NEW.user_id", ids[:users/2]), "42501")
	host, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = host.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = host.Exec(t.Context(), "SELECT FROM almanac.users WHERE "+oneOf("id", ids[150:160])+" FOR UPDATE")
	require.NoError(t, err)

	runs(t, sender)
	p, err := sender.Progress(t.Context(), "sale")
	require.NoError(t, err)
	require.Equal(t, broadcast.Counts{Users: users, Stored: 90, Refused: 110}, p.Total().Counts)
}

// A store on a connection has no other one for the second half of a page.
func TestABroadcastIsStoredOnOneConnection(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	broadcasting(t, pool, store, 1200)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	alone, err := postgres.New(conn.Conn())
	require.NoError(t, err)
	s, _ := newBroadcaster(t, pool)
	sender, err := broadcast.New(s, alone)
	require.NoError(t, err)
	runs(t, sender)
	require.Equal(t, 1200, rowsOf(t, pool, queuedNews)())
}
