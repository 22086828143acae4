package chaos_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
)

// watchRefusals lets the database itself note each event that is claimed for the first time
// although its user has opted out.
const watchRefusals = `
CREATE TABLE refused (event uuid);
CREATE FUNCTION look_at_refusal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO refused
	SELECT s.event_id
	FROM unnest(NEW.series_ids) AS h (series_id)
	JOIN almanac.series s ON s.id = h.series_id
	JOIN almanac.users u ON u.id = s.user_id
	WHERE s.claim_count = 0 AND u.opt_outs IS NOT NULL;
	RETURN NULL;
END $$;
CREATE TRIGGER refused AFTER INSERT ON almanac.leases FOR EACH ROW EXECUTE FUNCTION look_at_refusal()`

// optedOut is an opt-out that was acknowledged.
type optedOut struct {
	at       time.Time
	inFlight int
}

// A worker stands still at each point of an event's way, while users opt out, and goes
// on. One delivery in three fails. What a user has refused is not delivered, except what
// was in flight, and that is not tried again. Some opt in again, and their series go on.
func TestOptOutsAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range chaos.Points() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) { optOutsAt(t, seed, point) })
		})
	}
}

func optOutsAt(t *testing.T, seed uint64, point chaos.Point) {
	e := newEdited(calm(t, seed))
	_, err := e.Pool().Exec(t.Context(), watchRefusals)
	require.NoError(t, err)
	var keeping atomic.Bool
	kept := make(chan struct{})
	answer := sync.OnceFunc(func() { close(kept) })
	defer answer()
	e.Receiver.Answer(func(n int, _ chaos.Entry) int {
		if keeping.Load() {
			<-kept
		}
		if n%3 == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	keeping.Store(point == chaos.MidSend)
	ids := e.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 5})
	worker := e.Work("worker", unhurried, func(o *chaos.Orders) {
		o.StopAt, o.StopAfter, o.Freeze = point, 1+e.Random.IntN(times(point)), true
		if point == chaos.AfterClaim {
			o.LookAhead = 0 // or nothing that was claimed had begun
		}
	})
	arrive(e.Run, worker, point)
	require.Eventually(t, worker.Still, 20*time.Second, time.Millisecond)

	var wg sync.WaitGroup
	var mu sync.Mutex
	gone := make(map[uuid.UUID]optedOut)
	done := make(chan struct{}, len(ids))
	for i, id := range ids {
		wg.Go(func() {
			defer func() { done <- struct{}{} }()
			result, err := e.planner.OptOut(t.Context(), id, almanac.OptOut{Type: []string{"", chaos.TickType}[i%2]})
			if err != nil {
				t.Errorf("OptOut: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			gone[id] = optedOut{time.Now(), len(result.Skipped)}
			e.Count("removed", len(result.Removed))
			e.Count("cancelled", len(result.Cancelled))
			e.Count("met a delivery", len(result.Skipped))
		})
	}
	for ctx := e.Within(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		require.NoError(t, ctx.Err())
		landed := len(done)
		var rest bool
		require.NoError(t, e.Pool().QueryRow(ctx, waiting, len(ids)-landed).Scan(&rest))
		if rest && len(done) == landed {
			e.Count("landed meanwhile", landed)
			e.Count("waited for the worker", len(ids)-landed)
			break
		}
	}
	require.NoError(t, worker.Signal(syscall.SIGCONT))
	answer()
	wg.Wait()
	for i, id := range ids[:3] {
		result, err := e.planner.OptIn(t.Context(), id, almanac.OptOut{Type: []string{"", chaos.TickType}[i%2]})
		require.NoError(t, err)
		e.Count("planned anew", len(result.Added))
		delete(gone, id)
	}
	e.Drained(60 * time.Second)
	e.ExpectStored(ids)
	checkRefused(e.Run, gone)
	e.CheckEdited(bitesOfOptOuts(point)...)
}

// bitesOfOptOuts are the counters that show whether opt-outs met a worker at a point.
func bitesOfOptOuts(p chaos.Point) []string {
	switch p {
	case chaos.BeforeClaim, chaos.AfterSettle: // something is in flight, or nothing
		return []string{"landed meanwhile"}
	case chaos.MidSettle:
		return []string{"waited for the worker"}
	default:
		return []string{"landed meanwhile", "met a delivery"}
	}
}

// checkRefused checks that nothing is delivered that a user has refused, except what was
// in flight.
func checkRefused(r *chaos.Run, gone map[uuid.UUID]optedOut) {
	r.Helper()
	var claimed int
	require.NoError(r, r.Pool().QueryRow(r.Context(), "SELECT count(*) FROM refused").Scan(&claimed))
	require.Zero(r, claimed, "events that were claimed although their users had opted out")
	late := make(map[uuid.UUID]int)
	ledger, _ := r.Receiver.Ledger()
	for _, d := range ledger {
		name, _, _ := strings.Cut(d.Occurrence, " ")
		id, err := uuid.Parse(name)
		require.NoError(r, err)
		if out, ok := gone[id]; ok && d.At.After(out.at) {
			if late[id]++; late[id] > out.inFlight {
				r.Errorf("%s was delivered after its user had opted out with %d in flight", d.Occurrence, out.inFlight)
			}
		}
	}
	var open int
	require.NoError(r, r.Pool().QueryRow(r.Context(), `SELECT count(*) FROM almanac.events
		WHERE status = 'FAILED' OR status = 'CANCELLED' AND failure_reason <> $1`, almanac.ReasonOptedOut).Scan(&open))
	require.Zero(r, open, "events that ended for another reason")
}
