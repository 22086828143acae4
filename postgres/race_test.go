package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// heartbeat is a series with an occurrence each second: a year of birthdays in
// the time that a test has.
type heartbeat struct{}

func (heartbeat) EventType() string { return "HEARTBEAT" }

func (heartbeat) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	wall := u.Timezone.WallTime(after.Truncate(time.Second).Add(time.Second))
	return calendar.Occurrence{Key: wall.String(), Wall: wall}, nil
}

func (heartbeat) Payload(u almanac.User, _ almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(u.Timezone.String())
}

func (heartbeat) Channel(almanac.Event) almanac.Channel { return "test" }

// The zones agree on every clock reading, so that only their names show whether an
// event was planned from its user as they are.
var sameClocks = []string{"Europe/Berlin", "Europe/Paris", "Europe/Rome", "Europe/Madrid"}

// Everything at once on a series: claims, deliveries that fail now and then,
// settlements and profile edits. In the end each user has exactly one open event,
// and it follows the user's last edit.
func TestEditsNeverRaceASuccessorIntoTheOldZone(t *testing.T) {
	t.Parallel()
	const people, deliveries = 12, 40
	pool := pgtest.Pool(t, pgtest.MaxConns(16))
	store := mustStore(t, pool)
	registry, err := almanac.NewRegistry(heartbeat{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var delivered, failed atomic.Int64
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
		if rand.IntN(5) == 0 {
			failed.Add(1)
			return almanac.Permanent(context.DeadlineExceeded)
		}
		if delivered.Add(1) == deliveries {
			stop()
		}
		return nil
	})
	var workers []almanac.Scheduler
	for range 3 { // as in three processes
		worker, err := almanac.NewScheduler(store, registry, almanac.WithDeliverer("test", deliver))
		require.NoError(t, err)
		workers = append(workers, worker)
	}
	scheduler := workers[0]
	ids := make([]uuid.UUID, people)
	for i := range ids {
		enrolment, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: sameClocks[0]})
		require.NoError(t, err)
		ids[i] = enrolment.User.ID
	}

	var working sync.WaitGroup
	for _, worker := range workers {
		working.Go(func() { noError(t, worker.Run(ctx)) })
	}
	for range 2 {
		working.Go(func() {
			for ctx.Err() == nil {
				zone := sameClocks[rand.IntN(len(sameClocks))]
				_, err := scheduler.UpdateUser(t.Context(), ids[rand.IntN(people)], almanac.ProfileChange{Timezone: &zone})
				noError(t, err)
			}
		})
	}
	working.Wait()

	t.Logf("%d delivered and %d failed", delivered.Load(), failed.Load())
	requireInStep(t, pool, people)
	// An edit can empty a lease, a renewal can keep a settlement from ending one, and an edit can have
	// an event locked that a worker returns when it stops. The sweep ends all of these.
	_, err = store.ReleaseExpired(t.Context(), people, 1000)
	require.NoError(t, err)
	requireLeasesMatchEvents(t, pool)
}

// noError is require.NoError for goroutines other than the test's own.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// requireInStep checks that each of n users has one open event, and that it has the zone
// and the payload of the user as stored. An event that was released keeps its target.
func requireInStep(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	var open, stale int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM almanac.events WHERE status IN ('PENDING', 'PROCESSING')`).Scan(&open))
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT count(*) FROM almanac.events e JOIN almanac.users u ON u.id = e.user_id
		WHERE e.status = 'PENDING' AND e.claim_count = 0
			AND (e.target_timezone <> u.timezone OR e.delivery_payload <> to_jsonb(u.timezone))`).Scan(&stale))
	require.Equal(t, n, open, "each series goes on, once")
	require.Zero(t, stale, "events planned from a user who has changed since")
}

// The narrowest of races, held open: an edit arrives after the settlement has read
// the user and before it has stored the successor.
func TestAnEditWaitsForTheSuccessorThatItMustMove(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	scheduler := newScheduler(t, store)
	overdue(t, store)
	e := claimOne(t, store)
	edited := make(chan error, 1)

	settled, err := store.Settle(t.Context(), []almanac.Settlement{{
		Event: e, Outcome: almanac.Delivered(e.UpdatedAt),
		Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			go func() {
				zone := "Asia/Tokyo"
				_, err := scheduler.UpdateUser(t.Context(), u.ID, almanac.ProfileChange{Timezone: &zone})
				edited <- err
			}()
			awaitLockWaiter(t, pool, edited)
			return nextBirthday(u, now)
		},
	}})
	require.NoError(t, err)
	require.NoError(t, errors.Join(settled[0].Err, settled[0].PlanErr, <-edited))

	successor, err := store.Event(t.Context(), settled[0].Successor.ID)
	require.NoError(t, err)
	require.Equal(t, "Asia/Tokyo", successor.Zone)
}

