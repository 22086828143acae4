package engine

import (
	"context"
	"sync"
	"time"
)

// ledger keeps the leases in hand. It judges them by the local monotonic clock
// alone, and is safe for concurrent use.
type ledger[K comparable] struct {
	ttl   time.Duration
	grace time.Duration // how long an item may take to return once its context has ended

	mu      sync.Mutex
	byKey   map[K]*lease[K]
	running map[*hold[K]]struct{} // those whose items have not returned
	losses  int                   // items that lost their lease, until a while passes without
	loss    time.Time             // the last of them
}

// lease is the bounded right to work on the items that hold it.
type lease[K comparable] struct {
	key   K
	end   time.Time // unless renewed
	lost  time.Time // for good; zero while it is held
	holds map[*hold[K]]struct{}
}

// hold is one item's share in a lease, from claim to settlement.
type hold[K comparable] struct {
	lease  *lease[K]
	limit  time.Time               // when the item's context ends by itself
	cancel context.CancelCauseFunc // ends it before
}

func newLedger[K comparable](ttl, grace time.Duration) *ledger[K] {
	return &ledger[K]{ttl: ttl, grace: grace, byKey: make(map[K]*lease[K]), running: make(map[*hold[K]]struct{})}
}

// take lets an item hold the lease called key, which was asked for at asked, and
// returns the item's context below work, which ends after limit. It refuses when
// the lease is over.
func (b *ledger[K]) take(work context.Context, key K, asked time.Time, limit time.Duration) (context.Context, *hold[K], bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	now := time.Now()
	l, known := b.byKey[key]
	if !known || l.isLost() { // the store has just said that it is ours, again
		l = &lease[K]{key: key, end: asked.Add(b.ttl), holds: make(map[*hold[K]]struct{})}
	}
	if !now.Before(l.end) {
		b.lose(1, now)
		return nil, nil, false
	}
	ctx, release := context.WithDeadline(work, now.Add(limit))
	ctx, cancel := context.WithCancelCause(ctx)
	h := &hold[K]{lease: l, limit: now.Add(limit)}
	h.cancel = func(cause error) {
		cancel(cause)
		release()
	}
	l.holds[h], b.running[h] = struct{}{}, struct{}{}
	b.byKey[key] = l
	return ctx, h, true
}

// done notes that the item of h is done, though not settled.
func (b *ledger[K]) done(h *hold[K]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, h)
	h.cancel(nil)
}

// drop ends h, and its lease with the last hold.
func (b *ledger[K]) drop(h *hold[K]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(h.lease.holds, h)
	if len(h.lease.holds) == 0 && b.byKey[h.lease.key] == h.lease {
		delete(b.byKey, h.lease.key)
	}
}

// end is when the lease of h is over unless renewed.
func (b *ledger[K]) end(h *hold[K]) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return h.lease.end
}

// keys are the leases in hand that are not lost, in no order.
func (b *ledger[K]) keys() []K {
	b.mu.Lock()
	defer b.mu.Unlock()
	var keys []K
	for key, l := range b.byKey {
		if !l.isLost() {
			keys = append(keys, key)
		}
	}
	return keys
}

// soonest is the earliest end of a lease that is not lost, and false when there
// is none.
func (b *ledger[K]) soonest() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var soonest time.Time
	for _, l := range b.byKey {
		if !l.isLost() && (soonest.IsZero() || l.end.Before(soonest)) {
			soonest = l.end
		}
	}
	return soonest, !soonest.IsZero()
}

// renewed takes note of a renewal that was asked for at asked: of the leases
// named, those held last a whole TTL from then and the others are lost. It
// returns how many running items the lost ones had.
func (b *ledger[K]) renewed(named, held []K, asked time.Time) (stopped int) {
	b.mu.Lock()
	defer b.mu.Unlock()

	kept := make(map[K]bool, len(held))
	for _, key := range held {
		kept[key] = true
	}
	now, end := time.Now(), asked.Add(b.ttl)
	for _, key := range named {
		l, inHand := b.byKey[key]
		switch {
		case !inHand || l.end.After(end): // settled meanwhile, and perhaps claimed anew
		case kept[key]:
			l.end = end
		default:
			stopped += b.forfeit(l, now)
		}
	}
	return stopped
}

// expire loses the leases that are over at now, and returns how many running
// items they had.
func (b *ledger[K]) expire(now time.Time) (stopped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.byKey {
		if !l.isLost() && !now.Before(l.end) {
			stopped += b.forfeit(l, now)
		}
	}
	return stopped
}

// forfeit marks l as lost and ends the contexts of its items. It returns how many
// were running. What they result in still goes to the store, which knows best.
func (b *ledger[K]) forfeit(l *lease[K], now time.Time) (stopped int) {
	n := 0
	for h := range l.holds {
		if !b.isStuck(h, now) {
			n++
		}
		if _, running := b.running[h]; running {
			stopped++
			h.cancel(ErrLeaseLost)
		}
	}
	l.lost = now
	b.lose(n, now)
	return stopped
}

func (l *lease[K]) isLost() bool { return !l.lost.IsZero() }
