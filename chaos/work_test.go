package chaos_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/postgres"
)

// The receiver answers everything there is, and sometimes nothing, after it has
// taken the delivery.
func TestAReceiverWithRandomAnswers(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		answers := []int{200, 204, 500, 503, 429, 408, 425, 0}
		var mu sync.Mutex
		r.Receiver.Answer(func(int, chaos.Entry) int {
			mu.Lock()
			defer mu.Unlock()
			status := answers[r.Random.IntN(len(answers))]
			if status/100 != 2 {
				r.Count("refused", 1)
			}
			return status
		})
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 4})
		two(r, unhurried)
		r.Drained(90 * time.Second)
		r.Check("refused")
	})
}

// A worker gets a SIGTERM while it holds events. It finishes the deliveries that it can
// finish in time. No delivery is repeated, and the other worker takes the rest at once.
func TestStoppedWithEventsInFlight(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.Receiver.Answer(func(int, chaos.Entry) int { time.Sleep(300 * time.Millisecond); return http.StatusOK })
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
		workers := two(r, unhurried)
		took, err := workers[0].Stop(r.Within(20 * time.Second))
		require.NoError(t, err)
		r.Count("stopped", 1)
		t.Logf("stopped after %v", took.Round(time.Millisecond))
		r.Drained(60 * time.Second)
		r.Check("stopped")
	})
}

// The same with a receiver that does not answer before the worker has to go.
func TestStoppedWhileTheReceiverHangs(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		hang := make(chan struct{})
		r.Receiver.Answer(func(n int, _ chaos.Entry) int {
			if n < 10 {
				<-hang
			}
			return http.StatusOK
		})
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 4})
		worker := r.Work("leaving")
		_, err := worker.Await(r.Within(20*time.Second), func(report chaos.Report) bool { return report.Kind == "event.claimed" })
		require.NoError(t, err)
		_, err = worker.Stop(r.Within(20 * time.Second))
		close(hang)
		require.NoError(t, err)
		r.Count("stopped", 1)
		r.Allow(10) // the receiver has them, and no worker knows

		r.Work("staying")
		r.Drained(60 * time.Second)
		r.Check("stopped")
	})
}

