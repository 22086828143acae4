package engine

import (
	"context"
	"time"
)

// Chore is upkeep at an interval, such as releasing expired leases.
type Chore struct {
	// Name stands for the chore in logs.
	Name string

	// Every is the time from the end of one round to the beginning of the next,
	// give or take a fifth, at least a millisecond. The first round is at the start.
	Every time.Duration

	// Limit is how long a round may take, if that is longer than Every and Leases.TTL.
	Limit time.Duration

	// Do does one round. Its context ends with Run's, and after the longest of Every,
	// Limit and Leases.TTL. An error is logged, and the next round is after
	// Settings.Backoff, be that sooner or later than Every.
	Do func(ctx context.Context) error
}

// every does c until ctx is done, under a vigil of its own.
func (r *run[T, R, K]) every(ctx context.Context, c Chore, v *vigil) {
	failures := 0
	for wait := time.Duration(0); pause(ctx, wait, nil) == elapsed; {
		wait = jitter(c.Every)
		v.try()
		err := r.round(ctx, c)
		v.tried(err)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		wait = r.backoff(failures)
		if ctx.Err() == nil {
			r.log.WarnContext(ctx, "chore failed", "chore", c.Name, "error", err, "retry_in", wait)
		}
	}
}

func (r *run[T, R, K]) round(ctx context.Context, c Chore) error {
	ctx, cancel := context.WithTimeout(ctx, max(c.Every, c.Limit, r.Leases.TTL))
	defer cancel()
	return c.Do(ctx)
}
