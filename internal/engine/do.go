package engine

import (
	"context"
	"runtime/debug"
	"time"
)

// outcome is a result on its way to the store.
type outcome[R any, K comparable] struct {
	result R
	hold   *hold[K]
}

// start gives a claimed item a slot and a goroutine, unless its lease, asked for
// at asked, is over already: somebody else may have begun it. It reports
// whether it did.
func (r *run[T, R, K]) start(work context.Context, asked time.Time, item T) bool {
	ctx, hold, ok := r.ledger.take(work, r.Leases.Key(item), asked, r.Limit(item))
	if !ok {
		return false
	}
	r.slots.take()
	r.busy.join()
	go r.do(ctx, item, hold)
	return true
}

// do does item and hands on its result. Run waits for it through r.busy, up to
// the limits that it documents.
func (r *run[T, R, K]) do(ctx context.Context, item T, hold *hold[K]) {
	var result R
	returned := false

	// Deferred, because neither a panic nor Goexit lets anything else run.
	defer func() {
		if !returned {
			result = r.Exited(item, recover(), debug.Stack())
		}
		r.ledger.done(hold)
		r.results <- outcome[R, K]{result, hold}
		r.busy.leave()
	}()

	result = r.Do(ctx, item)
	returned = true
}
