package engine

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Results that the store cannot take yet are tried again after firstRetry, and then after
// twice as long each time, up to lastRetry. After slowTries they are logged.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
	slowTries  = 7
)

// maxPostponed is how many postponed results may free their slot. Those beyond it keep
// their slot, so that memory is bounded.
const maxPostponed = 10_000

// errPostponed is the reason for which postponed results are discarded.
var errPostponed = errors.New("engine: the store could not take them yet")

// postponer keeps the results that the store cannot take yet, because another transaction
// has locked their rows or because they take too long. It retries them itself, so neither the settlers nor the slots wait
// for them. Their leases are renewed meanwhile.
type postponer[T any] struct {
	settler settler[T]
	added   hint

	mu      sync.Mutex
	waiting []finished[T]
}

// add takes results that a settler could not store. If free is true, it frees their slots, unless too
// many results are postponed.
func (p *postponer[T]) add(batch []finished[T], free bool) {
	again := time.Now().Add(firstRetry)
	p.mu.Lock()
	for _, o := range batch {
		if free && len(p.waiting) < maxPostponed {
			o.slotless = true
			p.settler.r.slots.put(1)
		}
		o.again = again
		p.waiting = append(p.waiting, o)
	}
	p.mu.Unlock()
	p.added.give()
}

// run ends when over is closed and nothing is postponed any more.
func (p *postponer[T]) run(ctx context.Context, over <-chan struct{}) {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		batch, wait, left := p.due(time.Now())
		switch {
		case len(batch) > 0:
			p.retry(ctx, batch)
			continue
		case left:
			alarm.Reset(wait)
		case over == nil:
			return
		}
		select {
		case <-p.added.given():
		case <-alarm.C:
		case <-over:
			over = nil
		}
	}
}

// due removes and returns a batch of results that are due for another try. Without any, it
// returns how long to wait for the first result, and whether there is one.
func (p *postponer[T]) due(now time.Time) (batch []finished[T], wait time.Duration, left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.settler.size.Of(p.settler.r.Settings.Batch)
	kept := p.waiting[:0]
	for _, one := range p.waiting {
		if !now.Before(one.again) && len(batch) < most {
			batch = append(batch, one)
			continue
		}
		if until := one.again.Sub(now); !left || until < wait {
			wait, left = until, true
		}
		kept = append(kept, one)
	}
	clear(p.waiting[len(kept):])
	p.waiting = kept
	return batch, wait, left
}

// retry tries to store a batch once more, and keeps the results that were not stored.
func (p *postponer[T]) retry(ctx context.Context, batch []finished[T]) {
	s := &p.settler
	s.checkLast()
	later, err := s.try(ctx, batch)
	if err != nil {
		p.putBack(ctx, batch, err)
		return
	}
	left, stored := split(batch, later)
	if len(stored) > 0 {
		if s.draining() {
			s.limit = time.Now().Add(s.r.Leases.TTL) // the store works: go on
		}
		s.free(stored)
	}
	p.putBack(ctx, left, nil)
}

// putBack keeps results for another try, after a call that failed (cause) or that could not
// store them (nil). It discards results that can no longer be stored in time.
func (p *postponer[T]) putBack(ctx context.Context, batch []finished[T], cause error) {
	s := &p.settler
	now := time.Now()
	if cause != nil || s.draining() && !now.Before(s.limit) {
		batch = s.discard(ctx, batch, cmp.Or(cause, errPostponed))
	}
	var slow int
	var wait time.Duration
	for i := range batch {
		one := &batch[i]
		wait = min(firstRetry<<one.tries, lastRetry)
		if cause != nil {
			wait = max(wait, s.r.backoff(one.tries+1))
		}
		if one.tries == slowTries {
			slow++
		}
		one.again, one.tries = now.Add(wait), min(one.tries+1, 2*slowTries)
	}
	switch {
	case slow > 0 && cause != nil:
		s.r.log.WarnContext(ctx, "results postponed, they keep failing", "error", cause, "results", slow, "retry_in", wait)
	case slow > 0:
		s.r.log.WarnContext(ctx, "results postponed, other transactions have locked their rows", "results", slow, "retry_in", wait)
	}
	if len(batch) == 0 {
		s.tracker.idle()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, batch...)
}

// count returns how many results wait without a slot.
func (p *postponer[T]) count() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.waiting {
		if one.slotless {
			n++
		}
	}
	return n
}

// split divides a batch into the elements at the given indexes and the others.
func split[E any](batch []E, places []int) (at, others []E) {
	if len(places) == 0 {
		return nil, batch
	}
	chosen := make(map[int]bool, len(places))
	for _, i := range places {
		chosen[i] = true
	}
	for i, e := range batch {
		if chosen[i] {
			at = append(at, e)
		} else {
			others = append(others, e)
		}
	}
	return at, others
}
