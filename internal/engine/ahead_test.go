package engine_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

// aheadStore is a store whose items can be claimed ahead, and moved until they are due.
type aheadStore struct {
	*store
	unconfirmed map[int]item      // claimed ahead and not confirmed
	moved       map[int]time.Time // the new due times
	mostAhead   int
	aheads      []time.Duration // when items were claimed ahead
	confirms    []batch
	returned    []int
	early       time.Duration // how far its clock is behind at the first confirmation

	failConfirm, failReturn func(call int) error
}

const window = 500 * time.Millisecond

func newAheadStore(items ...item) *aheadStore {
	return &aheadStore{store: newStore(items...), unconfirmed: map[int]item{}, moved: map[int]time.Time{}}
}

func (f *aheadStore) engine() *machine {
	e := f.store.engine()
	e.Ahead = engine.Ahead[item]{
		Window: window, Claim: f.claimAhead, Confirm: f.confirm, Return: f.release,
		Wait: func(it item) time.Duration { return time.Until(it.due) },
	}
	return e
}

func (f *aheadStore) claimAhead(_ context.Context, n int) ([]item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aheads = append(f.aheads, f.now())
	slices.SortStableFunc(f.waiting, func(a, b item) int { return a.due.Compare(b.due) })
	var taken []item
	for len(f.waiting) > 0 && len(taken) < n && time.Until(f.waiting[0].due) <= window {
		it := f.waiting[0]
		it.lease = 1000 + len(f.aheads)
		f.unconfirmed[it.id] = it
		taken, f.waiting = append(taken, it), f.waiting[1:]
	}
	f.held += len(taken)
	f.mostAhead = max(f.mostAhead, len(f.unconfirmed))
	return taken, nil
}

func (f *aheadStore) confirm(_ context.Context, items []item) ([]engine.Verdict, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []int
	for _, it := range items {
		ids = append(ids, it.id)
	}
	f.confirms = append(f.confirms, batch{f.now(), ids})
	if f.failConfirm != nil {
		if err := f.failConfirm(len(f.confirms)); err != nil {
			return nil, err
		}
	}
	verdicts := make([]engine.Verdict, len(items))
	for i, it := range items {
		is, held := f.unconfirmed[it.id]
		switch {
		case !held || is != it:
			verdicts[i].Gone = true
		case f.early > 0 && len(f.confirms) == 1:
			verdicts[i].Wait = f.early
		default:
			delete(f.unconfirmed, it.id)
		}
	}
	return verdicts, nil
}

func (f *aheadStore) release(_ context.Context, items []item) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, it := range items {
		f.returned = append(f.returned, it.id)
		f.held--
	}
	if f.failReturn != nil {
		if err := f.failReturn(1); err != nil {
			return err
		}
	}
	for _, it := range items {
		if is, held := f.unconfirmed[it.id]; held && is == it {
			f.waiting = append(f.waiting, it)
			delete(f.unconfirmed, it.id)
		}
	}
	return nil
}

// claimThen starts an engine that holds item 1 ahead, and then a second claim during which
// end is called.
func (f *aheadStore) claimThen(t *testing.T, e *machine, end func(context.Context)) (stop func() error) {
	f.add(soon(1, time.Second, 0))
	e.Claim = func(ctx context.Context, free int) ([]item, error) {
		if time.Since(f.start) > 800*time.Millisecond {
			end(ctx)
		}
		return f.claim(ctx, free)
	}
	stop = begin(t, e)
	f.pass(850 * time.Millisecond)
	f.add(soon(2, 0, 0))
	e.Wake()
	f.pass(50 * time.Millisecond)
	return stop
}

// move gives an item another due time, unless it is due or has started.
func (f *aheadStore) move(id int, due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if it, held := f.unconfirmed[id]; held && time.Now().Before(it.due) {
		delete(f.unconfirmed, id)
		f.waiting = append(f.waiting, it)
	}
	i := slices.IndexFunc(f.waiting, func(it item) bool { return it.id == id })
	if i >= 0 && time.Now().Before(f.waiting[i].due) {
		f.waiting[i].due, f.moved[id] = due, due
	}
}

func (f *aheadStore) run(t *testing.T, check func(*testing.T, *aheadStore, *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f.store.start = time.Now()
		check(t, f, f.engine())
	})
}

