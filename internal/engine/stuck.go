package engine

import "time"

// isStuck reports whether the item of h has not returned although its context ended at least b.grace ago.
func (b *ledger) isStuck(h *share, now time.Time) bool {
	ended := h.limit
	if l := h.lease; l.isLost() && l.lost.Before(ended) {
		ended = l.lost
	}
	return b.running.has(h) && !now.Before(ended.Add(b.grace))
}

// abandonStuck abandons the leases whose items are all stuck, and returns the number of
// these items. Abandoned leases are not renewed and therefore run out. Otherwise no other
// process could do the items while this process lives.
func (b *ledger) abandonStuck(now time.Time) (stuck int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.byKey {
		if !l.isLost() && b.countStuck(l, now) == len(l.shares.all) {
			l.lost = now
			stuck += len(l.shares.all)
		}
	}
	return stuck
}

func (b *ledger) countStuck(l *lease, now time.Time) (stuck int) {
	for _, h := range l.shares.all {
		if b.isStuck(h, now) {
			stuck++
		}
	}
	return stuck
}

// countLost counts the item of h as one that lost its lease, unless it was counted when the lease was lost.
func (b *ledger) countLost(h *share, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !h.lease.isLost() {
		b.lose(1, now)
	}
}

// lose counts items that lost their lease before their result was stored.
func (b *ledger) lose(n int, now time.Time) {
	if n == 0 {
		return
	}
	if now.Sub(b.loss) >= b.ttl {
		b.losses = 0
	}
	b.losses += n
	b.loss = now
}

// health returns how many items are stuck, and how many have lost their lease. The second
// number returns to zero when no item has lost its lease for a whole TTL.
func (b *ledger) health(now time.Time) (stuck, lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.running.all {
		if b.isStuck(h, now) {
			stuck++
		}
	}
	if now.Sub(b.loss) < b.ttl {
		lost = b.losses
	}
	return stuck, lost
}
