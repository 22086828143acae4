package engine

import "time"

// isStuck reports whether the item of h has not returned although its context
// ended so long ago that it should have.
func (b *ledger[K]) isStuck(h *hold[K], now time.Time) bool {
	ended := h.limit
	if l := h.lease; l.isLost() && l.lost.Before(ended) {
		ended = l.lost
	}
	_, running := b.running[h]
	return running && !now.Before(ended.Add(b.grace))
}

// letGo gives up the leases of which nothing but stuck items is left, and returns
// how many items these are. They are not renewed from then on, and so run out: else
// nobody could do the items again for as long as this process lives.
func (b *ledger[K]) letGo(now time.Time) (stuck int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.byKey {
		if !l.isLost() && b.countStuck(l, now) == len(l.holds) {
			l.lost = now
			stuck += len(l.holds)
		}
	}
	return stuck
}

func (b *ledger[K]) countStuck(l *lease[K], now time.Time) (stuck int) {
	for h := range l.holds {
		if b.isStuck(h, now) {
			stuck++
		}
	}
	return stuck
}

// giveUp counts the item of h as one that lost its lease, unless it was counted
// when that was lost.
func (b *ledger[K]) giveUp(h *hold[K], now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !h.lease.isLost() {
		b.lose(1, now)
	}
}

// lose counts items whose lease was lost before their result was stored.
func (b *ledger[K]) lose(n int, now time.Time) {
	if n == 0 {
		return
	}
	if now.Sub(b.loss) >= b.ttl {
		b.losses = 0
	}
	b.losses += n
	b.loss = now
}

// health returns how many items are stuck, and how many lost their lease, counted
// until none has for a whole TTL.
func (b *ledger[K]) health(now time.Time) (stuck, lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for h := range b.running {
		if b.isStuck(h, now) {
			stuck++
		}
	}
	if now.Sub(b.loss) < b.ttl {
		lost = b.losses
	}
	return stuck, lost
}
