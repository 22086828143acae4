package engine

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// Ahead sets how items are claimed before they are due. When a held item becomes due, only
// its confirmation remains before it starts. All fields are required unless Window is zero.
type Ahead[T any] struct {
	// Window is how far ahead items are claimed: at most a third of Leases.TTL. Zero claims
	// none ahead. Items that are not due yet take at most half of Settings.Slots, rounded
	// down, so that slots remain for items that are due.
	Window time.Duration

	// Claim takes at most n items that are due within Window, the most urgent first. When it takes none,
	// it is not called again until the next item is due. In all other respects it is like Engine.Claim.
	Claim func(ctx context.Context, n int) ([]T, error)

	// Wait returns how long it is until an item is due. It must be zero or less exactly for items
	// that were due when they were claimed. It is called once for each item, after the claim.
	Wait func(item T) time.Duration

	// Confirm is called when items that were claimed ahead should be due, and returns what
	// to do with each. It may replace elements of items by more complete ones. After an
	// error it is called again, after Settings.Backoff; calls for other items during that wait do
	// not count as further failures. Its context ends with Run's.
	Confirm func(ctx context.Context, items []T) ([]Verdict, error)

	// Return releases items that were not started because Run was asked to stop. It also
	// gets the items that are gone, so that the store can end leases that have no items
	// left. When it fails, their leases run out.
	Return func(ctx context.Context, items []T) error
}

// Verdict is what to do with an item that was claimed ahead. The zero Verdict starts the item.
type Verdict struct {
	Gone bool          // the item is no longer this engine's: forget it
	Wait time.Duration // confirm the item again after this time, if positive
}

// held is a claimed item that has not started, with its slot and its share of a lease.
type held[T any] struct {
	item  T
	due   time.Time // when the item should be due; zero when it was due at the claim
	share *share    // also the item's context
}

// accept gives a claimed item a slot and a share of its lease, which was asked for at asked. It
// returns false when the lease has ended already: another process may have started the item.
func (r *run[T]) accept(work context.Context, asked time.Time, item T) (held[T], bool) {
	h := held[T]{item: item}
	limit := r.Limit(item)
	if r.Ahead.Window > 0 {
		if wait := r.Ahead.Wait(item); wait > 0 {
			h.due = time.Now().Add(wait)
			limit += wait
		}
	}
	var ok bool
	if h.share, ok = r.ledger.take(work, r.Leases.Key(item), asked, limit); !ok {
		return h, false
	}
	r.slots.take()
	r.busy.join()
	return h, true
}

// forget frees the slot and the lease share of an item that has not started.
func (r *run[T]) forget(h held[T]) {
	r.ledger.done(h.share)
	r.ledger.drop(h.share)
	r.slots.put(1)
	r.busy.leave()
}

// holder keeps items that were claimed ahead until they are due.
type holder[T any] struct {
	r        *run[T]
	incoming chan []held[T] // closed when nothing more is claimed
	count    atomic.Int64   // of the items that have not started
	short    atomic.Bool    // whether the claimer would have claimed more
	waiting  []held[T]      // the earliest first
	most     int            // how many items the next call of Confirm gets at most; zero or less than firstAsk means firstAsk
	failures int            // in a row: calls of Confirm that failed, except those that began before again
	again    time.Time      // when the wait after the last counted failure ends
	lastSpin time.Time      // when spinUntilDue last spun
}

// firstAsk is how many items the first call of Confirm gets when many are due at once. The
// first item waits for the whole call, and a call takes longer for more items. Each further
// call gets about twice as many, up to a batch.
const firstAsk = 16

// budget returns how many items may be held at most.
func (h *holder[T]) budget() int { return h.r.Settings.Slots / 2 }

// capacity returns how many more items may be claimed ahead. Only the claimer calls it, and
// only the claimer reduces it.
func (h *holder[T]) capacity() int {
	if h.r.Ahead.Window == 0 {
		return 0
	}
	capacity := min(h.budget()-int(h.count.Load()), h.r.slots.free())
	h.short.Store(capacity == 0)
	return capacity
}

// keep takes items that are not due yet. Only the claimer calls it.
func (h *holder[T]) keep(items []held[T]) {
	if len(items) > 0 {
		h.count.Add(int64(len(items)))
		h.incoming <- items
	}
}

// run ends when the claimer has ended. Once ctx is done, it releases the items that it
// holds and those that still arrive.
func (h *holder[T]) run(ctx, outliving context.Context) {
	alarm := time.NewTimer(time.Hour)
	alarm.Stop() // until there is something to wait for
	defer alarm.Stop()
	stopped := h.r.stopped
	for {
		select {
		case items, more := <-h.incoming:
			if !more {
				h.releaseAll(outliving)
				return
			}
			h.add(items...)
		case <-alarm.C:
			if ctx.Err() == nil && h.spinUntilDue() {
				h.confirm(ctx, outliving)
			}
		case <-stopped:
			stopped = nil
		}
		if ctx.Err() != nil {
			h.releaseAll(outliving)
		}
		if len(h.waiting) > 0 {
			alarm.Reset(h.sleep())
		}
	}
}

