package almanac_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// lagging is a repository some of whose calls take effect as those of transactions do
// that began a while ago: what they make available is so from then on.
type lagging struct {
	almanac.Repository
	lags   map[string]time.Duration
	behind atomic.Int64
	marks  map[time.Time]bool // that looks for the next event began at
}

func (l *lagging) now() time.Time { return time.Now().Add(-time.Duration(l.behind.Load())) }

func (l *lagging) during(call string) (over func()) {
	l.behind.Store(int64(l.lags[call]))
	return func() { l.behind.Store(0) }
}

func (l *lagging) Now(ctx context.Context) (time.Time, error) {
	defer l.during("plan")()
	return l.Repository.Now(ctx)
}

func (l *lagging) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	defer l.during("plan")()
	return l.Repository.CreateUsers(ctx, users)
}

func (l *lagging) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	defer l.during("plan")()
	return l.Repository.EditUser(ctx, id, edit)
}

func (l *lagging) Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error) {
	l.marks[mark] = true // one goroutine looks
	return l.Repository.Until(ctx, types, mark)
}

func (l *lagging) Settle(ctx context.Context, batch []almanac.Settlement) ([]almanac.SettleResult, error) {
	defer l.during("settle")()
	return l.Repository.Settle(ctx, batch)
}

func (l *lagging) ReleaseExpired(ctx context.Context, limit, most int) ([]almanac.Event, error) {
	defer l.during("sweep")()
	return l.Repository.ReleaseExpired(ctx, limit, most)
}

// reluctant is a repository that claims one event at a time, and does not search in every other claim.
type reluctant struct {
	almanac.Repository
	claims int // one goroutine claims
}

func (n *reluctant) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if n.claims++; n.claims%2 == 0 {
		return almanac.ClaimResult{}, nil
	}
	r.Limit = 1
	return n.Repository.Claim(ctx, r)
}

// markSweep is how often the processes below look everywhere, and at leases.
const markSweep = time.Hour

// voyage is a process whose mark goes ahead, and an event LEFT that it leaves behind.
// It sleeps until something is due, unless something wakes it, and looks everywhere
// once an hour.
type voyage struct {
	due    []int                    // in seconds from the start: the events of LEFT; new users have none
	slow   time.Duration            // how long the first delivery of LEFT takes
	fails  bool                     // and whether it fails then
	faults []fault                  // of the repository
	lags   map[string]time.Duration // of its calls
	happen func(v *voyage)          // after twenty seconds
	narrow bool                     // whether claims take one event at a time
	ahead  []int                    // in seconds from the start: what takes the mark there; ten and thirty if nil

	t         *testing.T
	start     time.Time
	memory    *almanactest.Repository
	marks     map[time.Time]bool
	scheduler almanac.Scheduler

	mu      sync.Mutex
	pending almanac.Event   // the one event of LEFT that is stored at first
	left    []time.Duration // deliveries of LEFT, since the start
	free    time.Duration   // when it was released, since the start
}

// drifting is the handler of LEFT, whose occurrences may change.
type drifting struct {
	series
	v *voyage
}

func (d drifting) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	d.v.mu.Lock()
	defer d.v.mu.Unlock()
	for _, second := range d.v.due {
		d.seconds = append(d.seconds, d.v.at(second))
	}
	return d.series.Next(u, after)
}

func (v *voyage) at(second int) time.Time {
	return v.start.UTC().Add(time.Duration(second) * time.Second)
}

// plan changes the events of LEFT.
func (v *voyage) plan(seconds ...int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.due = seconds
}

func (v *voyage) deliver(context.Context, almanac.Delivery) error {
	v.mu.Lock()
	first := len(v.left) == 0
	v.left = append(v.left, time.Since(v.start))
	v.mu.Unlock()
	if !first {
		return nil
	}
	time.Sleep(v.slow)
	if v.fails {
		return errBusy
	}
	return nil
}

