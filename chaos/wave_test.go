package chaos_test

import (
	"context"
	"fmt"
	"math/bits"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
)

// arrival is a delivery as the receiver of a wave has noted it, by a clock that is never set.
type arrival struct {
	at         time.Time
	occurrence string
	present    int // deliveries at the receiver, with this one
	up         bool
}

// wave is a receiver whose lane has limits and contains the lanes of three tenants.
type wave struct {
	*chaos.Run
	limits  almanac.Lane
	workers []*chaos.Process
	all     []*chaos.Process  // with those that were killed
	tenants map[string]string // by user

	mu      sync.Mutex
	log     []arrival
	present int
	down    bool
	since   int // deliveries that were accepted since the receiver is up again
	flood   bool
	excused []time.Time // when leases or the check of a start lost their sense: a clock was set, or a process went on
}

// answer takes 60 ms for a delivery, or refuses it at once.
func (w *wave) answer(_ int, e chaos.Entry) int {
	w.mu.Lock()
	w.present++
	up := !w.down
	w.log = append(w.log, arrival{time.Now(), e.Occurrence, w.present, up})
	if up {
		w.since++
		w.flood = w.flood || w.present > 1<<(bits.Len(uint(w.since))-1)
	}
	w.mu.Unlock()
	if up {
		time.Sleep(60 * time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present--
	if !up {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// excuse notes that more places than there are may be taken for a moment.
func (w *wave) excuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.excused = append(w.excused, time.Now())
}

func (w *wave) arrived(match func(arrival) bool) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.log {
		if match(a) {
			n++
		}
	}
	return n
}

// start starts a worker that stops for a receiver that fails.
func (w *wave) start(name string) *chaos.Process {
	w.all = append(w.all, w.Work(name, func(o *chaos.Orders) { o.Breaker = true }))
	return w.all[len(w.all)-1]
}

// begunLate is how many requests the workers have counted that began too long after their admission.
func (w *wave) begunLate() (n int) {
	for _, one := range w.all {
		for _, r := range one.Reports() {
			if r.Point == chaos.BegunLate {
				n++
			}
		}
	}
	return n
}

// faults are what happens to a wave, each once, in an order by the seed. The outage is among the first ones, while
// most of the backlog is left.
func (w *wave) faults() []func() {
	faults := []func(){
		w.outage,
		func() {
			w.Run.Kill(w.workers[0])
			w.workers[0] = w.start("new")
		},
		func() { // long enough for its lease to run out
			require.NoError(w, w.workers[1].Signal(syscall.SIGSTOP))
			between(w.Run, chaos.Lease+time.Second, chaos.Lease+2*time.Second)
			w.excuse()
			require.NoError(w, w.workers[1].Signal(syscall.SIGCONT))
			w.Count("frozen", 1)
		},
		func() { // less long than the lease, and longer than an admitted event may take to start
			require.NoError(w, w.workers[1].Signal(syscall.SIGSTOP))
			between(w.Run, 300*time.Millisecond, time.Second)
			w.excuse()
			require.NoError(w, w.workers[1].Signal(syscall.SIGCONT))
			w.Count("frozen", 1)
		},
		func() {
			require.NoError(w, w.Cluster.Crash(w.Within(20*time.Second)))
			require.NoError(w, w.Cluster.Restart(w.Within(30*time.Second)))
			w.Reconnect()
			w.Count("crashed", 1)
		},
		func() { // no event that was due is not due by the second clock
			w.excuse()
			w.SetClock(2 * time.Hour)
			between(w.Run, 500*time.Millisecond, time.Second)
			w.SetClock(time.Hour)
		},
	}
	w.Random.Shuffle(len(faults)-1, func(i, j int) { faults[i+1], faults[j+1] = faults[j+1], faults[i+1] })
	n := w.Random.IntN(len(faults) / 2)
	faults[0], faults[n] = faults[n], faults[0]
	return faults
}

// outage takes the receiver down, and waits until it gets as much as before.
func (w *wave) outage() {
	began := time.Now()
	w.mu.Lock()
	w.down = true
	w.mu.Unlock()
	time.Sleep(6 * time.Second)
	tried := w.arrived(func(a arrival) bool { return a.at.After(began) && !a.up })
	w.Count("tried while it was down", tried)
	require.LessOrEqual(w, tried, 2*w.limits.Places, "single events are tried")
	w.mu.Lock()
	w.down, w.since, w.flood = false, 0, false
	w.mu.Unlock()
	for ctx := w.Within(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		since, flood := w.since, w.flood
		w.mu.Unlock()
		require.False(w, flood, "more deliveries at once than had been accepted before")
		if since >= 2*w.limits.Places {
			return
		}
		if ctx.Err() != nil {
			require.Fail(w, "the outage does not end", "%d deliveries since, %d in all\n%s\n%s", since, w.arrived(func(arrival) bool { return true }), w.lanes(), w.Complaints())
		}
	}
}

// lanes says what is stored of lanes.
func (w *wave) lanes() (text string) {
	for _, query := range []string{
		"SELECT 'now ' || clock_timestamp() || ' emptied ' || emptied_at FROM almanac.lane_clock",
		"SELECT concat_ws(' ', 'visit', scope, lane, at, 'since', since, 'pass', pass, 'turn', turn) FROM almanac.visits ORDER BY scope, at",
		"SELECT concat_ws(' ', 'state', lane, step, at, 'full', full_at, 'held', cardinality(held_ids), 'allowed', allowed, retry_at) FROM almanac.lane_states ORDER BY lane, step",
		"SELECT concat_ws(' ', 'waiting', lane, count(*), min(available_at)) FROM almanac.queue GROUP BY lane",
	} {
		rows, _ := w.Pool().Query(context.Background(), query) // an error is that of the rows, too
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		text += fmt.Sprintln(strings.Join(lines, "\n"), err)
	}
	return text
}

// create stores users of a tenant.
func (w *wave) create(tenant string, users int, plan chaos.Plan) []uuid.UUID {
	w.Helper()
	plan.Lane = w.limits.Name + "/" + tenant
	ids := w.CreateUsers(users, plan)
	for _, id := range ids {
		w.tenants[id.String()] = tenant
	}
	return ids
}

// tenantOf is whose an arrival is.
func (w *wave) tenantOf(a arrival) string {
	user, _, _ := strings.Cut(a.occurrence, " ")
	return w.tenants[user]
}

// Three tenants share a receiver. The backlog of one of them is older and longer. Two workers serve them; they are
// killed and frozen, the server crashes, clocks are set, and the receiver is down for a while. By the receiver's log,
// the rate holds all the time, the places do but for what no process can know, the small tenants wait for their share
// and not for the backlog, and an outage ends without a flood. Nothing is lost.
func TestAWaveKeepsItsLimitsThroughEverything(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := timed(t, seed, chaos.Clock{})
		r.GoByOffset()
		w := &wave{Run: r, tenants: make(map[string]string), limits: almanac.Lane{Name: "crm", Rate: 40, Burst: 4, Places: 8}}
		require.NoError(t, r.Store().PutLane(t.Context(), almanac.Lane{Name: w.limits.Name, Rate: 1, Burst: 1})) // until all are due
		r.Receiver.Answer(w.answer)
		w.workers = []*chaos.Process{w.start("one"), w.start("two")}
		for _, one := range w.workers {
			arrive(r, one, chaos.Ready)
		}
		sizes := map[string]int{"small": 40, "tiny": 10}
		for tenant, users := range sizes {
			w.create(tenant, users, chaos.Plan{Start: r.From(longLead), Interval: 3600, Count: 1})
		}
		large := chaos.Plan{Start: r.From(longLead - 35*time.Hour), Interval: 3600, Count: 36}
		large.Lane = w.limits.Name + "/large"
		r.Count("late", backdate(r, large, w.create("large", 24, large)))

		until(r, "SELECT bool_and(target_timestamp_utc < clock_timestamp()) FROM almanac.events WHERE lane <> 'crm/large'")
		require.NoError(t, r.Store().PutLane(t.Context(), w.limits))
		for small := 0; small == 0; time.Sleep(10 * time.Millisecond) {
			small = w.arrived(func(a arrival) bool { return w.tenantOf(a) != "large" })
		}
		for _, fault := range w.faults() {
			fault()
			r.Allow(2 * w.limits.Places)
			between(r, 300*time.Millisecond, 900*time.Millisecond)
		}
		r.SetClock(3 * time.Hour) // what was to be tried again by the clock of two hours
		w.excuse()
		r.Drained(90 * time.Second)

		w.checkLimits()
		for tenant, n := range sizes {
			w.checkShare(tenant, n)
		}
		noneFailed(r)
		r.CheckEdited("killed", "frozen", "crashed", "hours forward", "hours back", "tried while it was down", "late")
	})
}

