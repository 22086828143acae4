package chaos_test

import (
	"flag"
	"math/bits"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/postgres"
)

// The limits of a type hold over all workers while one of them is killed, by what the receiver sees: how many
// deliveries begin in any time, and how many it has at once.
func TestLimitsHoldWhileWorkersDie(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		limits := almanac.Lane{Name: chaos.TickType, Rate: 40, Burst: 4, Places: 6}
		require.NoError(t, r.Store().PutLane(t.Context(), limits))
		var present, peak atomic.Int64
		r.Receiver.Answer(func(int, chaos.Entry) int {
			n := present.Add(1)
			for was := peak.Load(); n > was && !peak.CompareAndSwap(was, n); was = peak.Load() {
			}
			time.Sleep(60 * time.Millisecond)
			present.Add(-1)
			return http.StatusOK
		})
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 8})
		victim := r.Work("victim")
		r.Work("other")
		time.Sleep(lead + 2*time.Second)
		death := r.Kill(victim)
		r.Work("new")

		r.Drained(90 * time.Second)
		r.Recovered(death, 20*time.Second)
		require.LessOrEqual(t, peak.Load(), int64(limits.Places))
		// A delivery arrives at most a quarter of a second after its admission, and as long again on a busy machine.
		require.LessOrEqual(t, burstOf(r, limits.Rate), float64(limits.Burst)+limits.Rate/2)
		r.Check("killed")
	})
}

var down = flag.Duration("down", 8*time.Second, "for how long a receiver is down")

// A receiver is down for a while, in which a worker is killed. All events wait, and no attempt of them is used up.
// Then they come a few at a time: two after the first success, four after two more, and so on.
func TestAReceiverThatIsDownGetsNoFlood(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		var up atomic.Bool
		var tried, accepted, present, most atomic.Int64
		var flood atomic.Bool
		r.Receiver.Answer(func(int, chaos.Entry) int {
			defer present.Add(-1)
			flying := present.Add(1)
			if !up.Load() {
				tried.Add(1)
				return http.StatusServiceUnavailable
			}
			n := accepted.Add(1)
			for was := most.Load(); flying > was && !most.CompareAndSwap(was, flying); was = most.Load() {
			}
			if flying > 1<<(bits.Len64(uint64(n))-1) {
				flood.Store(true)
			}
			time.Sleep(20 * time.Millisecond)
			return http.StatusOK
		})
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 2})
		careful := func(o *chaos.Orders) { o.Breaker = true }
		victim := r.Work("victim", careful)
		r.Work("other", careful)
		time.Sleep(lead + *down/2)
		death := r.Kill(victim)
		r.Work("new", careful)
		time.Sleep(*down / 2)
		require.LessOrEqual(t, tried.Load(), int64(2*chaos.Slots+4), "single events are tried")
		up.Store(true)

		r.Drained(90*time.Second + *down) // a receiver that was down for long is tried after as long again, at most
		r.Recovered(death, 20*time.Second)
		require.False(t, flood.Load())
		require.GreaterOrEqual(t, most.Load(), int64(4), "more and more are in flight")
		require.Equal(t, int64(2*people), accepted.Load())
		r.Check("killed")
	})
}

// burstOf returns the least burst with which the deliveries of the ledger conform to a rate.
func burstOf(r *chaos.Run, rate float64) (burst float64) {
	ledger, _ := r.Receiver.Ledger()
	slices.SortFunc(ledger, func(a, b chaos.Entry) int { return a.At.Compare(b.At) })
	least := 0.0
	for k, e := range ledger {
		x := float64(k) - rate*e.At.Sub(ledger[0].At).Seconds()
		least = min(least, x)
		burst = max(burst, x-least+1)
	}
	return burst
}

// The clock is set forward and back while two processes claim from a lane: that of a type, and one with a name. No
// step mints a token, and none stops the lane: by the machine's clock, the rate is kept all along. So it is if all processes
// start anew after the clock was set back.
func TestARateHoldsWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lane string
		anew bool
	}{"of a type": {"", false}, "with a name": {"crm/large", false}, "with a name, by new processes": {"crm/large", true}} {
		t.Run(name, func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) { keepRate(t, seed, tt.lane, tt.anew) })
		})
	}
}

