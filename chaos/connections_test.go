package chaos_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

// Two workers whose pools want four connections each may have three, together, beside
// the two on which they listen, and for a while none.
func TestTooFewConnections(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, nil)
		roles, err := os.ReadFile("../docs/roles.sql")
		require.NoError(t, err)
		_, err = r.Pool().Exec(t.Context(), strings.ReplaceAll(string(roles), `:"schema"`, "almanac"))
		require.NoError(t, err)
		_, err = r.Pool().Exec(t.Context(), "CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 5 IN ROLE almanac_worker")
		require.NoError(t, err)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 10})
		as, err := url.Parse(r.Cluster.URL(r.Database))
		require.NoError(t, err)
		as.User = url.UserPassword("few", "few")
		two(r, unhurried, func(o *chaos.Orders) { o.URL = as.String() })
		between(r, time.Second, 2*time.Second)
		few := refusals(r)
		allow(r, "few", 0)
		before := refusals(r)
		time.Sleep(5 * time.Second)
		none := refusals(r) - before
		allow(r, "few", 5)

		r.Allow(chaos.Slots) // a worker that the other leaves no connection loses its leases

		r.Drained(90 * time.Second)
		r.Count("refused for want of enough", few)
		r.Count("refused for want of any", none)
		r.Check("refused for want of enough", "refused for want of any")
		logSettling(r)
		// Nine goroutines of each process ask the database: claims, two settlers, renewal, four maintenance tasks,
		// and the listener. After a refusal a goroutine waits for 0.08 s to 0.1 s, and after each further one twice
		// as long. So it tries at most seven times in five seconds.
		if most := 2 * 9 * 7; none > most {
			t.Errorf("%d connections are refused, want at most %d", none, most)
		}
	})
}

// refusals counts the connections that were refused so far.
func refusals(r *chaos.Run) int {
	r.Helper()
	log, err := r.Cluster.Log()
	require.NoError(r, err)
	return strings.Count(log, "too many connections for role")
}

// allow says how many connections a role may have from now on, and ends those it has if
// there may be none.
func allow(r *chaos.Run, role string, connections int) {
	r.Helper()
	_, err := r.Pool().Exec(r.Context(), fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", role, connections))
	require.NoError(r, err)
	if connections == 0 {
		_, err := r.Pool().Exec(r.Context(), "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE usename = $1", role)
		require.NoError(r, err)
	}
}

// logSettling logs how long it took from an answer until it was stored.
func logSettling(r *chaos.Run) {
	r.Helper()
	var half, most, longest time.Duration
	require.NoError(r, r.Pool().QueryRow(r.Context(), `
		SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY updated_at - executed_at),
			percentile_disc(0.99) WITHIN GROUP (ORDER BY updated_at - executed_at), max(updated_at - executed_at)
		FROM almanac.events WHERE status = 'COMPLETED'`).Scan(&half, &most, &longest))
	r.Logf("stored after the answer: p50 %v p99 %v max %v", half, most, longest)
}

// A hundred calls at once wait for a locked user, for as long as the run lasts, in a process
// that also delivers.
func TestAFloodOfCalls(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
		var popular string
		require.NoError(t, r.Pool().QueryRow(t.Context(), `
			INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone)
			VALUES (gen_random_uuid(), 'Ada', 'Lovelace', '1990-01-01', 'UTC') RETURNING id::text`).Scan(&popular))
		tx, err := r.Pool().Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(t.Context()) }()
		_, err = tx.Exec(t.Context(), "SELECT FROM almanac.users WHERE id = $1 FOR UPDATE", popular)
		require.NoError(t, err)
		worker := r.Work("flooded", unhurried, func(o *chaos.Orders) { o.Flood = popular })

		r.Drained(60 * time.Second)
		var waiting int
		require.NoError(t, r.Pool().QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting))
		r.Count("calls that still wait", waiting)
		r.Check("calls that still wait")
		logSettling(r)
		require.NoError(t, tx.Rollback(t.Context()))
		_, err = worker.Stop(r.Within(20 * time.Second))
		require.NoError(t, err)
	})
}

// Sessions of workers are ended as by an administrator, twenty a second.
func TestSessionsEnded(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 8})
		two(r, unhurried)
		for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
			pids := r.Sessions(t.Context())
			if len(pids) == 0 {
				continue
			}
			var ended bool
			require.NoError(t, r.Pool().QueryRow(t.Context(), "SELECT pg_terminate_backend($1)", pids[r.Random.IntN(len(pids))]).Scan(&ended))
			if ended {
				r.Count("sessions ended", 1)
			}
		}
		r.Drained(120 * time.Second)
		r.Check("sessions ended")
	})
}

// A process of the server is killed, and the server takes all others down with it
// and recovers.
func TestBackendKilled(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, nil)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 8})
		workers := two(r)
		for range 3 {
			between(r, 500*time.Millisecond, 1500*time.Millisecond)
			var pids []int
			for ctx := r.Within(30 * time.Second); len(pids) == 0; time.Sleep(50 * time.Millisecond) {
				require.NoError(t, ctx.Err(), "no session of a worker")
				pids = r.Sessions(ctx)
			}
			require.NoError(t, syscall.Kill(pids[r.Random.IntN(len(pids))], syscall.SIGKILL))
			r.Allow(len(workers) * chaos.Slots)
		}
		r.Drained(60 * time.Second)
		log, err := r.Cluster.Log()
		require.NoError(t, err)
		r.Count("recoveries", strings.Count(log, "terminated by signal 9"))
		r.Check("recoveries")
	})
}

// Between workers and server there is a PgBouncer in transaction mode, which pauses on
// command, and is killed.
func TestPgBouncer(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, nil)
		bouncer, err := r.Cluster.NewBouncer(r.Within(20 * time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { _ = bouncer.Kill() })
		const occurrences = 10
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: occurrences})
		workers := two(r, func(o *chaos.Orders) { o.URL, o.PollOnly = bouncer.URL(r.Database), true })
		between(r, 500*time.Millisecond, 1500*time.Millisecond)
		require.NoError(t, bouncer.Command(r.Within(20*time.Second), "PAUSE"))
		r.Count("paused", 1)
		between(r, time.Second, chaos.Lease+2*time.Second)
		require.NoError(t, bouncer.Command(r.Within(20*time.Second), "RESUME"))
		r.Allow(len(workers) * chaos.Slots)
		for range 2 {
			between(r, 500*time.Millisecond, 1500*time.Millisecond)
			r.Count("left to do at a kill", people*occurrences-r.Finished())
			require.NoError(t, bouncer.Kill())
			r.Allow(len(workers) * chaos.Slots)
			between(r, 100*time.Millisecond, time.Second)
			require.NoError(t, bouncer.Restart(r.Within(20*time.Second)))
		}
		r.Drained(60 * time.Second)
		r.Check("paused", "left to do at a kill")
	})
}
