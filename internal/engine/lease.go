package engine

import (
	"context"
	"sync"
	"time"
)

// ledger keeps the leases of the engine. It judges them by the local monotonic clock alone.
// It is safe for concurrent use.
type ledger struct {
	ttl   time.Duration
	grace time.Duration // how long an item may take to return once its context has ended

	mu      sync.Mutex
	byKey   map[Key]*lease
	running shares    // of items that have not returned
	spare   []share   // memory for the next shares
	losses  int       // items that lost their lease, until none has for a whole TTL
	loss    time.Time // when the last of them did
}

// lease is the bounded right to work on the items that share it.
type lease struct {
	key    Key
	end    time.Time // when the lease ends unless renewed
	lost   time.Time // when it was lost or abandoned for good; zero while it is held
	shares shares
}

// share is the share of one item in a lease, from its claim to its settlement. It is also the context
// of the item.
type share struct {
	itemContext
	lease  *lease
	places [2]int // one more than the index in the shares of the ledger and of the lease; zero outside
}

// shares is a set of shares, in no order. It is cheaper than a map, because each share has its place.
type shares struct {
	all   []*share
	place int // which of the places of a share is that in this set
}

// The places of a share.
const (
	inLedger = iota
	inLease
)

func (s *shares) add(h *share) {
	s.all = append(s.all, h)
	h.places[s.place] = len(s.all)
}

func (s *shares) has(h *share) bool { return h.places[s.place] > 0 }

func (s *shares) remove(h *share) {
	if !s.has(h) {
		return
	}
	last := len(s.all) - 1
	moved := s.all[last]
	s.all[h.places[s.place]-1], moved.places[s.place] = moved, h.places[s.place]
	s.all[last], s.all = nil, s.all[:last]
	h.places[s.place] = 0
}

// take gives an item a share of the lease called key, which was asked for at asked. The context of
// the share derives from work and ends after limit. It returns false when the lease has ended.
func (b *ledger) take(work context.Context, key Key, asked time.Time, limit time.Duration) (*share, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	now := time.Now()
	l, known := b.byKey[key]
	if !known || l.isLost() { // the store has just granted the lease, possibly again
		l = &lease{key: key, end: asked.Add(b.ttl), shares: shares{place: inLease}}
	}
	if !now.Before(l.end) {
		b.lose(1, now)
		return nil, false
	}
	h := b.newShare()
	h.work, h.limit, h.lease = work, now.Add(limit), l
	l.shares.add(h)
	b.running.add(h)
	b.byKey[key] = l
	return h, true
}

// newShare returns an empty share. Some shares have one piece of memory, which takes less time than a piece for each.
func (b *ledger) newShare() *share {
	if len(b.spare) == 0 {
		b.spare = make([]share, 32)
	}
	h := &b.spare[0]
	b.spare = b.spare[1:]
	return h
}

// done records that the item of h has returned, though its result is not settled.
func (b *ledger) done(h *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running.remove(h)
	h.end(nil)
}

// drop removes h, and its lease when no share is left.
func (b *ledger) drop(h *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.lease.shares.remove(h)
	if len(h.lease.shares.all) == 0 && b.byKey[h.lease.key] == h.lease {
		delete(b.byKey, h.lease.key)
	}
}

// endOf returns when the lease of h ends unless renewed.
func (b *ledger) endOf(h *share) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return h.lease.end
}

// keys returns the keys of the leases that are not lost, in no order.
func (b *ledger) keys() []Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	var keys []Key
	for key, l := range b.byKey {
		if !l.isLost() {
			keys = append(keys, key)
		}
	}
	return keys
}

// soonest returns the earliest end of a lease that is not lost, and false when there is none.
func (b *ledger) soonest() (time.Time, bool) {
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

// renewed records the result of a renewal that was asked for at asked. Of the leases in
// named, those in held last a whole TTL from asked; the others are lost. It returns how
// many running items the lost leases had.
func (b *ledger) renewed(named, held []Key, asked time.Time) (stopped int) {
	b.mu.Lock()
	defer b.mu.Unlock()

	kept := make(map[Key]bool, len(held))
	for _, key := range held {
		kept[key] = true
	}
	now, end := time.Now(), asked.Add(b.ttl)
	for _, key := range named {
		l, held := b.byKey[key]
		switch {
		case !held || l.end.After(end): // settled meanwhile, and perhaps claimed again
		case kept[key]:
			l.end = end
		default:
			stopped += b.markLost(l, now)
		}
	}
	return stopped
}

// expire marks as lost the leases that have ended at now. It returns how many running items they had.
func (b *ledger) expire(now time.Time) (stopped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.byKey {
		if !l.isLost() && !now.Before(l.end) {
			stopped += b.markLost(l, now)
		}
	}
	return stopped
}

// markLost marks l as lost and ends the contexts of its items. It returns how many were running.
// Their results still go to Settle: only the store knows whether another process has the lease.
func (b *ledger) markLost(l *lease, now time.Time) (stopped int) {
	n := 0
	for _, h := range l.shares.all {
		if !b.isStuck(h, now) {
			n++
		}
		if b.running.has(h) {
			stopped++
			h.end(ErrLeaseLost)
		}
	}
	l.lost = now
	b.lose(n, now)
	return stopped
}

func (l *lease) isLost() bool { return !l.lost.IsZero() }
