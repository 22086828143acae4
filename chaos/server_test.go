package chaos_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

const (
	lead     = 3 * time.Second  // for all users to be stored before the first occurrence
	longLead = 15 * time.Second // where each user must have an event, also on a busy machine
	people   = 2 * chaos.Slots  // more than one worker takes at once
)

// unhurried is for rows in which nothing is slow but the machine: no repeat is
// allowed there, and a lease or a call that ran out for want of a processor would
// make one.
func unhurried(o *chaos.Orders) { o.Lease, o.Patience = time.Minute, 20*time.Second }

// two starts two workers, and returns when something was delivered.
func two(r *chaos.Run, change ...func(*chaos.Orders)) []*chaos.Process {
	r.Helper()
	workers := []*chaos.Process{r.Work("one", change...), r.Work("two", change...)}
	for ctx := r.Within(30 * time.Second); ; {
		if ledger, _ := r.Receiver.Ledger(); len(ledger) > 0 {
			return workers
		}
		require.NoError(r, ctx.Err(), "nothing is delivered")
		time.Sleep(10 * time.Millisecond)
	}
}

// between waits for a random time.
func between(r *chaos.Run, least, most time.Duration) {
	time.Sleep(least + time.Duration(r.Random.Int64N(int64(most-least))))
}

// The server is stopped as by pg_ctl stop -m immediate, again and again.
func TestPostgresStoppedAtOnce(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, nil)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 8})
		workers := two(r)
		for range 3 {
			between(r, 500*time.Millisecond, 1500*time.Millisecond)
			require.NoError(t, r.Cluster.Crash(r.Within(10*time.Second)))
			r.Count("crashed", 1)
			r.Allow(len(workers) * chaos.Slots)
			require.NoError(t, r.Cluster.Restart(r.Within(30*time.Second)))
			r.Reconnect()
		}
		r.Drained(60 * time.Second)
		r.Check("crashed")
	})
}

// Commits are acknowledged before they are safe, and the server loses the last of
// them: what was finished is unfinished again.
func TestAcknowledgedCommitsLost(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s"})
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
		workers := two(r)
		// The server may just have written everything down, so it has up to three tries.
		for try := 0; try < 3 && r.Counted("commits lost") == 0; try++ {
			between(r, time.Second, 2*time.Second)
			require.NoError(t, r.Cluster.Crash(r.Within(10*time.Second)))
			for _, w := range workers {
				require.NoError(t, w.Signal(syscall.SIGSTOP)) // or it would be done again before it is counted
			}
			finished := r.Finished()
			require.NoError(t, r.Cluster.Restart(r.Within(30*time.Second)))
			r.Reconnect()
			r.Forget()
			countLost(r, finished, len(workers))
			for _, w := range workers {
				require.NoError(t, w.Signal(syscall.SIGCONT))
			}
		}

		r.Drained(60 * time.Second)
		r.Check("commits lost")
	})
}

// countLost counts how much of what workers had finished the database has lost,
// which they do again, with what they had in flight.
func countLost(r *chaos.Run, finished, workers int) {
	r.Helper()
	var kept int
	require.NoError(r, r.Pool().QueryRow(r.Context(), "SELECT count(*) FROM almanac.events WHERE status = 'COMPLETED'").Scan(&kept))
	lost := max(finished-kept, 0)
	r.Count("commits lost", lost)
	r.Allow(lost + workers*chaos.Slots)
}

// The server's processes stand still for longer than a lease, and go on.
func TestPostgresFrozen(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, nil)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
		workers := two(r)
		require.NoError(t, r.Cluster.Freeze())
		r.Count("frozen", 1)
		r.Allow(len(workers) * chaos.Slots)
		time.Sleep(chaos.Lease + 2*time.Second)
		require.NoError(t, r.Cluster.Thaw())

		r.Drained(60 * time.Second)
		r.Check("frozen")
	})
}

// The connection between workers and database is faulty for a while.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for name, toxics := range map[string][]string{
		"half open":          {`{"type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`, `{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`},
		"answers swallowed":  {`{"type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`},
		"slow":               {`{"type": "latency", "stream": "downstream", "attributes": {"latency": 150, "jitter": 100}}`},
		"in slices":          {`{"type": "slicer", "stream": "downstream", "attributes": {"average_size": 20, "size_variation": 10, "delay": 200}}`},
		"reset":              {`{"type": "reset_peer", "stream": "downstream", "attributes": {"timeout": 200}}`},
		"cut after so much":  {`{"type": "limit_data", "stream": "downstream", "attributes": {"bytes": 20000}}`},
		"cut in the request": {`{"type": "limit_data", "stream": "upstream", "attributes": {"bytes": 20000}}`},
	} {
		t.Run(name, func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := alone(t, seed, nil)
				r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
				workers := two(r)
				for i, toxic := range toxics {
					require.NoError(t, r.Cluster.Toxic(strings.Replace(toxic, "{", fmt.Sprintf(`{"name": "t%d", `, i), 1)))
				}
				r.Count("failing", 1)
				r.Allow(2 * len(workers) * chaos.Slots)
				between(r, 2*time.Second, 5*time.Second)
				r.Cluster.Heal(t.Context())
				require.NoError(t, r.Cluster.Cut())

				r.Drained(60 * time.Second)
				r.Check("failing")
			})
		})
	}
}

// The database has settings that end or reject the library's statements.
func TestHostileSettings(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]string{
		"short statements":    "statement_timeout = '300ms'",
		"short waits":         "lock_timeout = '50ms'",
		"idle in transaction": "idle_in_transaction_session_timeout = '200ms'",
		"a zone of its own":   "timezone = 'Asia/Kathmandu'",
		"another date style":  "datestyle = 'SQL, DMY'",
	} {
		t.Run(name, func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 4})
				_, err := r.Pool().Exec(t.Context(), "ALTER DATABASE "+r.Database+" SET "+setting)
				require.NoError(t, err)
				two(r, unhurried)
				blocked, err := r.Pool().Begin(t.Context()) // another transaction that locks users and their events
				require.NoError(t, err)
				_, err = blocked.Exec(t.Context(), "SELECT FROM almanac.users u JOIN almanac.series s ON s.user_id = u.id LIMIT 5 FOR UPDATE")
				require.NoError(t, err)
				r.Count("held", 1)
				time.Sleep(time.Second)
				require.NoError(t, blocked.Rollback(t.Context()))

				r.Drained(60 * time.Second)
				r.Check("held")
			})
		})
	}
}

// A transaction from before everything stays open for the whole run.
func TestAnOldTransaction(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		old, err := r.Pool().Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = old.Rollback(t.Context()) }()
		_, err = old.Exec(t.Context(), "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		require.NoError(t, err)
		_, err = old.Exec(t.Context(), "SELECT count(*) FROM almanac.events")
		require.NoError(t, err)
		r.Count("held", 1)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
		two(r, unhurried)
		r.Drained(60 * time.Second)
		r.Check("held")
	})
}

// A role whose transactions are serializable unless they say otherwise.
func TestASerializableRole(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, map[string]string{"default_transaction_isolation": "serializable"})
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
		two(r, unhurried)
		r.Drained(60 * time.Second)
		r.Check()

		log, err := r.Cluster.Log()
		require.NoError(t, err)
		if n := strings.Count(log, "could not serialize"); n > 0 {
			_, after, _ := strings.Cut(log, "could not serialize")
			t.Errorf("%d serialization failures: something runs under the role's isolation: %.1000s", n, after)
		}
	})
}
