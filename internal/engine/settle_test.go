package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSettle_flushesBySize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for id := range 10 {
			s.add(soon(id, 0, 0))
		}
		e := s.engine()
		e.Settings.Batch, e.Settings.Linger = 4, time.Second
		stop := begin(t, e)
		s.pass(time.Minute)

		var sizes []string
		for _, b := range s.batches {
			sizes = append(sizes, fmt.Sprint(len(b.IDs), " at ", b.At))
		}
		if want := []string{"4 at 0s", "4 at 0s", "2 at 1s"}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %q, want %q", sizes, want)
		}
		stopClean(t, stop)
	})
}

func TestSettle_flushesByAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ms := time.Millisecond
		s := newStore(soon(1, 0, 0), soon(2, 0, 1*ms), soon(3, 0, 5*ms))
		e := s.engine()
		e.Settings.Settlers, e.Settings.Linger = 2, 2*ms // they gather one after the other
		stop := begin(t, e)
		s.pass(time.Second)

		if got, want := fmt.Sprint(s.batches), "[{2ms [1 2]} {7ms [3]}]"; got != want {
			t.Errorf("batches %v, want %v", got, want)
		}
		stopClean(t, stop)
	})
}

func TestSettle_triesTheSameBatchAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ms := time.Millisecond
		s := newStore(soon(1, 0, 0), soon(2, 0, 150*ms), soon(3, 0, 160*ms))
		s.failSettle = func(call int) error {
			if call <= 3 {
				return errStore
			}
			return nil
		}
		stop := begin(t, s.engine())
		s.pass(time.Second)

		want := "[{0s [1]} {100ms [1]} {300ms [1]} {700ms [1]} {700ms [2 3]}]"
		if got := fmt.Sprint(s.batches); got != want {
			t.Errorf("batches %v, want %v", got, want)
		}
		if got := fmt.Sprint(s.settled); got != "map[1:done 2:done 3:done]" {
			t.Errorf("settled %v, want each once", got)
		}
		if got := s.log.count("level=WARN msg=\"settle failed\""); got != 3 {
			t.Errorf("%d warnings, want 3", got)
		}
		stopClean(t, stop)
	})
}

// A slow or failing batch does not delay the next while another settler is free. The
// failure of one settler is not hidden by the success of the other.
func TestSettle_storesSeveralBatchesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		second := time.Second
		s := newStore(soon(1, 0, 0), soon(2, 1*second, 0), soon(3, 2*second, 0), soon(4, 3*second, 0))
		e := s.engine()
		e.Settings.Settlers = 2
		e.Settle = func(ctx context.Context, results []item) ([]int, error) {
			switch results[0].id {
			case 1:
				if s.now() < 10*second {
					return nil, errStore
				}
			case 3:
				time.Sleep(5 * second)
			}
			return s.settle(ctx, results)
		}
		stop := begin(t, e)
		s.pass(4 * second)
		if h := e.Health(); h.Settle.Err == nil || h.Settle.For != 4*second {
			t.Errorf("after four seconds settling fails with %v for %v", h.Settle.Err, h.Settle.For)
		}
		s.pass(second * 60)

		if got, want := fmt.Sprint(s.batches), "[{1s [2]} {7s [3]} {7s [4]} {11.3s [1]}]"; got != want {
			t.Errorf("batches %v, want %v", got, want)
		}
		stopClean(t, stop)
	})
}

// While the leases are renewed, settling is tried again: no other process has the items.
func TestSettle_keepsSlotsTakenWhileItFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for id := range 6 {
			s.add(soon(id, 0, 0))
		}
		down := true
		s.failSettle = func(int) error {
			if down {
				return errStore
			}
			return nil
		}
		e := s.engine()
		e.Settings.Slots = 2
		stop := begin(t, e)

		s.pass(10 * time.Minute)
		if len(s.claims) != 1 || s.held != 2 {
			t.Errorf("%d claims, %d held; want 1 and 2 as long as nothing can be settled", len(s.claims), s.held)
		}
		down = false
		s.pass(10 * time.Second)
		if len(s.settled) != 6 {
			t.Errorf("%d settled once the store is back, want all 6", len(s.settled))
		}
		if got := s.log.count("level=ERROR"); got != 0 {
			t.Errorf("%d errors logged, want none: nothing was given up", got)
		}
		stopClean(t, stop)
	})
}

func TestSettle_discardsResultsWhenTheirLeaseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0), soon(2, 0, 0), soon(3, 5*time.Second, 35*time.Second))
		s.failSettle, s.failRenew = always, always
		e := s.engine()
		e.Settings.Slots, e.Settings.Linger = 2, time.Millisecond
		stop := begin(t, e)

		s.pass(30*time.Second - 1)
		if got := s.log.count("level=ERROR"); got != 0 || len(s.claims) != 1 {
			t.Errorf("%d errors and %d claims before the lease is over, want none and one", got, len(s.claims))
		}
		s.pass(1)
		if got := s.log.count("level=ERROR msg=\"results given up"); got != 1 || s.log.count("count=2") != 1 {
			t.Errorf("%d errors at the end of the lease, want one for both results", got)
		}
		if last := s.batches[len(s.batches)-1]; last.At != 30*time.Second {
			t.Errorf("last tried at %v, want the very end of the lease", last.At)
		}
		if got := s.begun[3]; got != 30*time.Second {
			t.Errorf("the next item begins at %v, want when the slots are freed", got)
		}
		s.failSettle, s.failRenew = nil, nil
		s.pass(time.Minute)
		stopClean(t, stop)
	})
}

