package engine

import (
	"context"
	"runtime/debug"
)

// outcome is a result on its way to the store.
type outcome[R any, K comparable] struct {
	result   R
	share    *share[K]
	slotless bool // whether its slot was freed before the result is stored
}

// do runs Do for item and passes the result on. Run waits for it through r.busy, up to the
// limits in Run's comment.
func (r *run[T, R, K]) do(ctx context.Context, item T, share *share[K]) {
	var result R
	returned := false

	// Deferred, because a panic and Goexit run only deferred functions.
	defer func() {
		if !returned {
			result = r.Exited(item, recover(), debug.Stack())
		}
		r.ledger.done(share)
		r.results <- outcome[R, K]{result: result, share: share}
		r.busy.leave()
	}()

	result = r.Do(ctx, item)
	returned = true
}
