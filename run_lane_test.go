package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// throng counts who is being delivered at once, and remembers when each began.
type throng struct {
	mu         sync.Mutex
	now, peak  int
	beginnings []time.Time
}

func (c *throng) Deliver(_ context.Context, _ almanac.Delivery) error {
	c.mu.Lock()
	c.now++
	c.peak = max(c.peak, c.now)
	c.beginnings = append(c.beginnings, time.Now())
	c.mu.Unlock()
	time.Sleep(time.Second) // of virtual time
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	return nil
}

// busyHour runs two types of which one has limits, thirty events each, for an hour of
// virtual time, in a number of processes.
func busyHour(t *testing.T, processes int, l almanac.Lane) (slow, other *throng) {
	t.Helper()
	slow, other = new(throng), new(throng)
	w := openOn(almanactest.NewRepository(nil))
	handlers := []almanac.EventHandler{
		series{eventType: "SLOW", seconds: ago(time.Minute), execute: slow.Deliver},
		series{eventType: "OTHER", seconds: ago(time.Minute), execute: other.Deliver},
	}
	for range 30 {
		for _, h := range handlers {
			storeEvent(t, w.store, h.(series))
		}
	}
	l.Name = "SLOW"
	require.NoError(t, w.schedulerOf(t, handlers).SetLane(t.Context(), l))
	for range processes {
		w.runAll(t, handlers, almanac.WithWorkers(30), almanac.WithPoll(time.Hour), almanac.WithSweep(time.Hour))
	}
	time.Sleep(time.Hour)
	require.NoError(t, w.stop())
	require.Len(t, slow.beginnings, 30)
	require.Len(t, other.beginnings, 30)
	return slow, other
}

func TestPlacesHoldOverAllProcesses(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			slow, other := busyHour(t, processes, almanac.Lane{Places: 3})
			require.Equal(t, 3, slow.peak)
			require.Greater(t, other.peak, 20, "no other type waits")
			require.InDelta(t, 10, slow.beginnings[29].Sub(slow.beginnings[0]).Seconds(), 1.5)
		})
	}
}

func TestARateHoldsOverAllProcesses(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			slow, other := busyHour(t, processes, almanac.Lane{Rate: 2, Burst: 4})
			require.Equal(t, 30, other.peak, "no other type waits")
			for i := range slow.beginnings {
				for j := range i { // of j to i, whose admissions are up to 250 ms apart from their starts
					most := 4 + 2*(slow.beginnings[i].Sub(slow.beginnings[j])+250*time.Millisecond).Seconds()
					require.LessOrEqual(t, float64(i-j+1), most+1e-6, "beginnings %d to %d", j, i)
				}
			}
			require.InDelta(t, 15, slow.beginnings[29].Sub(slow.beginnings[0]).Seconds(), 1.5, "the first waits for a token, too")
		})
	}
}

// What is claimed ahead would begin at one instant, however long before it took its turn.
func TestARateIsKeptAtOneInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := openOn(almanactest.NewRepository(nil)), new(throng)
		handler := series{eventType: "SLOW", seconds: ago(-time.Minute), execute: r.Deliver}
		for range 4 {
			storeEvent(t, w.store, handler)
		}
		require.NoError(t, w.store.PutLane(t.Context(), almanac.Lane{Name: "SLOW", Rate: 2, Burst: 1}))
		w.run(t, handler)
		time.Sleep(time.Hour)
		require.NoError(t, w.stop())
		require.Len(t, r.beginnings, 4)
		for i := 1; i < len(r.beginnings); i++ {
			require.GreaterOrEqual(t, r.beginnings[i].Sub(r.beginnings[i-1]), 490*time.Millisecond, "beginning %d", i)
		}
	})
}