// sail has the process run for six hours.
func (v *voyage) sail(t *testing.T) {
	v.t, v.start = t, time.Now()
	lagging := &lagging{lags: v.lags, marks: make(map[time.Time]bool)}
	v.memory, v.marks = almanactest.NewRepository(lagging.now), lagging.marks
	lagging.Repository = newFaulty(v.memory, v.start, v.faults...)
	if v.narrow {
		lagging.Repository = &reluctant{Repository: lagging.Repository}
	}
	patient := almanac.Execution{AttemptTimeout: time.Hour, CatchUpPolicy: almanac.CatchUp{All: true}, RetryPolicy: soon.RetryPolicy}
	accept := func(context.Context, almanac.Delivery) error { return nil }
	ahead := series{Execution: patient, eventType: "AHEAD", execute: accept}
	if v.ahead == nil {
		v.ahead = []int{10, 30}
	}
	for _, second := range v.ahead {
		ahead.seconds = append(ahead.seconds, v.at(second))
	}
	left := drifting{series{Execution: patient, eventType: "LEFT", execute: v.deliver}, v}
	storeEvent(t, v.memory, ahead)
	registry, err := almanac.NewRegistry(ahead, left)
	require.NoError(t, err)
	v.scheduler, err = almanac.NewScheduler(lagging, registry,
		almanac.WithLease(3*time.Hour), almanac.WithPoll(24*time.Hour), almanac.WithSweep(markSweep), almanac.WithLookAhead(0),
		almanac.WithObserver(almanac.Hooks{Released: func(context.Context, almanac.Event) { v.free = time.Since(v.start) }}))
	require.NoError(t, err)
	if len(v.due) > 0 {
		v.pending = v.store()
	}
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Hour)
	defer stop()
	time.AfterFunc(20*time.Second, func() { v.happen(v) })
	require.NoError(t, v.scheduler.Run(ctx))
}

// store has another process store the next event.
func (v *voyage) store() almanac.Event {
	now := make([]time.Time, 0, len(v.due))
	for _, second := range v.due {
		now = append(now, v.at(second))
	}
	return storeEvent(v.t, v.memory, series{eventType: "LEFT", seconds: now})
}

// nothing happens but what was to happen anyway.
func nothing(*voyage) {}

// Each of these stores an event before the mark, by an action of the process itself or with a
// hint. The event need not wait for the next search from the beginning.
func TestAnEventStoredBeforeTheOwnMarkIsDeliveredAtOnce(t *testing.T) {
	t.Parallel()
	slowly := map[string]time.Duration{"plan": 15 * time.Second, "settle": 15 * time.Second}
	for name, tt := range map[string]struct {
		*voyage
		want []int // deliveries, in seconds since the start
	}{
		"a new user": {&voyage{lags: slowly, happen: func(v *voyage) {
			v.plan(8)
			_, err := v.scheduler.CreateUser(v.t.Context(), grace)
			require.NoError(v.t, err)
		}}, []int{20}},
		"an edit": {&voyage{lags: slowly, due: []int{7000}, happen: func(v *voyage) {
			v.plan(8)
			_, err := v.scheduler.Reschedule(v.t.Context(), v.pending.UserID)
			require.NoError(v.t, err)
		}}, []int{20}},
		"a type that is introduced": {&voyage{lags: slowly, happen: func(v *voyage) {
			enrolment, err := v.scheduler.CreateUser(v.t.Context(), grace)
			require.NoError(v.t, err)
			v.plan(8)
			_, err = v.scheduler.Schedule(v.t.Context(), enrolment.User.ID, "LEFT")
			require.NoError(v.t, err)
		}}, []int{20}},
		"a successor that is due already": {&voyage{due: []int{5, 8}, slow: 15 * time.Second, happen: nothing}, []int{5, 20}},
		"another attempt":                 {&voyage{lags: slowly, due: []int{5}, slow: 15 * time.Second, fails: true, happen: nothing}, []int{5, 20}},
		"perhaps another attempt, with an answer after a minute": {&voyage{
			lags: slowly, due: []int{5}, slow: 15 * time.Second, fails: true, happen: nothing,
			faults: []fault{{"settle", loses, 19 * time.Second, time.Minute}},
		}, []int{5, 30}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tt.sail(t)
				got := make([]int, len(tt.left))
				for i, d := range tt.left {
					got[i] = int(d.Round(time.Second).Seconds())
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("delivered after %v, want %v seconds", tt.left, tt.want)
				}
			})
		})
	}
}

// What is released from dead workers is available from then on, when the mark may have
// gone ahead: here it does every minute.
func TestExpiredEventsBeforeTheMarkAreDeliveredAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &voyage{lags: map[string]time.Duration{"sweep": 90 * time.Second}, happen: func(v *voyage) {
			v.plan(8)
			v.store()
			dead := almanac.ClaimRequest{Token: uuid.New(), Types: []string{"LEFT"}, Limit: 1, Lease: time.Minute}
			_, err := v.memory.Claim(v.t.Context(), dead)
			require.NoError(v.t, err)
		}}
		for minute := range 120 {
			v.ahead = append(v.ahead, 60*minute+10)
		}
		v.sail(t)
		if len(v.left) != 1 || v.free == 0 || v.left[0]-v.free > time.Second {
			t.Errorf("released after %v and delivered after %v, want at once", v.free, v.left)
		}
	})
}

