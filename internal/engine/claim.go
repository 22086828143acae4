package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// hush is the shortest time between two looks that hints cause. Hints may come
// with every transaction of a busy store, and most speak of another day.
const hush = 5 * time.Millisecond

// slots counts the items in hand. Only the claimer takes slots, so what it sees
// free stays free.
type slots struct {
	size   int
	inHand atomic.Int64
	freed  hint
}

func newSlots(size int) *slots { return &slots{size: size} }

func (s *slots) free() int { return s.size - int(s.inHand.Load()) }

func (s *slots) take() { s.inHand.Add(1) }

func (s *slots) release(n int) {
	s.inHand.Add(-int64(n))
	s.freed.give()
}

// claimer sleeps until something is due and a slot is free, claims, and starts
// what it got.
type claimer[T, R any, K comparable] struct {
	r      *run[T, R, K]
	holder *holder[T, R, K]
	claims int   // calls of Claim that failed in a row
	looks  int   // calls of Until that failed in a row
	vain   int   // claims in a row that got nothing although something was due
	err    error // why once gave up
}

// run ends when ctx does. The items that it starts live below work, which
// outlives ctx.
func (c *claimer[T, R, K]) run(ctx, work context.Context) {
	expecting := false // whether Until spoke of something due
	for ctx.Err() == nil {
		free := c.r.slots.free()
		if free == 0 {
			c.r.claiming.rest() // the store owes no answer
			select {
			case <-c.r.slots.freed.given():
			case <-ctx.Done():
			}
			continue
		}

		n := c.r.claimSize(free)
		got, ok := c.claim(ctx, work, n, c.r.Claim)
		if !ok || got >= n {
			continue // there may be more
		}
		if got == 0 && expecting {
			c.vain++
		} else {
			c.vain = 0
		}
		expecting = c.rest(ctx, work)
	}
}

// claim takes at most n items, and starts those that are due. It returns how many it
// got. When it fails, it waits until it is time to try again, and returns false.
func (c *claimer[T, R, K]) claim(ctx, work context.Context, n int, take func(context.Context, int) ([]T, error)) (got int, ok bool) {
	got, err := c.take(work, n, take)
	if err == nil {
		c.claims = 0
		return got, true
	}
	c.claims++
	if c.givesUp(c.claims, err) {
		return got, false
	}
	wait := c.r.backoff(c.claims)
	if ctx.Err() == nil {
		c.r.log.WarnContext(ctx, "claim failed", "error", err, "retry_in", wait)
	}
	pause(ctx, wait, nil) // hints must not hurry a store in trouble
	return got, false
}

// take claims at most n items. It returns how many it got, which may be some even
// with an error.
func (c *claimer[T, R, K]) take(work context.Context, n int, take func(context.Context, int) ([]T, error)) (int, error) {
	asked := time.Now() // before the call: the lease cannot have begun earlier
	ctx, cancel := context.WithTimeout(work, c.r.call())
	defer cancel()
	c.r.claiming.try()
	items, err := take(ctx, n)
	c.r.claiming.tried(err)
	if took := time.Since(asked); err == nil && c.r.log.Enabled(work, slog.LevelDebug) {
		c.r.log.DebugContext(work, "items claimed", "count", len(items), "batch_size", n, "duration_ms", float64(took.Microseconds())/1000)
	}

	if excess := len(items) - n; excess > 0 {
		c.r.log.ErrorContext(work, "items given up, more were claimed than asked for", "count", excess)
		items = items[:n]
	}
	late := 0
	var early []held[T, K]
	for _, item := range items {
		h, ok := c.r.hold(work, asked, item)
		switch {
		case !ok:
			late++
		case h.due.IsZero():
			go c.r.do(h.ctx, h.item, h.hold)
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

// rest sleeps until it is time to claim what is due, and reports whether something is
// known to be due then. Meanwhile it claims ahead.
func (c *claimer[T, R, K]) rest(ctx, work context.Context) bool {
	for ctx.Err() == nil {
		// What a hint given until now speaks of, Until sees.
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

		// Half a window before it is due, so that a claim takes half a window's items
		// and not each as it comes into sight.
		head, room := c.r.Ahead.Window/2, c.holder.room()
		if known && room > 0 && 0 < wait && wait <= head {
			got, ok := c.claim(ctx, work, c.r.claimSize(room), c.r.Ahead.Claim)
			if !ok {
				return false
			}
			if got > 0 {
				continue
			}
			wait -= time.Since(asked)
		}
		if room == 0 || wait <= head {
			head = 0
		}
		poll := jitter(c.r.Settings.Poll)
		wait -= head
		due := known && wait <= poll
		if !due {
			wait, c.vain = poll, 0
		}
		switch pause(ctx, max(wait, c.reluctance(poll)), c.r.live.wake.given()) {
		case stopped:
			return false
		case hinted:
			c.vain = 0
			pause(ctx, hush-time.Since(asked), nil)
		case elapsed:
			if due && head == 0 {
				return true
			}
		}
	}
	return false
}

func (c *claimer[T, R, K]) until(ctx context.Context) (time.Duration, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.r.call())
	defer cancel()
	c.r.claiming.try()
	wait, known, err := c.r.Until(ctx)
	c.r.claiming.tried(err)
	return wait, known, err
}

// reluctance is how long to wait before a claim at least, after claims that got
// nothing although something was due: others hold it locked, and asking at once
// would spin. It doubles from a millisecond to 64, and is then as long as a poll.
func (c *claimer[T, R, K]) reluctance(poll time.Duration) time.Duration {
	switch {
	case c.vain == 0:
		return 0
	case c.vain <= 7:
		return min(time.Millisecond<<(c.vain-1), poll)
	default:
		return poll
	}
}