// A daily limit holds over all processes, and over one that starts later on the day. The next day begins at midnight, by UTC.
func TestADailyLimitHoldsUntilMidnight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // begins at midnight
		w, r := openOn(almanactest.NewRepository(nil)), new(throng)
		handler := series{eventType: "SLOW", seconds: ago(time.Minute), execute: r.Deliver}
		for range 10 {
			storeEvent(t, w.store, handler)
		}
		require.NoError(t, w.store.PutLane(t.Context(), almanac.Lane{Name: "SLOW", Daily: 4}))
		began := time.Now()
		w.run(t, handler)
		time.Sleep(12 * time.Hour)
		require.NoError(t, w.stop())
		w = openOn(w.store)
		w.run(t, handler)
		w.run(t, handler)
		time.Sleep(60 * time.Hour)
		require.NoError(t, w.stop())
		var days []int
		for _, at := range r.beginnings {
			days = append(days, int(at.Sub(began)/(24*time.Hour)))
		}
		require.Equal(t, []int{0, 0, 0, 0, 1, 1, 1, 1, 2, 2}, days)
	})
}

// Waiting for a lane is no excuse: an event that is later than SkipOlder when its lane has room is not delivered.
func TestAnEventThatWaitsForItsLaneForTooLongIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := openOn(almanactest.NewRepository(nil)), new(throng)
		skip := almanac.Execution{CatchUpPolicy: almanac.CatchUp{SkipOlder: 30 * time.Minute}}
		handler := series{skip, "SLOW", ago(time.Minute), r.Deliver}
		for range 9 {
			storeEvent(t, w.store, handler)
		}
		require.NoError(t, w.store.PutLane(t.Context(), almanac.Lane{Name: "SLOW", Rate: 1.0 / 600, Burst: 1})) // one in ten minutes
		w.run(t, handler)
		time.Sleep(3 * time.Hour)
		require.NoError(t, w.stop())
		require.Len(t, r.beginnings, 2, "after 10 and 20 minutes; the third is 31 minutes late")
		failed, err := w.store.Count(t.Context(), almanac.InStatus(almanac.Failed))
		require.NoError(t, err)
		require.Equal(t, 7, failed)
	})
}

func TestLanesAreChecked(t *testing.T) {
	t.Parallel()
	s := openOn(almanactest.NewRepository(nil)).scheduler(t, almanac.Birthday{})
	for problem, l := range map[string]almanac.Lane{
		"name has 0 bytes": {Rate: 1},
		"rate is NaN, and not between 0.000001 and 1000000":                    {Name: almanac.TypeBirthday, Rate: math.NaN()},
		"rate is -1, and not between 0.000001 and 1000000":                     {Name: almanac.TypeBirthday, Rate: -1},
		"burst is 1 without a rate; places is -1, and not between 0 and 10000": {Name: almanac.TypeBirthday, Burst: 1, Places: -1},
		"burst is 1000001, and not between 0 and 1000000":                      {Name: almanac.TypeBirthday, Rate: 1, Burst: 1_000_001},
	} {
		err := s.SetLane(t.Context(), l)
		require.ErrorIs(t, err, almanac.ErrInvalid)
		require.ErrorContains(t, err, problem)
	}
	var unknown *almanac.UnsupportedEventTypeError
	require.ErrorAs(t, s.SetLane(t.Context(), almanac.Lane{Name: "NONE", Places: 1}), &unknown)
	require.NoError(t, s.SetLane(t.Context(), almanac.Lane{Name: "NONE"}), "another program, or the command, may have limited it")
	require.NoError(t, s.SetLane(t.Context(), almanac.Lane{Name: almanac.TypeBirthday, Rate: 50}))
	lanes, err := s.Lanes(t.Context())
	require.NoError(t, err)
	require.Equal(t, []almanac.Lane{{Name: almanac.TypeBirthday, Rate: 50, Burst: 10}}, lanes)
}

