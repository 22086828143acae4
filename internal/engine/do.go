package engine

import (
	"context"
	"runtime/debug"
)

// outcome is a result on its way to the store.
type outcome[R any, K comparable] struct {
	result   R
	hold     *hold[K]
	slotless bool // whether its slot was given back before it is stored
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
		r.results <- outcome[R, K]{result: result, hold: hold}
		r.busy.leave()
	}()

	result = r.Do(ctx, item)
	returned = true
}
