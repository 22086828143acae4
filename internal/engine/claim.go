package engine

import (
	"context"
	"sync/atomic"
	"time"
)

// hintGap is the shortest time between two calls of Until that hints cause. A busy store may send a
// hint with every transaction, and most hints concern items that are not due for a long time.
const hintGap = 5 * time.Millisecond

// slots counts the items that are claimed and not yet settled. Only the claimer takes
// slots, so slots that it sees free stay free.
type slots struct {
	size  int
	held  atomic.Int64
	freed hint
}

func (s *slots) free() int { return s.size - int(s.held.Load()) }

func (s *slots) take() { s.held.Add(1) }

func (s *slots) put(n int) {
	s.held.Add(-int64(n))
	s.freed.give()
}

// claimer sleeps until something is due and a slot is free, claims items, and starts them.
type claimer[T any] struct {
	r      *run[T]
	holder *holder[T]
	claims int // calls of Claim that failed in a row
	size   CallSize
	looks  int   // calls of Until that failed in a row
	empty  int   // claims in a row that got nothing although something was due
	err    error // why once failed
}

// run ends when ctx does. The contexts of the items that it starts derive from work, which outlives ctx.
func (c *claimer[T]) run(ctx, work context.Context) {
	expecting := false // whether Until reported something due
	for ctx.Err() == nil {
		free := c.r.slots.free()
		if free == 0 {
			c.r.claiming.idle() // no call of the store is pending
			select {
			case <-c.r.slots.freed.given():
			case <-ctx.Done():
			}
			continue
		}

		n := c.claimSize(free)
		got, ok := c.claim(ctx, work, n, c.r.Claim)
		if !ok || got >= n {
			continue // there may be more
		}
		if got == 0 && expecting {
			c.empty++
		} else {
			c.empty = 0
		}
		expecting = c.sleepUntilDue(ctx, work)
	}
}

// claimSize returns how many of n items to claim at once.
func (c *claimer[T]) claimSize(n int) int {
	if most := c.r.Settings.MaxClaim; most > 0 {
		n = min(n, most)
	}
	return c.size.Of(n)
}

// claim takes at most n items and starts those that are due. It returns how many it got. On
// failure it waits for the backoff and then returns false.
func (c *claimer[T]) claim(ctx, work context.Context, n int, take func(context.Context, int) ([]T, error)) (got int, ok bool) {
	asked := time.Now()
	got, err := c.take(work, n, take)
	c.size.Note(n, asked, c.r.call(), err)
	if err == nil {
		c.claims = 0
		return got, true
	}
	c.claims++
	if c.hasFailed(c.claims, err) {
		return got, false
	}
	wait := c.r.backoff(c.claims)
	if ctx.Err() == nil {
		c.r.log.WarnContext(ctx, "claim failed", "error", err, "retry_in", wait)
	}
	pause(ctx, wait, nil) // without hints: they must not hurry a failing store
	return got, false
}

// take claims at most n items. It returns how many it got, possibly some even with an error.
func (c *claimer[T]) take(work context.Context, n int, take func(context.Context, int) ([]T, error)) (int, error) {
	asked := time.Now() // before the call: the lease cannot have begun earlier
	ctx, cancel := context.WithTimeout(work, c.r.call())
	defer cancel()
	c.r.claiming.try()
	items, err := take(ctx, n)
	c.r.claiming.tried(err)

	if excess := len(items) - n; excess > 0 {
		c.r.log.ErrorContext(work, "items given up, more were claimed than asked for", "count", excess)
		items = items[:n]
	}
	late := 0
	var early []held[T]
	for _, item := range items {
		h, ok := c.r.accept(work, asked, item)
		switch {
		case !ok:
			late++
		case h.due.IsZero():
			c.r.runners.start(h)
		default:
			early = append(early, h)
		}
	}
	if late > 0 {
		c.r.log.ErrorContext(work, "items given up, their lease was over before they could start", "count", late)
	}
	c.holder.keep(early)
	return len(items), err
}

// sleepUntilDue sleeps until it is time to claim, and reports whether an item is known to
// be due then. Meanwhile it claims ahead.
func (c *claimer[T]) sleepUntilDue(ctx, work context.Context) bool {
	for ctx.Err() == nil {
		// Until sees the items of every hint given before the call.
		c.r.live.wake.forget()
		asked := time.Now()
		wait, known, err := c.until(ctx)
		if err != nil {
			c.looks++
			wait = c.r.backoff(c.looks)
			if ctx.Err() == nil {
				c.r.log.WarnContext(ctx, "look for the next due item failed, claiming blindly", "error", err, "claim_in", wait)
			}
			pause(ctx, wait, nil)
			return false
		}
		c.looks = 0
		if wait > 0 { // what the last claim left is not locked, but becomes due later
			c.empty = 0
		}

		// Claim half a window before the next item is due. One claim then takes the items
		// of half a window instead of each item as it enters the window.
		lead, capacity := c.r.Ahead.Window/2, c.holder.capacity()
		if known && capacity > 0 && 0 < wait && wait <= lead {
			got, ok := c.claim(ctx, work, c.claimSize(capacity), c.r.Ahead.Claim)
			if !ok {
				return false
			}
			if got > 0 {
				continue
			}
			wait -= time.Since(asked)
		}
		if capacity == 0 || wait <= lead {
			lead = 0
		}
		poll := jitter(c.r.Settings.Poll)
		wait -= lead
		due := known && wait <= poll
		if !due {
			wait, c.empty = poll, 0
		}
		switch pause(ctx, max(wait, c.emptyClaimWait(poll)), c.r.live.wake.given()) {
		case stopped:
			return false
		case hinted:
			c.empty = 0
			pause(ctx, hintGap-time.Since(asked), nil)
		case elapsed:
			if due && lead == 0 {
				return true
			}
		}
	}
	return false
}

func (c *claimer[T]) until(ctx context.Context) (time.Duration, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.r.call())
	defer cancel()
	c.r.claiming.try()
	wait, known, err := c.r.Until(ctx)
	c.r.claiming.tried(err)
	return wait, known, err
}

// emptyClaimWait returns how long to wait at least before a claim, after claims that got
// nothing although something was due. Other processes hold those items locked, and claiming
// again at once would spin. The wait doubles from 1 ms to 64 ms, and is then as long as a poll.
func (c *claimer[T]) emptyClaimWait(poll time.Duration) time.Duration {
	switch {
	case c.empty == 0:
		return 0
	case c.empty <= 7:
		return min(time.Millisecond<<(c.empty-1), poll)
	default:
		return poll
	}
}