// An event that cannot start within 250 ms of its admission goes back, and uses up no attempt.
func TestAnEventThatWasAdmittedTooLongAgoGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowClaims{Repository: almanactest.NewRepository(nil), delay: 300 * time.Millisecond}
		w, r := openOn(slow), new(receiver)
		handler := series{eventType: "SLOW", seconds: ago(time.Minute), execute: r.Deliver}
		storeEvent(t, w.store, handler)
		require.NoError(t, w.store.PutLane(t.Context(), almanac.Lane{Name: "SLOW", Places: 1}))
		w.run(t, handler)
		time.Sleep(10 * time.Second)
		require.Empty(t, r.deliveries())
		slow.set(0)
		time.Sleep(10 * time.Second)
		require.NoError(t, w.stop())
		require.Len(t, r.deliveries(), 1)
		require.Equal(t, 1, r.deliveries()[0].Attempt)
	})
}

// slowClaims answers claims after a delay.
type slowClaims struct {
	*almanactest.Repository
	mu    sync.Mutex
	delay time.Duration
}

func (s *slowClaims) set(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

func (s *slowClaims) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	claim, err := s.Repository.Claim(ctx, r)
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	time.Sleep(delay)
	return claim, err
}

// Two schedulers on one database stand for two processes: what one pauses, the other
// does not deliver, until it is resumed.
func TestPauseHoldsForAllProcesses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		store func(*testing.T) almanac.Repository
		poll  time.Duration
	}{
		"in memory, by polls": {onBoth["in memory"], 50 * time.Millisecond},
		"in memory, without hints": {func(*testing.T) almanac.Repository {
			return overheard{almanactest.NewRepository(nil), func(context.Context, func()) error { return errLost }}
		}, 50 * time.Millisecond},
		"on Postgres, by polls": {func(t *testing.T) almanac.Repository {
			store, err := postgres.New(pgtest.ReusedPool(t), postgres.PollOnly())
			require.NoError(t, err)
			return store
		}, 50 * time.Millisecond},
		"on Postgres, by hints": {func(t *testing.T) almanac.Repository { // past a pooler, which carries none
			store, err := postgres.New(pgtest.DirectPool(t))
			require.NoError(t, err)
			return store
		}, time.Hour},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(tt.store(t)), new(receiver)
			handler := series{eventType: "DIGEST", seconds: ago(time.Hour), execute: r.Deliver} // which the others' mark passes
			other := series{eventType: "OTHER", seconds: ago(time.Minute), execute: r.Deliver}
			operator := w.scheduler(t, handler)
			require.NoError(t, operator.Pause(t.Context(), almanac.Pause{Lane: "DIGEST"}))
			var unknown *almanac.UnsupportedEventTypeError
			require.ErrorAs(t, operator.Pause(t.Context(), almanac.Pause{Lane: "UNKNOWN HERE"}), &unknown)
			require.Equal(t, "UNKNOWN HERE", unknown.EventType)
			require.NoError(t, operator.Resume(t.Context(), "UNKNOWN HERE"), "another program, or the command, may have paused it")
			paused, err := operator.Paused(t.Context())
			require.NoError(t, err)
			require.Len(t, paused, 1)
			require.Equal(t, "DIGEST", paused[0].Lane)
			storeEvent(t, w.store, handler)
			storeEvent(t, w.store, other)

			w.runAll(t, []almanac.EventHandler{handler, other}, almanac.WithPoll(tt.poll), almanac.WithSweep(time.Hour))

			require.Equal(t, "OTHER", w.await(t, almanac.EventCompleted).Type)
			storeEvent(t, w.store, other)
			require.Equal(t, "OTHER", w.await(t, almanac.EventCompleted).Type)
			require.NoError(t, operator.Resume(t.Context(), "DIGEST"))
			resumed := time.Now()
			require.Equal(t, "DIGEST", w.await(t, almanac.EventCompleted).Type)
			require.Less(t, time.Since(resumed), 8*time.Second, "sooner than listeners give a sign of life of their own, which wakes too")
			storeEvent(t, w.store, other)
			require.Equal(t, "OTHER", w.await(t, almanac.EventCompleted).Type)
			until := time.Now().Add(time.Second)
			require.NoError(t, operator.Pause(t.Context(), almanac.Pause{Lane: "DIGEST", Until: until}))
			storeEvent(t, w.store, handler)
			require.Equal(t, "DIGEST", w.await(t, almanac.EventCompleted).Type)
			require.Greater(t, time.Now(), until)
			require.Less(t, time.Since(until), 8*time.Second)
			require.NoError(t, w.stop())
			require.Len(t, r.deliveries(), 5)
			require.ErrorIs(t, operator.Pause(t.Context(), almanac.Pause{Lane: ""}), almanac.ErrInvalid)
		})
	}
}

