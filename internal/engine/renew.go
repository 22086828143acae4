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

		if n := r.ledger.letGo(now); n > 0 {
			r.log.ErrorContext(ctx, "items stuck, they ignore cancellation and their leases are let go", "count", n)
		}
		next = now.Add(interval)
		err := r.renewOnce(ctx)
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		failures++
		wait := min(r.backoff(failures), r.patience())
		next = time.Now().Add(wait)
		r.log.WarnContext(ctx, "renewal of leases failed", "error", err, "retry_in", wait)
	}
}

// patience is how long one try of a renewal, or the wait before another, may
// take: half of what is left of the first lease to end, so that neither a
// backoff nor a hanging connection uses up the time in which the store may come
// back, and never beyond that end, since the items must hear of it.
func (r *run[T, R, K]) patience() time.Duration {
	longest := r.Leases.TTL / 3
	soonest, ok := r.ledger.soonest()
	if !ok {
		return longest
	}
	left := time.Until(soonest)
	return min(longest, max(left/2, r.Leases.TTL/100), left)
}

// renewOnce renews all leases in hand in one call.
func (r *run[T, R, K]) renewOnce(ctx context.Context) error {
	keys := r.ledger.keys()
	if len(keys) == 0 {
		r.renewing.rest()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()

	asked := time.Now()
	r.renewing.try()
	held, err := r.Leases.Renew(ctx, keys)
	r.renewing.tried(err)
	if err != nil {
		return err
	}
	if n := r.ledger.renewed(keys, held, asked); n > 0 {
		r.log.WarnContext(ctx, "leases lost, their items were cancelled", "items", n)
	}
	return nil
}