// While a successor is planned from the user as of the claim, no user is locked: the edit
// passes, and the successor is planned again.
func TestAnEditPassesASuccessorThatIsPlannedFromAClaim(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]almanac.Outcome{"delivered": almanac.Delivered(time.Now()), "given up": almanac.GaveUp("HTTP 404")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			scheduler := newScheduler(t, store)
			e := overdue(t, store)
			claim, err := store.Claim(t.Context(), birthdays(1))
			require.NoError(t, err)
			plans := 0

			settled, err := store.Settle(t.Context(), []almanac.Settlement{{
				Event: claim.Events[0], User: claim.Users[e.UserID], Outcome: outcome,
				Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
					if plans++; plans == 1 {
						zone := "Asia/Tokyo"
						_, err := scheduler.UpdateUser(t.Context(), u.ID, almanac.ProfileChange{Timezone: &zone})
						noError(t, err)
					}
					return nextBirthday(u, now)
				},
			}})

			require.NoError(t, err)
			require.NoError(t, errors.Join(settled[0].Err, settled[0].PlanErr))
			require.Equal(t, 2, plans)
			successor, err := store.Event(t.Context(), settled[0].Successor.ID)
			require.NoError(t, err)
			require.Equal(t, "Asia/Tokyo", successor.Zone)
			require.Equal(t, 2, successor.UserVersion)
		})
	}
}

// awaitLockWaiter returns when a session of the database waits for a lock, or when the other
// side is done without having waited.
func awaitLockWaiter(t *testing.T, pool *pgxpool.Pool, done chan error) {
	t.Helper()
	awaitLockWaiters(t, pool, 1, done)
}

// awaitLockWaiters is awaitLockWaiter for n who wait at the same time.
func awaitLockWaiters(t *testing.T, pool *pgxpool.Pool, n int, done chan error) {
	t.Helper()
	for len(done) == 0 {
		var waiting int
		err := pool.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		if waiting >= n || err != nil {
			noError(t, err)
			return
		}
	}
}

func TestClaimSkipsLockedEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool, postgres.WithTimeout(20*time.Second))
	held, free := overdue(t, store), overdue(t, store)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM almanac.queue WHERE event_id = $1 FOR UPDATE", held.ID)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM almanac.users WHERE id = $1 FOR UPDATE", free.UserID)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM almanac.series WHERE event_id = $1 FOR UPDATE", free.ID)
	require.NoError(t, err)

	claimed := claimOne(t, store)

	require.Equal(t, free.ID, claimed.ID, "the older one is held, and a claim waits for no user and no series")
}

// A host's transaction stays open while rules are compared: its mark is not forgotten,
// and no other transaction waits for it.
func TestZoneMarksOfOpenTransactionsStay(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	bound := mustStore(t, tx)
	mark := calendar.ZoneRules{Zone: "UTC", Fingerprint: 42, Since: 2026, Version: "2026b"}
	create := func(s *postgres.Store) {
		u := almanactest.User()
		e := almanactest.Event(time.Now(), almanactest.For(u))
		e.PlannedBy = &mark
		_, _, err := almanactest.CreateUser(t.Context(), s, u, e)
		require.NoError(t, err)
	}
	create(bound)
	create(store)

	require.NoError(t, store.EditZoneRules(t.Context(), func(book almanac.ZoneBook) (almanac.ZoneBook, error) {
		require.Equal(t, []calendar.ZoneRules{mark}, book.Marks)
		return almanac.ZoneBook{Rules: []almanac.ZoneRecord{{ZoneRules: book.Marks[0]}}}, nil
	}))
	book, err := store.ZoneRules(t.Context())
	require.NoError(t, err)
	require.Empty(t, book.Marks)
	require.NoError(t, tx.Commit(t.Context()))

	book, err = store.ZoneRules(t.Context())
	require.NoError(t, err)
	require.Equal(t, []calendar.ZoneRules{mark}, book.Marks)
}
