package postgres_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

const lostEvents = "in neither the queue nor a lease"

// An event whose row of the queue or lease was deleted returns to the queue. The events of other leases stay there, also those that
// were handed to a stream.
func TestLostEventsReturnToTheQueue(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	api, worker := c.store(t, "api"), c.store(t, "worker")
	claim := func() almanac.Event {
		overdue(t, api)
		return claimOne(t, worker)
	}
	unleased, held, streamed := claim(), claim(), claim()
	each, err := worker.LeaseEach(t.Context(), []almanac.Event{streamed}, t.Name(), time.Minute)
	require.NoError(t, err)
	due, waiting := overdue(t, api), overdue(t, api)
	created, err := newScheduler(t, api).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	future := created.Events[0]
	c.exec(t, "worker", "DELETE FROM almanac.leases WHERE token = $1", unleased.LeaseToken)
	c.exec(t, "worker", "DELETE FROM almanac.queue WHERE event_id = ANY ($1)", []uuid.UUID{due.ID, future.ID})

	var found []uuid.UUID
	for range 2 { // the first page begins anywhere
		released, err := worker.ReleaseExpired(t.Context(), 10, 1000)
		for _, e := range released {
			found = append(found, e.ID)
		}
		if len(released) > 0 {
			require.ErrorContains(t, err, lostEvents)
		}
	}
	require.ElementsMatch(t, []uuid.UUID{unleased.ID, due.ID, future.ID}, found, "observers are notified")
	_, err = worker.ReleaseExpired(t.Context(), 10, 1000)
	require.NoError(t, err)
	_, err = worker.ReleaseExpired(t.Context(), 10, 1000)
	require.NoError(t, err)

	again, err := api.Event(t.Context(), future.ID)
	require.NoError(t, err)
	require.Equal(t, almanac.Pending, again.Status)
	require.Equal(t, future.Due, again.AvailableAt)
	require.Zero(t, again.ClaimCount, "so an edit can still move it")
	claimed, err := worker.Claim(t.Context(), claimOf([]string{almanac.TypeBirthday}, time.Minute))
	require.NoError(t, err)
	var ids []uuid.UUID
	for _, e := range claimed.Events {
		ids = append(ids, e.ID)
	}
	require.ElementsMatch(t, []uuid.UUID{unleased.ID, due.ID, waiting.ID}, ids)
	settled, err := worker.Settle(t.Context(), []almanac.Settlement{
		{Event: unleased, Outcome: almanac.Delivered(unleased.UpdatedAt)},
		{Event: held, Outcome: almanac.Delivered(held.UpdatedAt)},
		{Event: each.Events[0], Outcome: almanac.Delivered(held.UpdatedAt)},
	})
	require.NoError(t, err)
	require.Error(t, settled[0].Err, "the process that had lost its lease stores nothing")
	require.NoError(t, settled[1].Err)
	require.NoError(t, settled[2].Err)
}