func keepRate(t *testing.T, seed uint64, lane string, anew bool) {
	t.Helper()
	r := timed(t, seed, chaos.Clock{})
	plan := chaos.Plan{Start: r.From(-48 * time.Hour), Interval: 96 * 3600, Count: 2, Lane: lane}
	backdate(r, plan, r.CreateUsers(80, plan))
	limits := almanac.Lane{Name: chaos.TickType, Rate: 5, Burst: 60}
	if upper, _, named := strings.Cut(lane, "/"); named {
		limits.Name = upper
	}
	began := time.Now()
	require.NoError(t, r.Store().PutLane(t.Context(), limits)) // without a token
	stores := []*postgres.Store{r.Store(), r.Store()}
	total, was := 0, time.Duration(0)
	for _, ahead := range []time.Duration{0, 2 * time.Hour, 0, -2 * time.Hour, 0} {
		r.SetClock(ahead)
		if ahead < was && anew { // set forward, the clock cannot be told from one that went on while no process was there
			stores = []*postgres.Store{r.Store(), r.Store()}
		}
		was = ahead
		ctx := r.Within(20 * time.Second)
		for n := 0; n < 3; time.Sleep(20 * time.Millisecond) {
			for _, store := range stores {
				claim, err := store.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{chaos.TickType}, Limit: 100, Lease: time.Minute})
				require.NoError(t, err)
				n += len(claim.Events)
				total += len(claim.Events)
			}
			require.LessOrEqual(t, float64(total), limits.Rate*time.Since(began).Seconds(), "the clock is %v ahead", ahead)
		}
	}
	require.NotZero(t, total)
}

// The clock is set back by an hour while a claim from a lane is on its way, and another process notices it before that
// claim ends. The lane goes on at once.
func TestALaneGoesOnWhenTheClockIsSetBackInAClaim(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := timed(t, seed, chaos.Clock{})
		plan := chaos.Plan{Start: r.From(-48 * time.Hour), Interval: 96 * 3600, Count: 2, Lane: "crm/large"}
		backdate(r, plan, r.CreateUsers(80, plan))
		require.NoError(t, r.Store().PutLane(t.Context(), almanac.Lane{Name: "crm", Rate: 5, Burst: 5}))
		_, err := r.Pool().Exec(t.Context(), `CREATE FUNCTION almanac.wait() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
			CREATE TRIGGER wait BEFORE INSERT ON almanac.leases FOR EACH ROW EXECUTE FUNCTION almanac.wait()`)
		require.NoError(t, err)
		slow, quick := r.Store(), r.Store()
		claim := func(store *postgres.Store) int {
			claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{chaos.TickType}, Limit: 100, Lease: time.Minute})
			require.NoError(t, err)
			return len(claim.Events)
		}
		some := func(store *postgres.Store) {
			for ctx := r.Within(20 * time.Second); claim(store) == 0; time.Sleep(50 * time.Millisecond) {
				require.NoError(t, ctx.Err(), "nothing is claimed")
			}
		}
		r.SetClock(2 * time.Hour)
		some(slow)
		some(quick)
		time.Sleep(time.Second) // for some tokens
		tx, err := r.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1)")
		require.NoError(t, err)
		ended := make(chan int)
		go func() { ended <- claim(slow) }()
		until(r, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '/* almanac claim%'")
		r.SetClock(time.Hour)
		require.Zero(t, claim(quick))
		require.NoError(t, tx.Rollback(t.Context()))
		require.Positive(t, <-ended)

		total := 0
		for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(50 * time.Millisecond) {
			total += claim(slow) + claim(quick)
		}
		require.Greater(t, total, 20, "at five a second, in ten seconds")
	})
}

// The clock is set back over midnight, and forward again. No day gets a second quota, and each gets its own.
func TestADayHasOneQuotaWhenTheClockIsSet(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		now := time.Now()
		midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
		r := timed(t, seed, chaos.Clock{Ahead: midnight - time.Hour})
		plan := chaos.Plan{Start: r.From(-48 * time.Hour), Interval: 96 * 3600, Count: 2}
		backdate(r, plan, r.CreateUsers(80, plan))
		limits := almanac.Lane{Name: chaos.TickType, Daily: 7}
		require.NoError(t, r.Store().PutLane(t.Context(), limits))
		stores := []*postgres.Store{r.Store(), r.Store()}
		started := make(map[string]int)
		for i, ahead := range []time.Duration{-time.Hour, time.Hour, -30 * time.Minute, 2 * time.Hour} {
			r.SetClock(midnight + ahead)
			for range 20 {
				for _, store := range stores {
					claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{chaos.TickType}, Limit: 1 + i, Lease: time.Minute})
					require.NoError(t, err)
					for _, e := range claim.Events {
						started[e.UpdatedAt.UTC().Format(time.DateOnly)]++
					}
				}
			}
			require.Len(t, started, min(i+1, 2))
			for day, n := range started {
				require.Equal(t, limits.Daily, n, "on %s, %d", day, i)
			}
		}
	})
}
