package engine

import (
	"context"
	"fmt"
)

const (
	// onceFailures is how many calls to the store may fail in a row under Settings.Once.
	onceFailures = 5
	// onceVain is how many claims may get nothing in a row although something is due.
	// With the waits between them, that is a quarter of a second.
	onceVain = 8
)

// once claims until nothing is left to do, ctx is done or the store does not answer.
// The items that it starts live below work, as in run.
func (c *claimer[T, R, K]) once(ctx, work context.Context) {
	for ctx.Err() == nil && c.err == nil {
		free := c.r.slots.free()
		if free == 0 {
			c.r.claiming.rest()
			select {
			case <-c.r.slots.freed.given():
			case <-ctx.Done():
			}
			continue
		}
		idle := free == c.r.slots.size // before the look: what is settled later, another look sees
		c.r.live.wake.forget()
		wait, known, err := c.until(ctx)
		if err != nil {
			c.lookFailed(ctx, err)
			continue
		}
		c.looks = 0
		given := !known || c.vain >= onceVain
		switch {
		case given && idle:
			return
		case given:
			c.vain = 0
			c.awaitIdle(ctx)
			continue
		}
		if pause(ctx, max(wait, c.reluctance(c.r.Settings.Poll)), nil) == stopped {
			return
		}
		c.claimAll(ctx, work)
	}
}

// claimAll claims as long as there are free slots and a claim gets all that it asks for.
func (c *claimer[T, R, K]) claimAll(ctx, work context.Context) {
	for ctx.Err() == nil {
		free := c.r.slots.free()
		if free == 0 {
			return
		}
		n := c.r.claimSize(free)
		got, ok := c.claim(ctx, work, n, c.r.Claim)
		if !ok {
			return
		}
		if got > 0 {
			c.vain = 0
		} else {
			c.vain++
		}
		if got < n {
			return
		}
	}
}

// awaitIdle waits until nothing is in hand, something may be due, or ctx is done.
func (c *claimer[T, R, K]) awaitIdle(ctx context.Context) {
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

// lookFailed waits after a call of Until that failed.
func (c *claimer[T, R, K]) lookFailed(ctx context.Context, err error) {
	c.looks++
	if c.givesUp(c.looks, err) {
		return
	}
	wait := c.r.backoff(c.looks)
	if ctx.Err() == nil {
		c.r.log.WarnContext(ctx, "look for the next due item failed", "error", err, "retry_in", wait)
	}
	pause(ctx, wait, nil)
}

// givesUp ends once when calls have failed so many times in a row.
func (c *claimer[T, R, K]) givesUp(failures int, err error) bool {
	if !c.r.Settings.Once || failures < onceFailures {
		return false
	}
	c.err = fmt.Errorf("%w: %w", ErrNotAsked, err)
	return true
}
