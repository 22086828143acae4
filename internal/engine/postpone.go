package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Results that the store cannot take yet are tried again after firstRetry, and then
// after twice as long each time, up to lastRetry.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
)

// maxPostponed is how many postponed results go without a slot. Those beyond keep
// theirs, so that memory is bounded.
const maxPostponed = 10_000

// errPostponed is why postponed results are given up.
var errPostponed = errors.New("engine: the store could not take them yet")

// postponer keeps the results that the store cannot take yet, because another
// transaction has locked their rows. It tries them again by itself, so neither the
// settlers nor the slots wait for them. Their leases are renewed meanwhile.
type postponer[T, R any, K comparable] struct {
	settler settler[T, R, K]
	added   hint

	mu    sync.Mutex
	waits []postponed[R, K]
}

// postponed is a result that waits for another try.
type postponed[R any, K comparable] struct {
	outcome[R, K]
	again time.Time     // when
	wait  time.Duration // before that
	tries int           // that failed
}

// add takes results that a settler could not store.
func (p *postponer[T, R, K]) add(batch []outcome[R, K]) {
	again := time.Now().Add(firstRetry)
	p.mu.Lock()
	for _, o := range batch {
		if len(p.waits) < maxPostponed {
			o.slotless = true
			p.settler.r.slots.release(1)
		}
		p.waits = append(p.waits, postponed[R, K]{outcome: o, again: again})
	}
	p.mu.Unlock()
	p.added.give()
}

// run ends when over is closed and nothing is left.
func (p *postponer[T, R, K]) run(ctx context.Context, over <-chan struct{}) {
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

// due takes out a batch of results whose time has come. Without any, it returns how
// long to wait for the first, and whether there is one.
func (p *postponer[T, R, K]) due(now time.Time) (batch []postponed[R, K], wait time.Duration, left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.waits[:0]
	for _, one := range p.waits {
		if !now.Before(one.again) && len(batch) < p.settler.r.Settings.Batch {
			batch = append(batch, one)
			continue
		}
		if until := one.again.Sub(now); !left || until < wait {
			wait, left = until, true
		}
		kept = append(kept, one)
	}
	clear(p.waits[len(kept):])
	p.waits = kept
	return batch, wait, left
}

// retry tries to store a batch once more, and puts back what is left.
func (p *postponer[T, R, K]) retry(ctx context.Context, batch []postponed[R, K]) {
	s := &p.settler
	outcomes := make([]outcome[R, K], len(batch))
	for i, one := range batch {
		outcomes[i] = one.outcome
	}
	s.watch()
	later, err := s.try(ctx, outcomes)
	if err != nil {
		p.putBack(ctx, batch, err)
		return
	}
	left, stored := apart(batch, later)
	if len(stored) > 0 {
		if s.draining() {
			s.limit = time.Now().Add(s.r.Leases.TTL) // it works: go on
		}
		outcomes = outcomes[:0]
		for _, one := range stored {
			outcomes = append(outcomes, one.outcome)
		}
		s.free(outcomes)
	}
	p.putBack(ctx, left, nil)
}

// putBack lets results wait for another try, after a call that failed or one that did
// not take them. It gives up those that there is no point in trying again.
func (p *postponer[T, R, K]) putBack(ctx context.Context, batch []postponed[R, K], cause error) {
	s := &p.settler
	now := time.Now()
	if cause != nil || s.draining() && !now.Before(s.limit) {
		batch = p.giveUp(ctx, batch, cause)
	}
	slow := 0
	for i := range batch {
		one := &batch[i]
		wait := min(firstRetry<<one.tries, lastRetry)
		if wait == lastRetry && one.wait < lastRetry {
			slow++
		}
		if cause != nil {
			wait = max(wait, s.r.backoff(one.tries+1))
		}
		one.wait, one.again, one.tries = wait, now.Add(wait), min(one.tries+1, 16)
	}
	if slow > 0 {
		s.r.log.WarnContext(ctx, "results wait, somebody else works on what they are about", "results", slow, "retry_in", lastRetry)
	}
	if len(batch) == 0 {
		s.vigil.rest()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = append(p.waits, batch...)
}

// giveUp ends the holds of results that there is no point in trying again, and returns
// the others.
func (p *postponer[T, R, K]) giveUp(ctx context.Context, batch []postponed[R, K], cause error) []postponed[R, K] {
	if cause == nil {
		cause = errPostponed
	}
	kept := batch[:0]
	for _, one := range batch {
		if len(p.settler.giveUp(ctx, []outcome[R, K]{one.outcome}, cause)) > 0 {
			kept = append(kept, one)
		}
	}
	return kept
}

// count is how many results wait without a slot.
func (p *postponer[T, R, K]) count() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.waits {
		if one.slotless {
			n++
		}
	}
	return n
}

// apart divides a batch into the elements at the given places and the others.
func apart[E any](batch []E, places []int) (at, others []E) {
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