// A timer fires up to a millisecond late, because an idle runtime sleeps in whole milliseconds
// (runtime/netpoll_epoll.go). The holder therefore spins for the last timerGrain before an instant,
// if it has not spun for spinEvery. This takes at most a tenth of a processor.
const (
	timerGrain = 1100 * time.Microsecond
	spinEvery  = 10 * timerGrain
)

// sleep returns how long to sleep: until the first item should be due, or until timerGrain
// before that when the holder will spin.
func (h *holder[T]) sleep() time.Duration {
	left := time.Until(h.waiting[0].due)
	if left > timerGrain && time.Since(h.lastSpin) > spinEvery-left {
		return left - timerGrain
	}
	return left
}

// spinUntilDue waits without sleeping for the first item, if that should be due within
// timerGrain. It reports whether the item is due. It returns false when the clock stands
// still, as virtual time does: the caller must sleep instead.
func (h *holder[T]) spinUntilDue() bool {
	if len(h.waiting) == 0 {
		return true
	}
	const maxSpins = 100 // some microseconds
	began := time.Now()
	for spin := 0; ; spin++ {
		now := time.Now()
		left := h.waiting[0].due.Sub(now)
		if left <= 0 || left > timerGrain {
			return left <= 0
		}
		if spin == maxSpins && now.Equal(began) {
			return false
		}
		h.lastSpin = now
		runtime.Gosched()
	}
}

// add inserts items in due order.
func (h *holder[T]) add(items ...held[T]) {
	h.waiting = append(h.waiting, items...)
	slices.SortStableFunc(h.waiting, func(a, b held[T]) int { return a.due.Compare(b.due) })
}

// confirm calls Confirm for the items that should be due, and starts those that it confirms.
func (h *holder[T]) confirm(ctx, outliving context.Context) {
	now := time.Now()
	n := 0
	most := min(max(h.most, firstAsk), h.r.Settings.Batch)
	for n < len(h.waiting) && n < most && !h.waiting[n].due.After(now) {
		n++
	}
	h.most = 0
	if n == most {
		h.most = 2 * n
	}
	due := slices.Clone(h.waiting[:n])
	h.waiting = slices.Delete(h.waiting, 0, n)
	due = slices.DeleteFunc(due, func(one held[T]) bool {
		lost := one.share.Err() != nil
		if lost {
			h.forget(one)
		}
		return lost
	})
	if len(due) == 0 {
		return
	}
	items := itemsOf(due)
	verdicts, err := h.ask(ctx, items)
	if err != nil {
		wait := h.wait(now)
		if ctx.Err() == nil {
			h.r.log.WarnContext(ctx, "confirmation of items claimed ahead failed", "error", err, "items", len(due), "retry_in", wait)
		}
		h.postpone(due, wait)
		return
	}
	h.failures, h.again = 0, time.Time{}
	var gone []T
	for i, one := range due {
		due[i].item = items[i]
		switch v := verdicts[i]; {
		case v.Gone:
			h.forget(one)
			gone = append(gone, one.item)
		case v.Wait > 0:
			h.postpone(due[i:i+1], v.Wait)
		default:
			h.uncount()
			h.r.runners.start(due[i])
		}
	}
	h.release(outliving, gone)
}

// wait notes that a call of Confirm failed which began at now, and returns how long its items wait. Items that are due one after
// another are asked about in many calls. If each call counted, a short outage would delay the last items by the longest backoff.
func (h *holder[T]) wait(now time.Time) time.Duration {
	if now.Before(h.again) {
		return h.r.backoff(h.failures)
	}
	h.failures++
	wait := h.r.backoff(h.failures)
	h.again = time.Now().Add(wait)
	return wait
}

func (h *holder[T]) ask(ctx context.Context, items []T) ([]Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, h.r.call())
	defer cancel()
	return h.r.Ahead.Confirm(ctx, items)
}

func (h *holder[T]) postpone(items []held[T], wait time.Duration) {
	due := time.Now().Add(wait)
	for i := range items {
		items[i].due = due
	}
	h.add(items...)
}

// releaseAll releases every held item. Run's drain does not wait for it.
func (h *holder[T]) releaseAll(outliving context.Context) {
	items := itemsOf(h.waiting)
	for _, one := range h.waiting {
		h.forget(one)
	}
	h.waiting = nil
	h.release(outliving, items)
}

// release calls Ahead.Return for items that this engine will not start.
func (h *holder[T]) release(ctx context.Context, items []T) {
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.r.call())
	defer cancel()
	if err := h.r.Ahead.Return(ctx, items); err != nil {
		h.r.log.WarnContext(ctx, "items claimed ahead could not be released, their leases run out", "error", err, "items", len(items))
	}
}

func itemsOf[T any](all []held[T]) []T {
	items := make([]T, len(all))
	for i, one := range all {
		items[i] = one.item
	}
	return items
}

// forget removes an item.
func (h *holder[T]) forget(one held[T]) {
	h.r.forget(one)
	h.uncount()
}

// uncount lowers the count of held items. It wakes the claimer when at least half of the
// budget is free and the claimer found no capacity before.
func (h *holder[T]) uncount() {
	if int(h.count.Add(-1)) <= h.budget()/2 && h.short.CompareAndSwap(true, false) {
		h.r.live.wake.give()
	}
}
