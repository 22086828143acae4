package chaos_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/postgres"
)

// timed is a run on a server with a clock of its own, by which the receiver goes.
func timed(t *testing.T, seed uint64, clock chaos.Clock) *chaos.Run {
	t.Helper()
	cluster, err := chaos.NewClusterBy(t.Context(), clock)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cluster.Close(context.Background()) })
	r := chaos.NewRun(t, cluster, seed)
	r.GoByDatabase()
	return r
}

// gate is a receiver's answer that waits while the gate is shut.
type gate struct {
	waiting atomic.Int64
	mu      sync.RWMutex
}

func shut(r *chaos.Run) *gate {
	g := new(gate)
	g.mu.Lock()
	r.Receiver.Answer(func(int, chaos.Entry) int {
		g.waiting.Add(1)
		g.mu.RLock()
		defer g.mu.RUnlock()
		return http.StatusOK
	})
	return g
}

func (g *gate) open() { g.mu.Unlock() }

// noneFailed fails the run if an event was given up: no clock is a reason for that.
func noneFailed(r *chaos.Run) {
	r.Helper()
	var failed int
	var reason string
	require.NoError(r, r.Pool().QueryRow(r.Context(), "SELECT count(*), coalesce(min(failure_reason), '') FROM almanac.events WHERE status = 'FAILED'").Scan(&failed, &reason))
	require.Zero(r, failed, reason)
}

// stale counts deliveries that were signed before the clock was set last.
func stale(r *chaos.Run) (n int) {
	ledger, _ := r.Receiver.Ledger()
	for _, e := range ledger {
		n += min(e.Clock, 1)
	}
	return n
}

// backdate replaces the pending events of users by events for the first occurrence of their
// plan, which have waited since.
func backdate(r *chaos.Run, plan chaos.Plan, ids []uuid.UUID) int {
	r.Helper()
	store, err := postgres.New(r.Pool())
	require.NoError(r, err)
	wall, err := calendar.ParseWallTime(plan.Start)
	require.NoError(r, err)
	for _, id := range ids {
		_, err := store.EditUser(r.Context(), id, func(is almanac.Roster) (almanac.Edit, error) {
			require.Len(r, is.Pending, 1)
			e := is.Pending[0]
			e.ID, e.OccurrenceKey, e.Wall, e.Due, e.AvailableAt = uuid.Must(uuid.NewV7()), plan.Start, wall, wall.Labelled(), wall.Labelled()
			e.IdempotencyKey = almanac.NewIdempotencyKey(id.String(), e.Due, e.Type)
			e.Payload, err = json.Marshal(map[string]string{"message": id.String() + " " + plan.Start, "occurrence": plan.Start})
			return almanac.Edit{Removed: is.Pending, New: []almanac.Event{e}}, err
		})
		require.NoError(r, err)
	}
	return len(ids)
}

// The database's clock is set two hours forward. Every lease has expired by it, so events in
// flight are delivered again by other workers, and no other events are.
func TestDatabaseClockSetForward(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := timed(t, seed, chaos.Clock{})
		gate := shut(r)
		patient := func(o *chaos.Orders) { o.Patience = 20 * time.Second }
		for _, w := range []*chaos.Process{r.Work("one", patient), r.Work("two", patient)} {
			arrive(r, w, chaos.Ready)
		}
		r.CreateUsers(people, chaos.Plan{Start: r.From(longLead), Interval: 1, Count: 8})
		until(r, "SELECT count(*) = $1 FROM almanac.events WHERE status = 'PROCESSING'", people)
		r.SetClock(2 * time.Hour)
		r.Count("held", people)
		r.Allow(people)
		// Renewed, or taken away.
		until(r, "SELECT count(*) = 0 FROM almanac.leases WHERE expires_at < clock_timestamp()")
		gate.open()

		r.Drained(60 * time.Second)
		r.Check("hours forward", "held")
		noneFailed(r)
	})
}