// The walk goes on over claims, settlements, releases and edits, while rows of the queue are deleted. No event is in flight twice.
func TestTheSearchForLostEventsTakesNoEventOfAProgram(t *testing.T) {
	t.Parallel()
	const users, deliveries = 12, 60
	pool := pgtest.Pool(t, pgtest.MaxConns(16))
	store := mustStore(t, pool)
	registry, err := almanac.NewRegistry(heartbeat{})
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	delivered := make(map[string]int)
	deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if delivered[d.Event.IdempotencyKey.String()]++; len(delivered) >= deliveries {
			stop()
		}
		return nil
	})
	var running sync.WaitGroup
	var editor almanac.Scheduler
	for range 3 { // as in three processes
		s, err := almanac.NewScheduler(mustStore(t, pool), registry, almanac.WithDeliverer("test", deliver), almanac.WithSweep(20*time.Millisecond))
		require.NoError(t, err)
		running.Go(func() { _ = s.Run(ctx) })
		editor = s
	}
	var ids []uuid.UUID
	for range users {
		created, err := editor.CreateUser(t.Context(), ada)
		require.NoError(t, err)
		ids = append(ids, created.User.ID)
	}
	running.Go(func() {
		for ctx.Err() == nil {
			_, _ = pool.Exec(ctx, "DELETE FROM almanac.queue WHERE event_id = (SELECT event_id FROM almanac.queue ORDER BY random() LIMIT 1)")
			_, _ = editor.UpdateUser(ctx, ids[rand.IntN(users)], almanac.ProfileChange{Timezone: new(sameClocks[rand.IntN(len(sameClocks))])})
			_, _ = store.ReleaseExpired(ctx, 100, 1000)
		}
	})
	running.Wait()

	require.GreaterOrEqual(t, len(delivered), deliveries)
	for key, n := range delivered {
		require.Equal(t, 1, n, key)
	}
	for range 3 {
		_, err = store.ReleaseExpired(t.Context(), 100, 1000)
	}
	require.NoError(t, err)
	var lost int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM almanac.series s WHERE s.event_id IS NOT NULL
		AND (SELECT count(*) FROM almanac.queue q WHERE q.event_id = s.event_id AND q.series_id = s.id)
			+ (SELECT count(*) FROM almanac.processing_events p WHERE p.id = s.event_id) <> 1`).Scan(&lost))
	require.Zero(t, lost)
}

// Rows that row security hides look as if they were deleted. So statements fail instead.
func TestRowSecurityLosesNoEvent(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"users", "series", "queue", "leases"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			c := newCast(t)
			worker := c.store(t, "worker")
			expired, waiting := overdue(t, c.store(t, "api")), overdue(t, c.store(t, "api"))
			_, err := worker.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Millisecond})
			require.NoError(t, err)
			c.exec(t, "owner", "CREATE TABLE almanac.of_the_host (id integer)")
			c.exec(t, "owner", "ALTER TABLE almanac.of_the_host ENABLE ROW LEVEL SECURITY")
			require.NoError(t, worker.Verify(t.Context()))
			c.exec(t, "owner", "ALTER TABLE almanac."+table+" ENABLE ROW LEVEL SECURITY")

			for range 3 {
				_, err = worker.Claim(t.Context(), claimOf([]string{almanac.TypeBirthday}, time.Minute))
				if table != "leases" {
					require.ErrorContains(t, err, "row-level security")
				}
				_, err = worker.ReleaseExpired(t.Context(), 10, 1000)
				require.ErrorContains(t, err, "row-level security")
			}
			var incomplete *postgres.IncompleteError
			require.ErrorAs(t, worker.Verify(t.Context()), &incomplete)
			require.Equal(t, postgres.IncompleteError{Schema: "almanac", Hidden: []string{table}}, *incomplete)
			require.NoError(t, c.store(t, "owner").Verify(t.Context()), "an owner sees all rows")

			c.exec(t, "owner", "ALTER TABLE almanac."+table+" DISABLE ROW LEVEL SECURITY")
			require.NoError(t, worker.Verify(t.Context()))
			var ids []uuid.UUID
			require.Eventually(t, func() bool {
				_, err = worker.ReleaseExpired(t.Context(), 10, 1000)
				require.NoError(t, err, "no event was lost")
				claim, err := worker.Claim(t.Context(), claimOf([]string{almanac.TypeBirthday}, time.Minute))
				require.NoError(t, err)
				for _, e := range claim.Events {
					ids = append(ids, e.ID)
				}
				return len(ids) == 2
			}, 10*time.Second, 10*time.Millisecond)
			require.ElementsMatch(t, []uuid.UUID{expired.ID, waiting.ID}, ids)
		})
	}
}

// A restore creates keys and triggers after all rows.
func TestVerifyNamesMissingKeysAndTriggers(t *testing.T) {
	t.Parallel()
	for missing, change := range map[string]string{
		"series.series_pkey":         "ALTER TABLE almanac.series DROP CONSTRAINT series_pkey",
		"series.series_user_id_fkey": "ALTER TABLE almanac.series DROP CONSTRAINT series_user_id_fkey",
		"series.series_name_key":     "ALTER TABLE almanac.series DROP CONSTRAINT series_name_key",
		"users.users_followed":       "DROP TRIGGER users_followed ON almanac.users",
		"queue.queue_guard":          "ALTER TABLE almanac.queue DISABLE TRIGGER queue_guard",
	} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			store := mustStore(t, pool)
			require.NoError(t, store.Verify(t.Context()))
			_, err := pool.Exec(t.Context(), change)
			require.NoError(t, err)

			err = store.Verify(t.Context())

			var incomplete *postgres.IncompleteError
			require.ErrorAs(t, err, &incomplete)
			require.Equal(t, postgres.IncompleteError{Schema: "almanac", Missing: []string{missing}}, *incomplete)
			require.ErrorContains(t, err, missing)
			require.NotErrorIs(t, err, almanac.ErrOutdated, "so Run asks again")
		})
	}
}

// During a restore, the rows of the queue may be loaded after the series. Until then no event counts as lost.
func TestASweepLooksForNoLostEventsDuringARestore(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	e := overdue(t, store)
	change := func(sql string) {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	change("DELETE FROM almanac.queue")
	change("ALTER TABLE almanac.series DROP CONSTRAINT series_user_id_fkey")

	for range 2 {
		_, err := store.ReleaseExpired(t.Context(), 10, 1000)
		var incomplete *postgres.IncompleteError
		require.ErrorAs(t, err, &incomplete)
	}
	change("ALTER TABLE almanac.series ADD CONSTRAINT series_user_id_fkey FOREIGN KEY (user_id) REFERENCES almanac.users (id)")
	require.Eventually(t, func() bool {
		_, err := store.ReleaseExpired(t.Context(), 10, 1000)
		return err != nil
	}, 10*time.Second, time.Millisecond)

	require.Equal(t, e.ID, claimOne(t, store).ID)
}

// Health names row security that is switched on later. When it is off again, each event is delivered once.
func TestRunReportsRowSecurity(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"users", "series", "queue"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			c := newCast(t)
			delivered := make(chan uuid.UUID, 10)
			s := newScheduler(t, c.store(t, "worker"), almanac.WithSweep(20*time.Millisecond), almanac.WithPoll(20*time.Millisecond),
				almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
					delivered <- d.Event.ID
					return nil
				})))
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			running.Go(func() { _ = s.Run(ctx) })
			require.Eventually(t, func() bool { return s.Health().Running }, 10*time.Second, time.Millisecond)
			c.exec(t, "owner", "ALTER TABLE almanac."+table+" ENABLE ROW LEVEL SECURITY")
			want := []uuid.UUID{overdue(t, c.store(t, "owner")).ID, overdue(t, c.store(t, "owner")).ID}
			require.Eventually(t, func() bool {
				h := s.Health()
				silent := h.Claim.Err == nil || !strings.Contains(h.Claim.Err.Error(), "row-level security")
				if table == "queue" {
					silent = false // nothing seems to be due, so nothing is claimed
				}
				return !silent && h.Maintenance["release expired leases"].Err != nil
			}, 20*time.Second, 5*time.Millisecond)
			require.Empty(t, delivered)

			c.exec(t, "owner", "ALTER TABLE almanac."+table+" DISABLE ROW LEVEL SECURITY")
			require.ElementsMatch(t, want, []uuid.UUID{<-delivered, <-delivered})
			require.Eventually(t, func() bool { return s.Health().Maintenance["release expired leases"].Err == nil }, 20*time.Second, 5*time.Millisecond)
			require.Empty(t, delivered)
		})
	}
}