// Some events harm the worker that delivers them. They end as FAILED after the allowed number
// of attempts, and all other events go on.
func TestPoison(t *testing.T) {
	t.Parallel()
	for poison, limit := range map[chaos.Poison]string{
		chaos.Panics:  "retry_count = 20",
		chaos.Exits:   "retry_count = 20",
		chaos.Kills:   "crash_count >= 5",
		chaos.Plans:   "status = 'FAILED' AND crash_count >= 6", // at the first attempt to store it, the worker died too
		chaos.Lingers: "status = 'COMPLETED' AND retry_count = 2",
	} {
		t.Run(string(poison), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 3})
				r.CreateUsers(1, chaos.Plan{Start: chaos.From(lead), Interval: 3600, Count: 1, Poison: poison})
				ctx, stop := context.WithCancel(t.Context())
				var keeper sync.WaitGroup
				keeper.Go(func() { keep(ctx, r) })
				defer func() { stop(); keeper.Wait() }() // not before the check: a worker has to sweep
				stalls := 0
				if poison == chaos.Plans {
					stalls = 1
				}
				r.DrainedBut(stalls, 120*time.Second)
				var judged int
				var as string
				require.NoError(t, r.Pool().QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE "+limit+`), coalesce(string_agg(concat_ws(' ', status, retry_count, crash_count, failure_reason), '; '), 'none')
					FROM almanac.events WHERE delivery_payload->>'message' LIKE '%' || $1`, string(poison)).Scan(&judged, &as))
				require.Equal(t, 1, judged, "the poisoned event: %s", as)
				r.Count("poisoned", judged)
				r.Allow(20)
				r.Check("poisoned")
			})
		})
	}
}

// keep starts a worker whenever there is none, as a supervisor does.
func keep(ctx context.Context, r *chaos.Run) {
	for ctx.Err() == nil {
		w := r.Work("kept")
		select {
		case <-w.Ended():
			r.Count("restarted", 1)
			r.Allow(chaos.Slots)
		case <-ctx.Done():
			_ = w.Kill()
		}
	}
}

// A day of downtime leaves a backlog, all of which is delivered, oldest first.
func TestBacklog(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		// The last is still to come when all users are stored, or there would be nothing to backdate.
		plan := chaos.Plan{Start: chaos.From(3*lead - 24*time.Hour), Interval: 3600, Count: 25}
		r.Count("late", backdate(r, plan, r.CreateUsers(people, plan)))
		r.Work("back", unhurried)
		r.Drained(90 * time.Second)
		r.CheckEdited("late")

		last := make(map[string]string)
		ledger, _ := r.Receiver.Ledger()
		for _, e := range ledger {
			person, key, _ := strings.Cut(e.Occurrence, " ")
			if key <= last[person] {
				t.Errorf("%s came after %s", key, last[person])
			}
			last[person] = key
		}
	})
}

// Another program keeps a few due events locked: the others are delivered meanwhile.
func TestDueEventsLockedByAnother(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 3600, Count: 1})
		tx, err := r.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT FROM almanac.queue ORDER BY available_at, event_id LIMIT 5 FOR UPDATE")
		require.NoError(t, err)
		r.Work("one", unhurried)
		delivered, _ := r.Receiver.Ledger()
		others := r.Expected() - 5
		for ctx := r.Within(30 * time.Second); len(delivered) < others && ctx.Err() == nil; {
			time.Sleep(20 * time.Millisecond)
			delivered, _ = r.Receiver.Ledger()
		}
		require.NoError(t, tx.Rollback(t.Context()))
		r.Count("delivered meanwhile", len(delivered))
		require.Len(t, delivered, others)
		r.Drained(40 * time.Second)
		r.Check("delivered meanwhile")
	})
}

// Sixty-four claimers and a hundred thousand due events: each is had by one.
func TestClaimStorm(t *testing.T) {
	t.Parallel()
	share(t)
	const claimers, due = 64, 100_000
	r := alone(t, *seed, nil)
	_, err := r.Pool().Exec(t.Context(), `
		INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone) VALUES (gen_random_uuid(), 'Ada', 'Lovelace', '1990-01-01', 'UTC');
		INSERT INTO almanac.series (user_id, event_type, name, current_user_version, event_id, occurrence_key, target_timestamp_utc,
			target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version)
		SELECT u.id, 'TICK', n || '/', 1, gen_random_uuid(), n || '/1', due, due AT TIME ZONE 'UTC', 'UTC', 'forward,first,feb28,clamp',
			'event-' || n, '{}', 1
		FROM almanac.users u, generate_series(1, 100000) n, LATERAL (SELECT now() - interval '1 hour' + n * interval '1 millisecond') AS d (due);
		INSERT INTO almanac.queue SELECT target_timestamp_utc, event_id, id, event_type FROM almanac.series;
		INSERT INTO almanac.keys SELECT idempotency_key FROM almanac.series`)
	require.NoError(t, err)
	config, err := pgxpool.ParseConfig(r.Cluster.Direct(r.Database))
	require.NoError(t, err)
	config.MaxConns = claimers
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	store, err := postgres.New(pool, postgres.WithTimeout(time.Minute))
	require.NoError(t, err)

	var mu sync.Mutex
	claimed := make(map[uuid.UUID]int)
	began := time.Now()
	var wg sync.WaitGroup
	for range claimers {
		wg.Go(func() {
			for {
				claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"TICK"}, Limit: 100, Lease: time.Hour})
				if err != nil || len(claim.Events) == 0 {
					if err != nil {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				for _, e := range claim.Events {
					claimed[e.ID]++
				}
				mu.Unlock()
				if len(claim.Events) > 100 {
					t.Errorf("a batch of %d", len(claim.Events))
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d claims of one event each, %.0f a second", len(claimed), float64(len(claimed))/time.Since(began).Seconds())
	require.Len(t, claimed, due)
	for id, times := range claimed {
		require.Equal(t, 1, times, "claims of %s", id)
	}
}

// Everything at random, for as long as the flag -mixed says.
func TestEverythingAtOnce(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, nil)
		seconds := int(mixed.Seconds()) + 3
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: seconds})
		workers := two(r)
		faults := []func(){
			func() { // a worker dies, and is replaced
				i := r.Random.IntN(len(workers))
				require.NoError(t, workers[i].Kill())
				workers[i] = r.Work("new")
				r.Count("kills", 1)
			},
			func() { // a worker stands still
				w := workers[r.Random.IntN(len(workers))]
				require.NoError(t, errors.Join(w.Signal(syscall.SIGSTOP)))
				between(r, time.Second, chaos.Lease+2*time.Second)
				require.NoError(t, w.Signal(syscall.SIGCONT))
				r.Count("pauses", 1)
			},
			func() { require.NoError(t, r.Cluster.Cut()); r.Count("cuts", 1) },
			func() {
				require.NoError(t, r.Cluster.Crash(r.Within(20*time.Second)))
				require.NoError(t, r.Cluster.Restart(r.Within(30*time.Second)))
				r.Reconnect()
				r.Count("crashes", 1)
			},
			func() {
				require.NoError(t, r.Cluster.Freeze())
				between(r, 500*time.Millisecond, 3*time.Second)
				require.NoError(t, r.Cluster.Thaw())
				r.Count("freezes", 1)
			},
		}
		for began := time.Now(); time.Since(began) < *mixed; {
			faults[r.Random.IntN(len(faults))]()
			r.Count("faults", 1)
			r.Allow(len(workers) * chaos.Slots)
			between(r, 100*time.Millisecond, time.Second)
		}
		r.Drained(120 * time.Second)
		r.Check("faults")
	})
}