// New rules of a zone move an event to the left of the mark.
func TestEventsMovedBeforeTheMarkByZoneRulesAreDeliveredAtOnce(t *testing.T) {
	t.Parallel()
	data := rulesOf(t, "2099a", beirutAllSummer)
	synctest.Test(t, func(t *testing.T) {
		// At nine in Beirut it is seven in winter, and six under the new rules.
		start := time.Now().UTC()
		morning := func(clock time.Duration) time.Time { return start.Add(24*time.Hour + clock) }
		var mu sync.Mutex
		var greeted []time.Time
		ahead := series{eventType: "AHEAD", seconds: []time.Time{morning(6*time.Hour + 30*time.Minute)},
			execute: func(context.Context, almanac.Delivery) error { return nil }}
		registry, err := almanac.NewRegistry(almanac.Birthday{}, ahead)
		require.NoError(t, err)
		s, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry, almanac.WithPoll(48*time.Hour), almanac.WithSweep(48*time.Hour),
			almanac.WithLease(48*time.Hour), almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				greeted = append(greeted, time.Now().UTC())
				return nil
			})))
		require.NoError(t, err)
		enrol(t, s, "Asia/Beirut", "1990-01-02")
		reconciled := morning(6*time.Hour + 45*time.Minute)
		time.AfterFunc(time.Until(reconciled), func() {
			_, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: data})
			require.NoError(t, err)
		})
		ctx, stop := context.WithTimeout(t.Context(), 72*time.Hour)
		defer stop()
		require.NoError(t, s.Run(ctx))
		if len(greeted) != 1 || greeted[0].Sub(reconciled) > time.Second {
			t.Errorf("greeted at %v, want once, at %v", greeted, reconciled)
		}
	})
}

// Another process stores an event left of the mark. It waits for the next look
// everywhere and no longer, also when that fails at first.
func TestEventsOfOthersBeforeTheMarkWaitForTheSweep(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]fault{
		"all is well":                  nil,
		"the claim of the sweep fails": {{"claim", fails, time.Minute, 0}},
		"its claim is lost":            {{"claim", loses, time.Minute, 0}},
		"its first look fails":         {{"until", fails, time.Minute, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &voyage{faults: faults, happen: func(v *voyage) {
					v.plan(8)
					v.store()
				}}
				v.sail(t)
				if len(v.left) != 1 {
					t.Fatalf("delivered after %v, want once", v.left)
				}
				if !v.marks[v.at(30)] {
					t.Errorf("looks for the next event began at %v, and never at the mark", v.marks)
				}
				if after := v.left[0]; after < time.Minute || after > markSweep+time.Second {
					t.Errorf("delivered after %v, want it to wait for the sweep, %v at most", after, markSweep)
				}
			})
		})
	}
}

// A repository may claim fewer events than the limit, or none without a search. All events left of
// the mark are still found by one look everywhere.
func TestALookEverywhereGoesOnWhileTheRepositoryLowersTheLimit(t *testing.T) {
	t.Parallel()
	for first := range 2 { // whether the sweep's own claim searches
		synctest.Test(t, func(t *testing.T) {
			v := &voyage{narrow: true, happen: func(v *voyage) {
				v.plan(8)
				for range 20 + first {
					v.store()
				}
			}}
			v.sail(t)
			if n := len(v.left); n != 20+first || v.left[n-1] > markSweep+5*time.Second {
				t.Errorf("delivered after %v, want all just after the sweep", v.left)
			}
		})
	}
}

// walled is a repository beside an old transaction: a search from the beginning takes longer than a call may.
type walled struct {
	almanac.Repository
	old atomic.Bool
}

func (w *walled) walk(mark time.Time) error {
	if !w.old.Load() || !mark.IsZero() {
		return nil
	}
	time.Sleep(5 * time.Second)
	return errBusy
}

func (w *walled) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if err := w.walk(r.Mark); err != nil {
		return almanac.ClaimResult{}, err
	}
	return w.Repository.Claim(ctx, r)
}

func (w *walled) Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error) {
	if err := w.walk(mark); err != nil {
		return 0, false, err
	}
	return w.Repository.Until(ctx, types, mark)
}

func TestEventsAfterTheMarkDoNotWaitForAFailedSearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := &walled{Repository: almanactest.NewRepository(nil)}
		w, h, late := openOn(repository), series{eventType: "TICK"}, time.Duration(0)
		for n := range 20 {
			h.seconds = append(h.seconds, time.Now().Add(time.Duration(n+1)*time.Minute))
		}
		delivered := 0
		h.execute = func(_ context.Context, d almanac.Delivery) error {
			delivered++
			late = max(late, time.Since(d.Event.Due))
			return nil
		}
		s := w.run(t, h)
		_, err := s.CreateUser(t.Context(), grace)
		require.NoError(t, err)
		time.Sleep(90 * time.Second)
		repository.old.Store(true)
		time.Sleep(20 * time.Minute)
		require.NoError(t, w.stop())
		require.Equal(t, 20, delivered)
		require.LessOrEqual(t, late, 6*time.Second, "one search from the beginning")
	})
}