// While receivers are the limit, twice the processes deliver in half the time: processes wait for nothing
// that another one does. In virtual time the machine is no limit. That claims of PostgreSQL do not wait for
// each other is tested in package postgres.
func TestThroughputGrowsWithTheProcesses(t *testing.T) {
	t.Parallel()
	const events, workers, takes = 320, 10, 50 * time.Millisecond
	for _, processes := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := almanactest.NewRepository(nil)
				var mu sync.Mutex
				delivered, last := 0, time.Time{}
				h := series{eventType: "FINE", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
					time.Sleep(takes)
					mu.Lock()
					defer mu.Unlock()
					delivered, last = delivered+1, time.Now()
					return nil
				}}
				for range events {
					storeEvent(t, store, h)
				}
				began := time.Now()
				var running []*world
				for range processes {
					w := openOn(store)
					w.notices = make(chan almanac.Notice, 4*events)
					w.run(t, h, almanac.WithWorkers(workers))
					running = append(running, w)
				}
				time.Sleep(time.Minute)
				for _, w := range running {
					require.NoError(t, w.stop())
				}
				require.Equal(t, events, delivered)
				possible := events / workers / time.Duration(processes) * takes
				// A fifth more for the time in which outcomes wait to be stored together.
				require.LessOrEqual(t, last.Sub(began), possible*12/10)
			})
		})
	}
}

// refusedWays are triggers that raise an error when one event is claimed: in the statement, and in its COMMIT.
var refusedWays = map[string]string{
	"statement": "CREATE TRIGGER refuse BEFORE DELETE ON almanac.queue FOR EACH ROW WHEN (%s) EXECUTE FUNCTION refuse()",
	"COMMIT":    "CREATE CONSTRAINT TRIGGER refuse AFTER DELETE ON almanac.queue DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (%s) EXECUTE FUNCTION refuse()",
}

// refusal is a world whose database refuses to claim the second of three events of the type BAD.
type refusal struct {
	*world
	received receiver
	first    almanac.Event
	others   []almanac.Event
	mend     func() // ends the refusal
}

func refuseClaim(t *testing.T, way string) *refusal {
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	r := &refusal{world: openOn(store)}
	r.first = storeEvent(t, store, r.handler("BAD", 3*time.Minute))
	for _, age := range []time.Duration{2 * time.Minute, time.Minute} {
		r.others = append(r.others, storeEvent(t, store, r.handler("BAD", age)))
	}
	_, err = pool.Exec(t.Context(), `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'XX001'; END $$`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), fmt.Sprintf(way, "OLD.event_id = '"+r.others[0].ID.String()+"'"))
	require.NoError(t, err)
	r.mend = func() {
		_, err := pool.Exec(t.Context(), "DROP TRIGGER refuse ON almanac.queue")
		require.NoError(t, err)
	}
	return r
}

// handler returns a handler whose events are as old as age, and which executes them itself.
func (r *refusal) handler(eventType string, age time.Duration) series {
	return series{eventType: eventType, seconds: ago(age), execute: r.received.Deliver}
}

