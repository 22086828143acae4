package engine

import (
	"context"
	"time"
)

// renew keeps the leases in hand until ctx is done, and ends the work of those
// that are lost.
func (r *run[T, R, K]) renew(ctx context.Context) {
	interval := r.Leases.TTL / 3
	next := time.Now().Add(interval)
	failures := 0
	for {
		// A lease claimed during the pause ends later than the next renewal, so
		// nothing need wake this up.
		until := next
		if soonest, ok := r.ledger.soonest(); ok && soonest.Before(next) {
			until = soonest
		}
		if pause(ctx, time.Until(until), nil) == stopped {
			return
		}
		now := time.Now()
		if n := r.ledger.expire(now); n > 0 {
			r.log.WarnContext(ctx, "leases ran out, their items were cancelled", "items", n)
		}
		if now.Before(next) {
			continue
		}

		next = now.Add(interval)
		err := r.renewOnce(ctx, next)
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		failures++
		wait := min(r.backoff(failures), interval)
		next = time.Now().Add(wait)
		r.log.WarnContext(ctx, "renewal of leases failed", "err", err, "retry_in", wait)
	}
}

// renewOnce renews all leases in hand, in one call that ends by deadline, or
// when the first of the leases does: its items must hear of that in time.
func (r *run[T, R, K]) renewOnce(ctx context.Context, deadline time.Time) error {
	keys := r.ledger.keys()
	if len(keys) == 0 {
		return nil
	}
	if soonest, ok := r.ledger.soonest(); ok && soonest.Before(deadline) {
		deadline = soonest
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()

	asked := time.Now()
	held, err := r.Leases.Renew(ctx, keys)
	if err != nil {
		return err
	}
	if n := r.ledger.renewed(keys, held, asked); n > 0 {
		r.log.WarnContext(ctx, "leases lost, their items were cancelled", "items", n)
	}
	return nil
}