// One lease may have ended while another lasts.
func TestSettle_discardsOnlyResultsWhoseLeaseHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 25*time.Second), soon(2, 20*time.Second, 5*time.Second))
		s.failRenew = always
		s.failSettle = func(int) error {
			if s.now() < 40*time.Second {
				return errStore
			}
			return nil
		}
		e := s.engine()
		e.Settings.Linger = time.Millisecond
		stop := begin(t, e)
		s.pass(time.Minute)

		if got := fmt.Sprint(s.settled); got != "map[2:done]" {
			t.Errorf("settled %v, want the one whose lease lasts", got)
		}
		if got := s.log.count("level=ERROR msg=\"results given up"); got != 1 || s.log.count("count=1") != 1 {
			t.Errorf("%d errors logged, want one for one result", got)
		}
		stopClean(t, stop)
	})
}

// A result that takes too long in every call delays no other result, whatever else is claimed
// later.
func TestSettle_storesTheOthersWhenOneResultTakesTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		const items, slow = 40, 2
		var quick atomic.Bool // whether these two are no longer slow
		for id := range items {
			s.add(soon(id, 0, 0))
		}
		e := s.engine()
		e.Settings.Slots, e.Settings.Batch = items, items
		e.Settle = func(ctx context.Context, results []item) ([]int, error) {
			if !quick.Load() && slices.ContainsFunc(results, func(r item) bool { return r.id == 0 || r.id == 7 }) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return s.settle(ctx, results)
		}
		stop := begin(t, e)
		s.pass(3 * time.Minute)
		if got := len(s.settled); got != items-slow {
			t.Errorf("%d settled beside two that take too long, want %d", got, items-slow)
		}
		for id := range 10 * items {
			s.add(soon(items+id, 0, 0))
		}
		s.pass(10 * time.Minute)
		if got := len(s.settled); got != 11*items-slow {
			t.Errorf("%d settled, want those that were claimed later, too", got)
		}
		if got := s.log.count("they keep failing"); got < 1 || got > slow {
			t.Errorf("%d lines say that they keep failing, want one for each, at most", got)
		}
		quick.Store(true)
		s.pass(time.Minute)
		if got := len(s.settled); got != 11*items {
			t.Errorf("%d settled, want all", got)
		}
		stopClean(t, stop)
	})
}

// A store that takes longer than a quarter of its timeout for every call gets all results in one
// call again, some time after an outage.
func TestSettle_storesMoreResultsAgainUnderSteadyLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const items = 64
		s := newStore()
		var sizes []int
		e := s.engine()
		e.Settings.Slots, e.Settings.Batch, e.Settings.Linger = items, items, time.Second
		e.Settle = func(ctx context.Context, results []item) ([]int, error) {
			sizes = append(sizes, len(results))
			if s.now() < time.Minute {
				return nil, errStore
			}
			time.Sleep(e.Leases.TTL / 9) // a third of the timeout
			return s.settle(ctx, results)
		}
		for id := range 100 * items {
			s.add(soon(id, 0, 0))
		}
		stop := begin(t, e)
		s.pass(10 * time.Minute)
		if smallest, last := slices.Min(sizes), slices.Max(sizes[len(sizes)-20:]); smallest != 1 || last != items {
			t.Errorf("calls with %v results, want 1 in the outage and %d later", sizes, items)
		}
		s.pass(20 * time.Minute)
		stopClean(t, stop)
	})
}

// A call with many results exceeds its deadline, for example because their successors take long
// to plan. Calls with fewer results make progress.
func TestSettle_storesFewerResultsAfterACallThatTookTooLong(t *testing.T) {
	t.Parallel()
	for name, postponed := range map[string]bool{"results": false, "postponed results": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const items, slow = 100, 70 // the deadline is ten seconds
				s := newStore()
				for id := range items {
					s.add(soon(id, 0, 0))
					s.locked[id] = postponed
				}
				e := s.engine()
				e.Settings.Slots, e.Settings.Batch, e.Settings.Linger = 2*items, items, time.Second
				var sizes []int
				e.Settle = func(ctx context.Context, results []item) ([]int, error) {
					takes := time.Millisecond
					s.mu.Lock()
					for _, r := range results {
						if r.id < slow && !s.locked[r.id] {
							takes += time.Second
						}
					}
					sizes = append(sizes, len(results))
					s.mu.Unlock()
					select {
					case <-time.After(takes):
						return s.settle(ctx, results)
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				stop := begin(t, e)
				s.pass(2 * time.Second)
				s.unlock()
				s.pass(10 * time.Minute)

				if len(s.settled) != items {
					t.Errorf("%d of %d results are stored, in calls with %v", len(s.settled), items, sizes)
				}
				for id, outcome := range s.settled {
					if outcome != "done" {
						t.Errorf("result %d is stored as %q, want once", id, outcome)
					}
				}
				if got := s.log.count("level=ERROR"); got != 0 {
					t.Errorf("%d errors logged, want none: nothing was given up", got)
				}
				for id := range items {
					s.add(soon(items+id, 0, 0))
				}
				s.pass(time.Minute)
				for id := range items {
					s.add(soon(2*items+id, 0, 0))
				}
				s.pass(time.Minute)
				if last := sizes[len(sizes)-1]; last != items && !postponed {
					t.Errorf("the last call has %d results, want %d again: %v", last, items, sizes)
				}
				stopClean(t, stop)
			})
		})
	}
}