// An event that the database refuses to claim may stop the later events of its type, but no event of another type. A sweep
// claims them as soon as the database takes them.
func TestATypeThatIsRefusedStopsNoOtherType(t *testing.T) {
	t.Parallel()
	for where, way := range refusedWays {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := refuseClaim(t, way)
			completed := make(map[uuid.UUID]bool)
			await := func(events ...almanac.Event) {
				for _, e := range events {
					for !completed[e.ID] {
						completed[r.await(t, almanac.EventCompleted).ID] = true
					}
				}
			}
			scheduler := r.runAll(t, []almanac.EventHandler{r.handler("BAD", 0), r.handler("FINE", 0), r.handler("GOOD", 0)},
				almanac.WithSweep(2*time.Second), almanac.WithPoll(50*time.Millisecond))
			stored := []almanac.Event{r.first}
			for age := range time.Duration(5) {
				stored = append(stored, storeEvent(t, r.store, r.handler("FINE", age*time.Minute)), storeEvent(t, r.store, r.handler("GOOD", age*time.Minute)))
			}
			await(stored...)
			require.Eventually(t, func() bool {
				err := scheduler.Health().Claim.Err
				return err != nil && strings.Contains(err.Error(), "events of type BAD: ")
			}, 10*time.Second, time.Millisecond)
			await(storeEvent(t, r.store, r.handler("GOOD", time.Second)))
			require.False(t, completed[r.others[0].ID])

			r.mend()
			await(r.others...)
			require.Eventually(t, func() bool { return scheduler.Health().Claim.Err == nil }, 10*time.Second, time.Millisecond)
			require.NoError(t, r.stop())
			require.Len(t, r.received.deliveries(), 14)
		})
	}
}

func TestAPassNamesTheTypeThatIsRefused(t *testing.T) {
	t.Parallel()
	for where, way := range refusedWays {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := refuseClaim(t, way)
			scheduler := r.schedulerOf(t, []almanac.EventHandler{r.handler("BAD", 0), r.handler("FINE", 0)})
			for age := range time.Duration(5) {
				storeEvent(t, r.store, r.handler("FINE", age*time.Minute))
			}
			_, err := scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.ErrorContains(t, err, "events of type BAD: ")
			fine := 0
			for _, d := range r.received.deliveries() {
				if d.Event.Type == "FINE" {
					fine++
				}
			}
			require.Equal(t, 5, fine)

			r.mend()
			_, err = scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.NoError(t, err)
			require.Len(t, r.received.deliveries(), 8)
		})
	}
}

// rowError is the error of a claim that a row may have caused.
type rowError struct{ certain bool }

func (rowError) Error() string       { return "a row was refused" }
func (rowError) Refused() bool       { return true }
func (e rowError) SafeToRetry() bool { return e.certain }

// refusing refuses claims, and counts those of one type.
type refusing struct {
	almanac.Repository
	err    atomic.Pointer[rowError]
	claims atomic.Int64
}

func (r *refusing) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if len(request.Types) == 1 {
		r.claims.Add(1)
	}
	if err := r.err.Load(); err != nil {
		return almanac.ClaimResult{}, *err
	}
	return r.Repository.Claim(ctx, request)
}

// If it is unknown whether events were claimed, no other claim follows at once. If every type is refused, none is to blame: all are
// claimed together again.
func TestAnErrorOfEveryTypeIsAboutNone(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]rowError{"unknown": {false}, "every type": {true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, r := &refusing{Repository: almanactest.NewRepository(nil)}, new(receiver)
				store.err.Store(&err)
				w := openOn(store)
				handlers := []almanac.EventHandler{
					series{eventType: "ONE", seconds: ago(time.Minute), execute: r.Deliver},
					series{eventType: "OTHER", seconds: ago(time.Minute), execute: r.Deliver},
				}
				for _, h := range handlers {
					storeEvent(t, store, h.(series))
				}
				scheduler := w.runAll(t, handlers)
				time.Sleep(time.Minute)
				require.ErrorIs(t, scheduler.Health().Claim.Err, err)
				require.NotContains(t, scheduler.Health().Claim.Err.Error(), "events of type")
				if !err.certain {
					require.Zero(t, store.claims.Load())
				}
				store.claims.Store(0)
				store.err.Store(nil)
				time.Sleep(time.Minute)
				require.NoError(t, w.stop())
				require.Len(t, r.deliveries(), 2)
				require.Zero(t, store.claims.Load())
			})
		})
	}
}