// The database's clock is set back, first after a worker has died, and then while two
// workers run. The running workers keep their events. The others deliver the events of the
// dead worker as soon as they are due: not before, and not hours later, when the clock
// reaches the end of its lease again.
func TestDatabaseClockSetBack(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		const half = chaos.Slots / 2
		r := timed(t, seed, chaos.Clock{})
		long := chaos.Plan{Start: r.From(lead - 3*time.Hour), Interval: 3 * 3600, Count: 2}
		r.Count("long due", backdate(r, long, r.CreateUsers(half, long)))
		r.CreateUsers(half, chaos.Plan{Start: r.From(lead), Interval: 1, Count: 3})
		behind := shut(r)
		victim := r.Work("victim", func(o *chaos.Orders) { o.Patience = 20 * time.Second })
		until(r, "SELECT count(*) = $1 FROM almanac.events WHERE status = 'PROCESSING'", chaos.Slots)
		require.NoError(t, victim.Kill())
		behind.open()
		r.SetClock(-time.Hour)
		r.Count("killed", 1)
		r.Allow(chaos.Slots)

		gate := shut(r)
		r.Count("long due", backdate(r, long, r.CreateUsers(half, long)))
		r.Work("one", unhurried)
		r.Work("two", unhurried)
		for ctx := r.Within(30 * time.Second); gate.waiting.Load() < half; time.Sleep(20 * time.Millisecond) {
			require.NoError(t, ctx.Err(), "nothing is delivered")
		}
		r.SetClock(-2 * time.Hour)
		gate.open()
		until(r, "SELECT count(*) = $1 FROM almanac.events WHERE status = 'COMPLETED'", 2*half)
		until(r, "SELECT count(*) = $1 FROM almanac.events WHERE status = 'PENDING' AND available_at >= target_timestamp_utc", 3*half)

		r.SetClock(0)
		r.Drained(60 * time.Second)
		r.CheckEdited("hours back", "long due", "killed")
		noneFailed(r)
	})
}

// The database's clock is set back while a claim is on its way: what was due when it
// began is claimed, and is not taken for early.
func TestDatabaseClockSetBackInAClaim(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := timed(t, seed, chaos.Clock{})
		r.CreateUsers(people, chaos.Plan{Start: r.From(lead), Interval: 1, Count: 4})
		until(r, "SELECT bool_and(available_at < clock_timestamp()) FROM almanac.events")
		tx, err := r.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "LOCK TABLE almanac.leases")
		require.NoError(t, err)
		// A claim that is prepared beforehand would wait with that, and begin afterwards.
		r.Work("one", unhurried, func(o *chaos.Orders) { o.URL += "&default_query_exec_mode=exec" })
		until(r, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '/* almanac claim */%'")
		r.SetClock(-2 * time.Hour)
		require.NoError(t, tx.Rollback(t.Context()))
		until(r, "SELECT bool_or(status IN ('COMPLETED', 'FAILED')) AND NOT bool_or(status = 'PROCESSING') FROM almanac.events")
		r.Count("claimed before", stale(r))

		r.SetClock(0)
		r.Drained(60 * time.Second)
		r.Check("hours back", "claimed before")
		noneFailed(r)
	})
}

// The database's clock is set again and again, hours forward and hours back.
func TestDatabaseClockJumps(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := timed(t, seed, chaos.Clock{})
		r.CreateUsers(people, chaos.Plan{Start: r.From(lead), Interval: 900, Count: 16}) // four hours
		r.Receiver.Answer(func(int, chaos.Entry) int { time.Sleep(50 * time.Millisecond); return http.StatusOK })
		workers := two(r)
		hours := []int{-2, -1, 0, 1, 2, 3}
		r.Random.Shuffle(len(hours), func(i, j int) { hours[i], hours[j] = hours[j], hours[i] })
		for _, ahead := range append(hours, 4) {
			r.SetClock(time.Duration(ahead) * time.Hour)
			r.Allow(len(workers) * chaos.Slots)
			between(r, 200*time.Millisecond, 1500*time.Millisecond)
		}
		r.Drained(90 * time.Second)
		r.Count("signed before", stale(r))
		require.LessOrEqual(t, stale(r), (len(hours)+1)*len(workers)*chaos.Slots, "deliveries signed by a clock that is over")
		r.Check("hours forward", "hours back")
		noneFailed(r)
	})
}

// The database's clock runs too fast or too slow.
func TestDatabaseClockDrifts(t *testing.T) {
	t.Parallel()
	for name, rate := range map[string]float64{"fast": 1.5, "slow": 0.75} {
		t.Run(name, func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := timed(t, seed, chaos.Clock{Rate: rate})
				before := time.Until(r.Now())
				r.CreateUsers(people, chaos.Plan{Start: r.From(lead), Interval: 1, Count: 6})
				two(r, unhurried)
				r.Drained(60 * time.Second)
				r.Count("seconds of drift", int((time.Until(r.Now()) - before).Abs().Seconds()))
				r.Check("seconds of drift")
				noneFailed(r)
			})
		})
	}
}

// Workers whose clocks are a day off the database's. That has no effect: due events, signatures
// and the sleep until the next event follow the database.
func TestWorkerClockADayOff(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": -24 * time.Hour, "behind": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := timed(t, seed, chaos.Clock{Ahead: ahead})
				r.Count("hours off", int(time.Until(r.Now()).Abs().Round(time.Hour).Hours()))
				r.CreateUsers(people, chaos.Plan{Start: r.From(lead), Interval: 1, Count: 6})
				r.Work("one", unhurried)
				r.Work("two", unhurried)
				r.Drained(60 * time.Second)
				var transactions int
				require.NoError(t, r.Pool().QueryRow(t.Context(), "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&transactions))
				r.Count("transactions", transactions)
				r.Check("hours off")
				noneFailed(r)
			})
		})
	}
}
