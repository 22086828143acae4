package engine

import (
	"context"
	"fmt"
)

const (
	// onceFailures is how many calls of the store may fail in a row under Settings.Once.
	onceFailures = 5
	// onceEmpty is how many claims in a row may get nothing although something is due. With
	// the waits between them, they take a quarter of a second.
	onceEmpty = 8
)

// once claims until nothing is left to do, ctx is done or the store does not answer. The
// contexts of the items that it starts derive from work, as in run.
func (c *claimer[T]) once(ctx, work context.Context) {
	for ctx.Err() == nil && c.err == nil {
		free := c.r.slots.free()
		if free == 0 {
			c.r.claiming.idle()
			select {
			case <-c.r.slots.freed.given():
			case <-ctx.Done():
			}
			continue
		}
		idle := free == c.r.slots.size // before Until: if results are settled later, the next round sees the items due then
		c.r.live.wake.forget()
		wait, known, err := c.until(ctx)
		if err != nil {
			c.lookFailed(ctx, err)
			continue
		}
		c.looks = 0
		if wait > 0 {
			c.empty = 0
		}
		finished := !known || c.empty >= onceEmpty
		switch {
		case finished && idle:
			return
		case finished:
			c.empty = 0
			c.awaitIdle(ctx)
			continue
		}
		if pause(ctx, max(wait, c.emptyClaimWait(c.r.Settings.Poll)), nil) == stopped {
			return
		}
		c.claimAll(ctx, work)
	}
}

// claimAll claims as long as slots are free and each claim gets all that it asks for.
func (c *claimer[T]) claimAll(ctx, work context.Context) {
	for ctx.Err() == nil {
		free := c.r.slots.free()
		if free == 0 {
			return
		}
		n := c.claimSize(free)
		got, ok := c.claim(ctx, work, n, c.r.Claim)
		if !ok {
			return
		}
		if got > 0 {
			c.empty = 0
		} else {
			c.empty++
		}
		if got < n {
			return
		}
	}
}

// awaitIdle waits until all claimed items are settled, something may be due, or ctx is done.
func (c *claimer[T]) awaitIdle(ctx context.Context) {
	for c.r.slots.free() < c.r.slots.size {
		select {
		case <-c.r.slots.freed.given():
		case <-c.r.live.wake.given():
			return
		case <-ctx.Done():
			return
		}
	}
}

// lookFailed waits for the backoff after a call of Until that failed.
func (c *claimer[T]) lookFailed(ctx context.Context, err error) {
	c.looks++
	if c.hasFailed(c.looks, err) {
		return
	}
	wait := c.r.backoff(c.looks)
	if ctx.Err() == nil {
		c.r.log.WarnContext(ctx, "look for the next due item failed", "error", err, "retry_in", wait)
	}
	pause(ctx, wait, nil)
}

// hasFailed reports whether once must end because calls have failed too often in a row, and sets c.err.
func (c *claimer[T]) hasFailed(failures int, err error) bool {
	if !c.r.Settings.Once || failures < onceFailures {
		return false
	}
	c.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	return true
}