// refusingOne refuses each claim that would take one of the events. It counts the claims of one type that do not
// begin at the beginning.
type refusingOne struct {
	almanac.Repository
	bad    *atomic.Pointer[uuid.UUID]
	marked *atomic.Int64
}

func (r refusingOne) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if len(request.Types) == 1 && !request.Mark.IsZero() {
		r.marked.Add(1)
	}
	found, err := r.Find(ctx, almanac.InStatus(almanac.Pending), almanac.Page{Limit: 1000})
	due := slices.DeleteFunc(found.Items, func(e almanac.Event) bool {
		return !slices.Contains(request.Types, e.Type) || e.AvailableAt.Before(request.Mark)
	})
	slices.SortFunc(due, func(a, b almanac.Event) int { return a.AvailableAt.Compare(b.AvailableAt) })
	due = due[:min(len(due), request.Limit)]
	if err != nil || slices.ContainsFunc(due, func(e almanac.Event) bool { bad := r.bad.Load(); return bad != nil && e.ID == *bad }) {
		return almanac.ClaimResult{}, errors.Join(err, rowError{true})
	}
	return r.Repository.Claim(ctx, request)
}

// Each pass is short, so it cannot wait for the next attempt at a claim.
func TestAPassDeliversTheEventsBeforeARefusedOne(t *testing.T) {
	t.Parallel()
	for _, types := range [][]string{{"BAD"}, {"BAD", "FINE"}} {
		synctest.Test(t, func(t *testing.T) {
			memory, r := almanactest.NewRepository(nil), new(receiver)
			bad := new(atomic.Pointer[uuid.UUID])
			w := openOn(refusingOne{memory, bad, new(atomic.Int64)})
			var handlers []almanac.EventHandler
			for _, eventType := range types {
				handlers = append(handlers, series{eventType: eventType, seconds: ago(time.Hour), execute: r.Deliver})
			}
			scheduler := w.schedulerOf(t, handlers)
			for i := range time.Duration(21) {
				e := storeEvent(t, memory, series{eventType: "BAD", seconds: ago(time.Hour - i*time.Minute)})
				bad.Store(&e.ID)
			}
			_, _ = scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.Len(t, r.deliveries(), 20)
		})
	}
}

// Other types go on, and move the mark. The older events of the refused type are claimed all the same, and the error stays
// in Health.
func TestEventsBeforeARefusedOneAreClaimedBesideOtherTypes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, r := almanactest.NewRepository(nil), new(receiver)
		of := func(eventType string, age time.Duration) series {
			return series{eventType: eventType, seconds: ago(age), execute: r.Deliver}
		}
		bad, marked := new(atomic.Pointer[uuid.UUID]), new(atomic.Int64)
		w := openOn(refusingOne{memory, bad, marked})
		w.notices = make(chan almanac.Notice, 100000)
		scheduler := w.runAll(t, []almanac.EventHandler{of("BAD", 0), of("FINE", 0)}, almanac.WithSweep(10*time.Second), almanac.WithPoll(50*time.Millisecond), almanac.WithWorkers(64))
		red := 0
		for n := range 1000 {
			if n == 50 { // another program stores them
				for i := range time.Duration(21) {
					e := storeEvent(t, memory, of("BAD", time.Hour-i*time.Minute))
					bad.Store(&e.ID)
				}
			}
			storeEvent(t, w.store, of("FINE", 0))
			time.Sleep(30 * time.Millisecond)
			if scheduler.Health().Claim.Err != nil {
				red++
			}
		}
		require.NoError(t, w.stop())
		delivered := make(map[string]int)
		for _, d := range r.deliveries() {
			delivered[d.Event.Type]++
		}
		require.Equal(t, 20, delivered["BAD"])
		require.Greater(t, delivered["FINE"], 900)
		require.Greater(t, red, 600) // it begins with a sweep
		require.Zero(t, marked.Load(), "the mark is about all types")
	})
}