func TestAhead_claimsItemsBeforeTheyAreDueAndStartsThemWhenTheyAre(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		f.add(soon(1, 3*time.Second, 0), soon(2, 3100*time.Millisecond, 0), soon(3, 3100*time.Millisecond, 0), soon(4, time.Hour, 0))
		stop := begin(t, e)
		f.pass(2900 * time.Millisecond)
		if f.held != 3 || len(f.aheads) != 1 || len(f.begun) != 0 {
			t.Errorf("%d held by %d claims, %d begun; want 3 by one, and none", f.held, len(f.aheads), len(f.begun))
		}
		f.pass(time.Second)
		for id, due := range map[int]time.Duration{1: 3 * time.Second, 2: 3100 * time.Millisecond, 3: 3100 * time.Millisecond} {
			if f.begun[id] != due || f.settled[id] != "done" {
				t.Errorf("item %d begun at %v and settled as %q, want at %v", id, f.begun[id], f.settled[id], due)
			}
		}
		want := []batch{{3 * time.Second, []int{1}}, {3100 * time.Millisecond, []int{2, 3}}}
		if !slices.EqualFunc(f.confirms, want, func(a, b batch) bool { return a.At == b.At && slices.Equal(a.IDs, b.IDs) }) {
			t.Errorf("confirmed %v, want %v", f.confirms, want)
		}
		stopClean(t, stop)
	})
}

func TestAhead_startsNothingUnlessItIsConfirmed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(*aheadStore)
		begun   time.Duration // zero for never
	}{
		"because it was removed":            {func(f *aheadStore) { f.move(1, time.Now().Add(time.Hour)) }, 0},
		"because the clock is behind":       {func(f *aheadStore) { f.early = 7 * time.Millisecond }, 1007 * time.Millisecond},
		"because the store is down":         {func(f *aheadStore) { f.failConfirm = always }, 0},
		"because the store is down a while": {func(f *aheadStore) { f.failConfirm = failing([]bool{true}) }, 1100 * time.Millisecond},
		"before it is due, moved nearer":    {func(f *aheadStore) { f.move(1, time.Now().Add(50*time.Millisecond)) }, 850 * time.Millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
				f.add(soon(1, time.Second, 0))
				stop := begin(t, e)
				f.pass(800 * time.Millisecond)
				f.mu.Lock()
				if len(f.unconfirmed) != 1 {
					t.Error("the item is not held")
				}
				f.mu.Unlock()
				tt.prepare(f)
				e.Wake()
				f.pass(20 * time.Second)

				if at, begun := f.begun[1]; begun != (tt.begun > 0) || at != tt.begun {
					t.Errorf("begun at %v, want %v", at, tt.begun)
				}
				stopClean(t, stop)
				if f.held != 0 {
					t.Errorf("%d held after Run", f.held)
				}
			})
		})
	}
}

// A call that fails a test from within ends its goroutine in this way.
func TestAhead_releasesHeldItemsWhenAClaimEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		stop := f.claimThen(t, e, func(context.Context) { runtime.Goexit() })

		if !slices.Equal(f.returned, []int{1}) {
			t.Errorf("returned %v, want 1", f.returned)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAhead_leavesItemsThatCannotBeReleasedToTheirLease(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		f.add(soon(1, time.Second, 0))
		f.failReturn = always
		stop := begin(t, e)
		f.pass(900 * time.Millisecond)
		stopClean(t, stop)
		if len(f.begun) != 0 || f.log.count("could not be released") != 1 {
			t.Errorf("%d begun, log:\n%s", len(f.begun), f.log.text.String())
		}
	})
}

func TestAhead_renewsLeasesAndForgetsItemsOfLostOnes(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		e.Leases.TTL = 900 * time.Millisecond
		e.Ahead.Window = 300 * time.Millisecond
		f.add(soon(1, time.Second, 0), soon(2, 1490*time.Millisecond, 0))
		f.failConfirm = func(call int) error { // keeps the items unconfirmed while others take their leases
			for key := range 2000 {
				f.lost[key] = true
			}
			return failing([]bool{true, true, true, true})(call)
		}
		stop := begin(t, e)
		f.pass(10 * time.Second)
		if len(f.renewed) == 0 {
			t.Error("no lease was renewed")
		}
		if _, begun := f.begun[1]; begun {
			t.Error("an item was begun whose lease was lost")
		}
		if h := e.Health(); h.Held != 0 {
			t.Errorf("%d held", h.Held)
		}
		stopClean(t, stop)
	})
}

