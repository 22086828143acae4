package postgres_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

var broadcastZones = []string{"UTC", "Asia/Tokyo", "Europe/Berlin", "America/Lima", "Asia/Kolkata", "Pacific/Auckland", "America/New_York", "Africa/Lagos"}

// newBroadcaster returns a scheduler and a sender on a pool.
func newBroadcaster(t *testing.T, pool *pgxpool.Pool) (almanac.Scheduler, *broadcast.Sender) {
	t.Helper()
	store, err := postgres.New(pool)
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.OneOff{Type: "NEWS"})
	require.NoError(t, err)
	s, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	sender, err := broadcast.New(s, store)
	require.NoError(t, err)
	return s, sender
}

// createCitizens stores users, a number in each zone.
func createCitizens(t *testing.T, s almanac.Scheduler, each int) {
	t.Helper()
	var profiles iter.Seq2[almanac.Profile, error] = func(yield func(almanac.Profile, error) bool) {
		for i := range each * len(broadcastZones) {
			p := ada
			p.Timezone = broadcastZones[i%len(broadcastZones)]
			if !yield(p, nil) {
				return
			}
		}
	}
	done, err := s.CreateUsers(t.Context(), profiles, almanac.CreateUsersOptions{})
	require.NoError(t, err)
	require.Empty(t, done.Refused)
}

func listOf[T any](t *testing.T, db postgres.DB, sql string, args ...any) []T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return list
}

// Programs lose their connections at any point, and die with a lease. Each user still has one event, with the key of its instant.
func TestABroadcastReachesEachUserOnceWhenProgramsDie(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	s, sender := newBroadcaster(t, pool)
	createCitizens(t, s, 300)
	at := calendar.WallTimeOf(time.Now().UTC().Add(72 * time.Hour).Truncate(time.Second))
	_, err := sender.Start(t.Context(), broadcast.Broadcast{Name: "sale", Type: "NEWS", At: at, Passed: broadcast.Skip})
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var programs sync.WaitGroup
	for range 3 {
		_, sender := newBroadcaster(t, pool)
		programs.Go(func() {
			for ctx.Err() == nil { // a program that starts again has another token
				life, end := context.WithTimeout(ctx, 100*time.Millisecond)
				_ = sender.Run(life, broadcast.RunOptions{Rate: 25_000, Poll: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
				end()
			}
		})
	}
	require.Eventually(t, func() bool {
		// A dead program does nothing until its lease has expired. Any of these calls may lose its own connection.
		_, _ = pool.Exec(t.Context(), "UPDATE almanac.broadcasts SET lease_until = now()")
		_, _ = pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%almanac%' AND random() < 0.3`)
		var state string
		return pool.QueryRow(t.Context(), "SELECT state FROM almanac.broadcasts").Scan(&state) == nil && state == "stored"
	}, time.Minute, 30*time.Millisecond)
	cancel()
	programs.Wait()

	type row struct {
		users, events, keys int
		resolved            bool
	}
	var is row
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM almanac.users), count(*), count(DISTINCT s.user_id), bool_and(s.target_timestamp_local = $1 AND s.target_timezone = u.timezone)
		FROM almanac.series s JOIN almanac.users u ON u.id = s.user_id WHERE s.event_type = 'NEWS'`, at.Labelled()).Scan(&is.users, &is.events, &is.keys, &is.resolved))
	require.Equal(t, row{2400, 2400, 2400, true}, is)
	found, err := s.Repository().Find(t.Context(), almanac.OfType("NEWS"), almanac.Page{Limit: 1000})
	require.NoError(t, err)
	for _, e := range found.Items {
		require.Equal(t, almanac.NewIdempotencyKey(e.UserID.String(), e.Due, e.Type), e.IdempotencyKey)
	}
}

// While two programs store and two claim, a broadcast is stopped. What was pending when Stop returned is never claimed, and nothing is added.
func TestNothingOfABroadcastIsStoredOrClaimedAfterAStop(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	s, sender := newBroadcaster(t, pool)
	createCitizens(t, s, 250)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var programs sync.WaitGroup
	defer programs.Wait()
	defer cancel()
	for range 2 {
		_, sender := newBroadcaster(t, pool)
		programs.Go(func() { _ = sender.Run(ctx, broadcast.RunOptions{Rate: 5000, Poll: 100 * time.Millisecond}) })
		claimer, err := postgres.New(pool)
		require.NoError(t, err)
		programs.Go(func() {
			for ctx.Err() == nil {
				_, _ = claimer.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Owner: "test", Types: []string{"NEWS"}, Limit: 20, Lease: time.Minute})
			}
		})
	}
	for round := range 5 {
		b := broadcast.Broadcast{Name: fmt.Sprintf("round-%d", round), Type: "NEWS", Instant: time.Now().Add(-time.Hour), Passed: broadcast.Now}
		_, err := sender.Start(t.Context(), b)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			return listOf[int](t, pool, "SELECT count(*)::integer FROM almanac.leases l JOIN almanac.series s ON s.id = ANY (l.series_ids) WHERE s.lane = $1", b.Lane())[0] > 20
		}, time.Minute, time.Millisecond)
		_, err = sender.Stop(t.Context(), b.Name, "typo")
		require.NoError(t, err)
		stored := listOf[int](t, pool, "SELECT count(*)::integer FROM almanac.series WHERE lane = $1", b.Lane())[0]
		pending := listOf[string](t, pool, "SELECT event_id::text FROM almanac.queue WHERE lane = $1", b.Lane())
		require.Eventually(t, func() bool {
			return listOf[int](t, pool, "SELECT count(*)::integer FROM almanac.queue WHERE lane = $1", b.Lane())[0] == 0
		}, time.Minute, 10*time.Millisecond)
		require.Equal(t, stored, listOf[int](t, pool, "SELECT count(*)::integer FROM almanac.series WHERE lane = $1", b.Lane())[0])
		cancelled := listOf[int](t, pool, `SELECT count(*)::integer FROM almanac.history
			WHERE id = ANY ($1::text[]::uuid[]) AND status = 'CANCELLED' AND claim_count = 0 AND failure_reason = 'broadcast stopped: typo'`, pending)[0]
		require.Equal(t, len(pending), cancelled)
	}
}