// One event kills its process whenever it is delivered. The events that the process held beside it are delivered.
func TestAnEventThatKillsItsProcessHarmsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		require.NoError(t, err)
		var fatal uuid.UUID
		var r *almanactest.Rehearsal
		deliver := almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
			if d.User.ID == fatal {
				r.Crash()
			}
			select {
			case <-time.After(500 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		r = almanactest.Rehearse(t, registry, almanac.WithDeliverer(almanac.ChannelWebhook, deliver), almanac.WithPoll(time.Minute), almanac.WithLease(time.Minute), almanac.WithSweep(5*time.Second))
		time.Sleep(8*time.Hour + 50*time.Minute)
		const users = 150
		for range users {
			p := grace
			p.Timezone, p.DateOfBirth = "UTC", "1990-01-01"
			created, err := r.Scheduler.CreateUser(t.Context(), p)
			require.NoError(t, err)
			fatal = created.User.ID
		}
		r.For(time.Hour)
		failed, err := r.Repository.Find(t.Context(), almanac.InStatus(almanac.Failed), almanac.Page{})
		require.NoError(t, err)
		require.Len(t, failed.Items, 1)
		require.Equal(t, fatal, failed.Items[0].UserID)
		completed, err := r.Repository.Count(t.Context(), almanac.InStatus(almanac.Completed))
		require.NoError(t, err)
		require.Equal(t, users-1, completed)
	})
}

// Processes died while they held many events, none of which is at fault. The events are delivered side by side,
// and one after the other before the last death that counts.
func TestPassesAfterKillsDeliverAll(t *testing.T) {
	t.Parallel()
	for deaths, passes := range map[int]int{2: 1, 4: 2} {
		synctest.Test(t, func(t *testing.T) {
			deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
				time.Sleep(100 * time.Millisecond)
				return nil
			})
			w := openOn(almanactest.NewRepository(nil))
			s := w.scheduler(t, almanac.Birthday{}, almanac.WithDeliverer(almanac.ChannelWebhook, deliver))
			for range 40 {
				p := grace
				p.Timezone, p.DateOfBirth = "UTC", "1990-01-01"
				_, err := s.CreateUser(t.Context(), p)
				require.NoError(t, err)
			}
			time.Sleep(9 * time.Hour)
			for range deaths {
				claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 100, Lease: time.Second})
				require.NoError(t, err)
				require.Len(t, claim.Events, 40)
				time.Sleep(2 * time.Second)
				_, err = w.store.ReleaseExpired(t.Context(), 1000, 1000)
				require.NoError(t, err)
			}
			completed, more := 0, true
			for n := 0; more; n++ {
				require.Less(t, n, passes, "passes after %d deaths", deaths)
				r, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
				require.NoError(t, err)
				completed, more = completed+r.Completed, r.More
			}
			require.Equal(t, 40, completed)
		})
	}
}

// laned names the lane of all its events.
type laned struct {
	series
	lane string
}

func (l laned) Lane(almanac.User, almanac.Occurrence) string { return l.lane }

// An event that was planned before its handler named lanes moves to its lane when it is first claimed, and stays
// where its deliverer moves it.
func TestAnEventMovesToTheLaneThatItsHandlerNamesSince(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), &receiver{answers: []error{almanac.InLane("SLOW"), nil}}
			h := series{almanac.Execution{}, "SLOW", ago(time.Minute), r.Deliver}
			storeEvent(t, w.store, h)
			w.run(t, laned{h, "crm/tenant-7"})
			w.await(t, almanac.EventCompleted)
			require.NoError(t, w.stop())
			var got []string
			for _, d := range r.deliveries() {
				got = append(got, fmt.Sprint(d.Event.Lane, " ", d.Attempt))
			}
			require.Equal(t, []string{"crm/tenant-7 1", " 1"}, got)
		})
	}
}