// Ten thousand items are due within a second, and there are twenty slots. At most half of
// the slots are taken by items claimed ahead. All items start in order, none early.
func TestAhead_isBoundedAndInOrder(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		const n = 10_000
		e.Settings.Slots = 20
		for id := range n {
			f.add(soon(id, 2*time.Second+time.Duration(id/10)*time.Millisecond, 0))
		}
		stop := begin(t, e)
		f.pass(20 * time.Second)
		stopClean(t, stop)

		if len(f.settled) != n {
			t.Errorf("%d settled, want %d", len(f.settled), n)
		}
		if f.mostAhead != 10 {
			t.Errorf("%d held ahead at most, want 10", f.mostAhead)
		}
		ahead := 0
		for _, c := range f.confirms {
			ahead += len(c.IDs)
			if !slices.IsSorted(c.IDs) {
				t.Fatalf("confirmed out of order: %v", c.IDs)
			}
		}
		if ahead < n/10 {
			t.Errorf("%d of %d were claimed ahead", ahead, n)
		}
		for id, at := range f.begun {
			if due := 2*time.Second + time.Duration(id/10)*time.Millisecond; at < due || at > due+10*time.Millisecond {
				t.Fatalf("item %d begun at %v, due at %v", id, at, due)
			}
		}
	})
}

// Each claim takes the items of half a window, not a single item.
func TestAhead_claimsASteadyStreamInBatches(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		e.Settings.Slots = 1000
		const n = 1000
		for id := range n {
			f.add(soon(id, 2*time.Second+time.Duration(id)*10*time.Millisecond, 0))
		}
		stop := begin(t, e)
		f.pass(20 * time.Second)
		stopClean(t, stop)
		if claims := len(f.aheads) + len(f.claims); claims > 60 {
			t.Errorf("%d claims in ten seconds", claims)
		}
		for id, at := range f.begun {
			if due := 2*time.Second + time.Duration(id)*10*time.Millisecond; at != due {
				t.Fatalf("item %d begun at %v, due at %v", id, at, due)
			}
		}
	})
}

// The first item waits for the whole call of Confirm, so the first calls are about few
// items. The next burst of items starts with few again.
func TestAhead_confirmsABurstInGrowingParts(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		e.Settings.Slots, e.Settings.Batch = 1000, 200
		for burst := range 2 {
			for id := range 400 {
				f.add(soon(1000*burst+id, time.Duration(2+4*burst)*time.Second, 0))
			}
		}
		stop := begin(t, e)
		f.pass(20 * time.Second)
		stopClean(t, stop)
		var sizes []int
		for _, c := range f.confirms {
			sizes = append(sizes, len(c.IDs))
		}
		if want := []int{16, 32, 64, 128, 160, 16, 32, 64, 128, 160}; !slices.Equal(sizes, want) {
			t.Errorf("confirmed %v, want %v", sizes, want)
		}
	})
}

// The store is down for 700 ms, while two hundred items become due one after another. They start soon after it is up again.
func TestAhead_manyFailuresOfOneOutageAreOne(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		e.Settings.Slots, e.Settings.Batch = 1000, 200
		const n, up = 200, 1700 * time.Millisecond
		for id := range n {
			f.add(soon(id, time.Second+time.Duration(id)*3*time.Millisecond, 0))
		}
		f.failConfirm = func(int) error {
			if f.now() < up {
				return errStore
			}
			return nil
		}
		stop := begin(t, e)
		f.pass(20 * time.Second)
		stopClean(t, stop)
		if len(f.begun) != n {
			t.Errorf("%d begun, want %d", len(f.begun), n)
		}
		for id, at := range f.begun {
			if at > up+800*time.Millisecond { // as long as it was down, and the first backoff
				t.Fatalf("item %d begun at %v, up since %v", id, at, up)
			}
		}
	})
}

// An outage that lasts is met with longer and longer waits.
func TestAhead_waitsGrowDuringAnOutage(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		f.add(soon(1, time.Second, 0))
		f.failConfirm = always
		stop := begin(t, e)
		f.pass(6 * time.Second)
		stopClean(t, stop)
		var at []time.Duration
		for _, c := range f.confirms {
			at = append(at, c.At)
		}
		if want := []time.Duration{1000e6, 1100e6, 1300e6, 1700e6, 2500e6, 4100e6}; !slices.Equal(at, want) {
			t.Errorf("confirmed at %v, want %v", at, want)
		}
	})
}
