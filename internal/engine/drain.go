package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// drain waits until the claimer and all items have ended, or have exceeded their time. Then
// it closes r.last for the settlers.
func (r *run[T]) drain(ctx context.Context, endWork context.CancelCauseFunc) error {
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

// group counts goroutines and closes empty when the last has left. It starts with one
// member, and only members may add others, so it becomes empty once.
type group struct {
	n     atomic.Int64
	empty chan struct{}
}

func newGroup() *group {
	c := &group{empty: make(chan struct{})}
	c.n.Store(1)
	return c
}

func (c *group) join() { c.n.Add(1) }

func (c *group) leave() {
	if c.n.Add(-1) == 0 {
		close(c.empty)
	}
}

// wait waits for the last member to leave, at most for d, and returns how many are left.
func (c *group) wait(d time.Duration) int {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.empty:
	case <-timer.C:
	}
	return int(c.n.Load())
}

// actorGroup has goroutines that Run waits for. Without one of them Run would go on in silence,
// so one that a callback ends by [runtime.Goexit] crashes the program, as a panic does.
type actorGroup struct{ all sync.WaitGroup }

func (g *actorGroup) Go(f func()) {
	g.all.Go(func() {
		returned := false
		defer func() {
			if !returned {
				panic("engine: a callback ended its goroutine")
			}
		}()
		f()
		returned = true
	})
}

func (g *actorGroup) Wait() { g.all.Wait() }
