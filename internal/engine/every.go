package engine

import (
	"context"
	"time"
)

// Task is a maintenance task that runs at an interval, such as releasing expired leases.
type Task struct {
	// Name identifies the task in logs.
	Name string

	// Every is the time from the end of one round to the start of the next, give or take a
	// fifth, at least a millisecond. The first round starts with Run.
	Every time.Duration

	// Limit is how long a round may take, if that is longer than both Every and Leases.TTL.
	Limit time.Duration

	// Do does one round. Its context ends with Run's, and after the longest of Every, Limit and Leases.TTL.
	// After an error, which is logged, the next round follows after Settings.Backoff instead of Every.
	Do func(ctx context.Context) error
}

// every runs task until ctx is done, and records its failures in v.
func (r *run[T]) every(ctx context.Context, task Task, v *tracker) {
	failures := 0
	for wait := time.Duration(0); pause(ctx, wait, nil) == elapsed; {
		wait = jitter(task.Every)
		v.try()
		err := r.round(ctx, task)
		v.tried(err)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		wait = r.backoff(failures)
		if ctx.Err() == nil {
			r.log.WarnContext(ctx, "maintenance task failed", "task", task.Name, "error", err, "retry_in", wait)
		}
	}
}

func (r *run[T]) round(ctx context.Context, task Task) error {
	ctx, cancel := context.WithTimeout(ctx, max(task.Every, task.Limit, r.Leases.TTL))
	defer cancel()
	return task.Do(ctx)
}