// checkLimits compares the receiver's log with the limits of its lane. A process that was frozen after the check of a
// start delivers the events that it held when it goes on, and counts them. When a clock is set forward, all leases are over, and
// events start elsewhere while they are still being delivered.
func (w *wave) checkLimits() {
	w.Helper()
	var level, burst float64
	last := w.log[0].at
	for _, a := range w.log { // in the order in which the receiver has noted them
		level = max(0, level-w.limits.Rate*a.at.Sub(last).Seconds()) + 1
		burst, last = max(burst, level), a.at
		excused := false
		for _, at := range w.excused {
			excused = excused || a.at.After(at) && a.at.Sub(at) < chaos.Lease
		}
		if a.present > w.limits.Places && !excused || a.present > 3*w.limits.Places {
			w.Errorf("%d deliveries at once at %v, of at most %d", a.present, a.at, w.limits.Places)
		}
	}
	late := w.begunLate()
	w.Logf("%d deliveries, with a burst of %.1f; %d began too late", len(w.log), burst, late)
	// A delivery begins at most a quarter of a second after its admission, or is counted. It arrives as much later on a busy machine.
	require.LessOrEqual(w, burst, float64(w.limits.Burst+late)+w.limits.Rate/2)
}

// checkShare checks that a tenant's events, which became due at once, have waited for not much more than as many of
// each tenant. Events that were claimed again count for no fault: their process was gone.
func (w *wave) checkShare(tenant string, n int) {
	w.Helper()
	rows, err := w.Pool().Query(w.Context(), "SELECT user_id || ' ' || occurrence_key FROM almanac.events WHERE lane = $1 AND claim_count = 1", w.limits.Name+"/"+tenant)
	require.NoError(w, err)
	once := make(map[string]bool)
	for rows.Next() {
		var occurrence string
		require.NoError(w, rows.Scan(&occurrence))
		once[occurrence] = true
	}
	require.NoError(w, rows.Err())
	require.Greater(w, len(once), n/2, "events of %s that were claimed once", tenant)
	first, last := -1, 0
	for i, a := range w.log {
		if of := w.tenantOf(a); of != "large" && first < 0 {
			first = i
		}
		if once[a.occurrence] {
			last = i
		}
	}
	w.Logf("%s: %d events of %d within %d deliveries, of %d", tenant, len(once), n, last-first+1, len(w.log)-first)
	require.LessOrEqual(w, last-first+1, len(w.tenantsShare())*n+4*w.limits.Places, "deliveries until the last one of %s", tenant)
}

// tenantsShare are the tenants that share the lane.
func (w *wave) tenantsShare() map[string]bool {
	tenants := make(map[string]bool)
	for _, tenant := range w.tenants {
		tenants[tenant] = true
	}
	return tenants
}
