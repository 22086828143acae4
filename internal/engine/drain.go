package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// drain waits until the claimer and all items have ended, or are past waiting
// for, and tells the settler.
func (r *run[T, R, K]) drain(ctx context.Context, endWork context.CancelCauseFunc) error {
	defer close(r.last)
	if r.busy.wait(r.Settings.Drain) == 0 {
		return nil
	}
	endWork(ErrDraining)
	n := r.busy.wait(r.Settings.Abandon)
	if n == 0 {
		return nil
	}
	r.log.ErrorContext(ctx, "items abandoned, they ignore cancellation", "count", n, "waited", r.Settings.Abandon)
	return fmt.Errorf("%w: %d still running %v after their contexts ended", ErrAbandoned, n, r.Settings.Abandon)
}

// crowd counts goroutines and tells when the last has left. It begins with one
// member, and only a member may let others in, so it empties once.
type crowd struct {
	n     atomic.Int64
	empty chan struct{}
}

func newCrowd() *crowd {
	c := &crowd{empty: make(chan struct{})}
	c.n.Store(1)
	return c
}

func (c *crowd) join() { c.n.Add(1) }

func (c *crowd) leave() {
	if c.n.Add(-1) == 0 {
		close(c.empty)
	}
}

// wait waits for the last to leave, at most for d, and returns how many are left.
func (c *crowd) wait(d time.Duration) int {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.empty:
	case <-timer.C:
	}
	return int(c.n.Load())
}
