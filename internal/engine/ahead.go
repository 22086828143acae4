package engine

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// Ahead says how items are claimed before they are due, so that at that moment nothing
// is left but to ask whether they may still be done. All fields are required unless
// Window is zero.
type Ahead[T any] struct {
	// Window is how far ahead items are claimed: at most a third of Leases.TTL. Zero
	// claims none ahead. At most half of Settings.Slots are taken by what is not due
	// yet, rounded down, so that there are slots for what is.
	Window time.Duration

	// Claim takes at most n items that are due within Window, the most urgent first. In
	// all else it is as Engine.Claim. When it takes none, it is not called again until
	// the next item is due.
	Claim func(ctx context.Context, n int) ([]T, error)

	// Wait says how long it is until an item is due: zero or less for one that was when
	// it was claimed, and for no other. It is called once, after the claim.
	Wait func(item T) time.Duration

	// Confirm is asked when items that were claimed ahead should be due, and says of
	// each what to do. It may put others in their places, which know more. An error
	// means that it is to be asked again, after Settings.Backoff. Its context ends with
	// Run's.
	Confirm func(ctx context.Context, items []T) ([]Verdict, error)

	// Return gives back items that were not begun, when Run was asked to stop. It also
	// hears of those that are gone, so that the store can end their leases if nothing
	// is left of these. When it fails, their leases run out.
	Return func(ctx context.Context, items []T) error
}

// Verdict says what to do with an item that was claimed ahead. The zero Verdict is to
// begin it.
type Verdict struct {
	Gone bool          // it is another's by now, or nobody's: forget it
	Wait time.Duration // ask again then, if it is positive
}

// held is a claimed item that was not begun, with its slot and its share in a lease.
type held[T any, K comparable] struct {
	item T
	due  time.Time // when it may be; zero when it was when it was claimed
	ctx  context.Context
	hold *hold[K]
}

// hold gives a claimed item a slot, unless its lease, asked for at asked, is over
// already: somebody else may have begun it. It reports whether it did.
func (r *run[T, R, K]) hold(work context.Context, asked time.Time, item T) (held[T, K], bool) {
	h := held[T, K]{item: item}
	limit := r.Limit(item)
	if r.Ahead.Window > 0 {
		if wait := r.Ahead.Wait(item); wait > 0 {
			h.due = time.Now().Add(wait)
			limit += wait
		}
	}
	var ok bool
	if h.ctx, h.hold, ok = r.ledger.take(work, r.Leases.Key(item), asked, limit); !ok {
		return h, false
	}
	r.slots.take()
	r.busy.join()
	return h, true
}

// letGo ends what an item holds that was not begun.
func (r *run[T, R, K]) letGo(h held[T, K]) {
	r.ledger.done(h.hold)
	r.ledger.drop(h.hold)
	r.slots.release(1)
	r.busy.leave()
}

// holder keeps what was claimed ahead until it is due.
type holder[T, R any, K comparable] struct {
	r        *run[T, R, K]
	incoming chan []held[T, K] // closed when nothing more is claimed
	count    atomic.Int64      // of the items that are not begun
	short    atomic.Bool       // whether the claimer would have claimed more
	waiting  []held[T, K]      // the soonest first
	most     int               // how many items the next call of Confirm is about; zero for as few as the first of a crowd
	failures int               // calls of Confirm that failed in a row
	wasUp    time.Time         // when the last moment before an instant was spent awake
}

// firstAsk is how many items the first call of Confirm in a crowd is about: the answer
// about many takes as long as the first of them waits. Each further call is about
// twice as many, up to a batch.
const firstAsk = 16

func newHolder[T, R any, K comparable](r *run[T, R, K]) *holder[T, R, K] {
	return &holder[T, R, K]{r: r, incoming: make(chan []held[T, K])}
}

// budget is how many items may be held at most.
func (h *holder[T, R, K]) budget() int { return h.r.Settings.Slots / 2 }

// room is how many more items may be claimed ahead. It is for the claimer, who alone
// makes it less.
func (h *holder[T, R, K]) room() int {
	if h.r.Ahead.Window == 0 {
		return 0
	}
	room := min(h.budget()-int(h.count.Load()), h.r.slots.free())
	h.short.Store(room == 0)
	return room
}

// keep takes items that are not due yet. Only the claimer calls it.
func (h *holder[T, R, K]) keep(items []held[T, K]) {
	if len(items) > 0 {
		h.count.Add(int64(len(items)))
		h.incoming <- items
	}
}

// run ends when the claimer has. Once ctx is done it gives back what it holds and
// what it gets.
func (h *holder[T, R, K]) run(ctx, outliving context.Context) {
	alarm := time.NewTimer(time.Hour)
	alarm.Stop() // until there is something to wait for
	defer alarm.Stop()
	stopped := h.r.stopped
	for {
		select {
		case items, more := <-h.incoming:
			if !more {
				h.giveBack(outliving)
				return
			}
			h.add(items...)
		case <-alarm.C:
			if ctx.Err() == nil && h.stayUp() {
				h.confirm(ctx, outliving)
			}
		case <-stopped:
			stopped = nil
		}
		if ctx.Err() != nil {
			h.giveBack(outliving)
		}
		if len(h.waiting) > 0 {
			alarm.Reset(h.sleep())
		}
	}
}