// A delivery finds that its event belongs to another lane. The event moves there without an attempt.
func TestADeliveryMovesItsEventToAnotherLane(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), &receiver{answers: []error{
				almanac.InLane("crm/tenant-7"), almanac.InLane("crm/tenant-7"), almanac.InLane("SLOW"), almanac.InLane("a/b/c"), nil,
			}}
			retries := almanac.RetryPolicy{Attempts: 9, First: time.Millisecond, Factor: 1}
			h := laned{series{almanac.Execution{RetryPolicy: retries}, "SLOW", ago(time.Minute), r.Deliver}, ""}
			storeEvent(t, w.store, h)
			w.run(t, h)
			w.await(t, almanac.EventCompleted)
			require.NoError(t, w.stop())
			var got []string
			for _, d := range r.deliveries() {
				got = append(got, fmt.Sprint(d.Event.Lane, " ", d.Attempt))
			}
			require.Equal(t, []string{" 1", "crm/tenant-7 1", "crm/tenant-7 2", " 2", " 3"}, got)
		})
	}
}

// A request that begins over 250 ms after the admission of its event, because the process was frozen past the check, is
// counted apart. Requests that begin in time are not, and lanes without limits ask nothing.
func TestRequestsThatBeginTooLateAreCounted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lane   almanac.Lane
		frozen time.Duration
		batch  int
		late   int
	}{
		"in time":             {lane: almanac.Lane{Places: 9}, frozen: 200 * time.Millisecond},
		"too late":            {lane: almanac.Lane{Places: 9}, frozen: 300 * time.Millisecond, late: 3},
		"too late, in a lane": {lane: almanac.Lane{Rate: 10, Burst: 5}, frozen: 300 * time.Millisecond, late: 3},
		"in a batch":          {lane: almanac.Lane{Places: 9}, frozen: 300 * time.Millisecond, batch: 3, late: 3},
		"without limits":      {frozen: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, m := openOn(almanactest.NewRepository(nil)), new(lateRequests)
				d := &calls{do: func(ctx context.Context, batch []almanac.Delivery) []error {
					time.Sleep(tt.frozen)
					begun := almanac.Begun(ctx)
					require.Equal(t, tt.lane.Limited(), begun != nil)
					if begun != nil {
						begun()
					}
					return make([]error, len(batch))
				}}
				deliver := func(ctx context.Context, one almanac.Delivery) error {
					return d.DeliverBatch(ctx, []almanac.Delivery{one})[0]
				}
				if tt.batch > 0 {
					deliver = almanac.Batched(d, tt.batch).Deliver
				}
				handler := series{eventType: "SLOW", seconds: ago(time.Minute), execute: deliver}
				for range 3 {
					storeEvent(t, w.store, handler)
				}
				if tt.lane.Name = "SLOW"; tt.lane.Limited() {
					require.NoError(t, w.store.PutLane(t.Context(), tt.lane))
				}
				w.run(t, handler, almanac.WithObserver(m))
				time.Sleep(time.Minute)
				require.NoError(t, w.stop())
				require.Len(t, m.all, tt.late)
				for _, one := range m.all {
					require.Equal(t, "SLOW", one.Type)
					require.Greater(t, one.Total, 250*time.Millisecond)
				}
			})
		})
	}
}

// lateRequests keeps the measurements of requests that began too late.
type lateRequests struct {
	mu  sync.Mutex
	all []almanac.Measurement
}

func (*lateRequests) Observe(context.Context, almanac.Notice) {}

func (l *lateRequests) Measure(_ context.Context, m almanac.Measurement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Kind == almanac.MeasuredLate {
		l.all = append(l.all, m)
	}
}
