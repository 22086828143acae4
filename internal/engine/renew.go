package engine

import (
	"context"
	"time"
)

// renew renews the leases until ctx is done, and cancels the items of lost leases.
func (r *run[T]) renew(ctx context.Context) {
	interval := r.Leases.TTL / 3
	next := time.Now().Add(interval)
	failures := 0
	for {
		// A lease that is claimed during the pause ends later than the next renewal, so
		// nothing needs to interrupt the pause.
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

		if n := r.ledger.abandonStuck(now); n > 0 {
			r.log.ErrorContext(ctx, "items stuck, they ignore cancellation and their leases are no longer renewed", "count", n)
		}
		next = now.Add(interval)
		err := r.renewOnce(ctx)
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		failures++
		wait := min(r.backoff(failures), r.renewTimeout())
		next = time.Now().Add(wait)
		r.log.WarnContext(ctx, "renewal of leases failed", "error", err, "retry_in", wait)
	}
}

// renewTimeout returns how long one call of Renew, or the wait before another, may take. It
// is half of the time left to the first lease that ends, and at most a third of the TTL.
// Neither a backoff nor a hanging connection then uses up the time in which the store may
// recover. It never exceeds the time left, because the items must be cancelled then.
func (r *run[T]) renewTimeout() time.Duration {
	longest := r.Leases.TTL / 3
	soonest, ok := r.ledger.soonest()
	if !ok {
		return longest
	}
	left := time.Until(soonest)
	return min(longest, max(left/2, r.Leases.TTL/100), left)
}

// renewOnce renews all held leases in one call.
func (r *run[T]) renewOnce(ctx context.Context) error {
	keys := r.ledger.keys()
	if len(keys) == 0 {
		r.renewing.idle()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.renewTimeout())
	defer cancel()

	asked := time.Now()
	r.renewing.try()
	held, err := r.Leases.Renew(ctx, keys)
	r.renewing.tried(err)
	if err != nil {
		r.ledger.renewed(held, held, asked) // it is unknown whether the others are lost
		return err
	}
	if n := r.ledger.renewed(keys, held, asked); n > 0 {
		r.log.WarnContext(ctx, "leases lost, their items were cancelled", "items", n)
	}
	return nil
}