// Timers ring up to a millisecond late, because the runtime sleeps in whole
// milliseconds when all is quiet (runtime/netpoll_epoll.go). Where an instant is by
// itself the last moment before it is therefore spent awake, which takes at most a
// tenth of a processor.
const (
	grain = 1100 * time.Microsecond
	rest  = 10 * grain
)

// sleep is how long to sleep until the first item should be due, or until a moment
// before.
func (h *holder[T, R, K]) sleep() time.Duration {
	left := time.Until(h.waiting[0].due)
	if left > grain && time.Since(h.wasUp) > rest-left {
		return left - grain
	}
	return left
}

// stayUp waits for the first item without sleeping, if it should be due in a moment,
// and reports whether it is. A clock that stands still meanwhile, as virtual time
// does, has to be slept for.
func (h *holder[T, R, K]) stayUp() bool {
	if len(h.waiting) == 0 {
		return true
	}
	const patience = 100 // turns, some microseconds
	began := time.Now()
	for turn := 0; ; turn++ {
		now := time.Now()
		left := h.waiting[0].due.Sub(now)
		if left <= 0 || left > grain {
			return left <= 0
		}
		if turn == patience && now.Equal(began) {
			return false
		}
		h.wasUp = now
		runtime.Gosched()
	}
}

// add sorts items in.
func (h *holder[T, R, K]) add(items ...held[T, K]) {
	h.waiting = append(h.waiting, items...)
	slices.SortStableFunc(h.waiting, func(a, b held[T, K]) int { return a.due.Compare(b.due) })
}

// confirm asks about everything that should be due, and begins what may be.
func (h *holder[T, R, K]) confirm(ctx, outliving context.Context) {
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
	due = slices.DeleteFunc(due, func(one held[T, K]) bool {
		lost := one.ctx.Err() != nil
		if lost {
			h.letGo(one)
		}
		return lost
	})
	if len(due) == 0 {
		return
	}
	items := itemsOf(due)
	verdicts, err := h.ask(ctx, items)
	if err != nil {
		h.failures++
		wait := h.r.backoff(h.failures)
		if ctx.Err() == nil {
			h.r.log.WarnContext(ctx, "confirmation of items claimed ahead failed", "error", err, "items", len(due), "retry_in", wait)
		}
		h.postpone(due, wait)
		return
	}
	h.failures = 0
	var gone []T
	for i, one := range due {
		due[i].item = items[i]
		switch v := verdicts[i]; {
		case v.Gone:
			h.letGo(one)
			gone = append(gone, one.item)
		case v.Wait > 0:
			h.postpone(due[i:i+1], v.Wait)
		default:
			h.leave()
			go h.r.do(one.ctx, due[i].item, one.hold)
		}
	}
	h.giveUp(outliving, gone)
}

func (h *holder[T, R, K]) ask(ctx context.Context, items []T) ([]Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, h.r.call())
	defer cancel()
	return h.r.Ahead.Confirm(ctx, items)
}

func (h *holder[T, R, K]) postpone(items []held[T, K], wait time.Duration) {
	due := time.Now().Add(wait)
	for i := range items {
		items[i].due = due
	}
	h.add(items...)
}

// giveBack gives back everything that is held. Neither the items nor Run's drain wait
// for it.
func (h *holder[T, R, K]) giveBack(outliving context.Context) {
	items := itemsOf(h.waiting)
	for _, one := range h.waiting {
		h.letGo(one)
	}
	h.waiting = nil
	h.giveUp(outliving, items)
}

// giveUp tells the store of items that nobody here is going to begin.
func (h *holder[T, R, K]) giveUp(ctx context.Context, items []T) {
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.r.call())
	defer cancel()
	if err := h.r.Ahead.Return(ctx, items); err != nil {
		h.r.log.WarnContext(ctx, "items claimed ahead could not be given back, their leases run out", "error", err, "items", len(items))
	}
}

func itemsOf[T any, K comparable](holds []held[T, K]) []T {
	items := make([]T, len(holds))
	for i, one := range holds {
		items[i] = one.item
	}
	return items
}

// letGo forgets an item.
func (h *holder[T, R, K]) letGo(one held[T, K]) {
	h.r.letGo(one)
	h.leave()
}

// leave counts one less, and tells the claimer when half of what may be held is free
// and it would have claimed more.
func (h *holder[T, R, K]) leave() {
	if int(h.count.Add(-1)) <= h.budget()/2 && h.short.CompareAndSwap(true, false) {
		h.r.live.wake.give()
	}
}
