package engine

import (
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// finished is an item with its result on its way to the store.
type finished[T any] struct {
	result   T
	share    *share
	slotless bool // whether its slot was freed before the result is stored

	again time.Time // of a postponed result: when to try again
	tries int       // how many attempts to store it failed
}

// runners do the items that have started. Each item that blocks has a goroutine of its own, and so has
// each processor that works. Goroutines that do one item after the other keep their stacks.
type runners[T any] struct {
	r *run[T]

	mu      sync.Mutex
	waiting []held[T] // items to do, in order, from taken on
	taken   int
	ready   int // goroutines that have done no item yet and wait for their turn; one while items wait
}

// start has an item done soon. It does not block.
func (p *runners[T]) start(h held[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if 2*p.taken > len(p.waiting) {
		p.waiting, p.taken = slices.Delete(p.waiting, 0, p.taken), 0
	}
	p.waiting = append(p.waiting, h)
	p.keepReady()
}

// keepReady starts a goroutine if items wait and none is ready.
func (p *runners[T]) keepReady() {
	if p.taken < len(p.waiting) && p.ready == 0 {
		p.ready++
		go p.run()
	}
}

// run does items until none waits. Before each item, it makes sure that a goroutine is ready for the
// next one. So an item that blocks delays no other, and an item that ends its goroutine does no harm.
func (p *runners[T]) run() {
	for fresh := true; ; fresh = false {
		h, ok := p.next(fresh)
		if !ok {
			return
		}
		p.r.do(h.item, h.share)
	}
}

// next takes the first item that waits, for a goroutine that is fresh if it counts as ready. It
// returns false if no item waits: the goroutine has to end.
func (p *runners[T]) next(fresh bool) (h held[T], ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fresh {
		p.ready--
	}
	if p.taken == len(p.waiting) {
		return h, false
	}
	h, p.waiting[p.taken] = p.waiting[p.taken], h
	if p.taken++; p.taken == len(p.waiting) {
		p.waiting, p.taken = p.waiting[:0], 0
	}
	p.keepReady()
	return h, true
}

// do runs Do for item and passes its result on, unless the item returns later. Run waits for it through r.busy, up to the
// limits in Run's comment.
func (r *run[T]) do(item T, share *share) {
	exited := true

	// Deferred, because a panic and Goexit run only deferred functions.
	defer func() {
		if exited {
			r.returned(r.Exited(item, recover(), debug.Stack()), share)
		}
	}()

	result, returned := r.Do(share, item, Later[T]{r, share})
	exited = false
	if returned {
		r.returned(result, share)
	}
}

// returned passes the result of an item on.
func (r *run[T]) returned(result T, share *share) {
	r.ledger.done(share)
	r.results <- finished[T]{result: result, share: share}
	r.busy.leave()
}
