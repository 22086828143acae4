package main

import (
	"context"
	"time"

	"github.com/almanac-go/almanac"
)

// clock converts this machine's time to the database time, which decides when events are due.
type clock struct {
	ahead  time.Duration // how much the database is ahead
	within time.Duration // how exactly that is known
}

// clockReadings is how often the database time is asked for. The quickest answer is the most exact.
const clockReadings = 5

// readClock gets the database time. It assumes that this was the time halfway through the call.
func readClock(ctx context.Context, t almanac.Timekeeper) (best clock, err error) {
	for i := range clockReadings {
		asked := time.Now()
		now, err := t.Now(ctx)
		if err != nil {
			return clock{}, err
		}
		half := time.Since(asked) / 2
		if i == 0 || half < best.within {
			best = clock{now.Sub(asked.Add(half)), half}
		}
	}
	return best, nil
}

func (c clock) now() time.Time { return c.at(time.Now()) }

// at returns the database time at the given local time.
func (c clock) at(local time.Time) time.Time { return local.Add(c.ahead) }

// late returns how long after an instant of the database a local time is. It is negative only
// if the local time is certainly before the instant.
func (c clock) late(local, due time.Time) time.Duration {
	late := c.at(local).Sub(due)
	if late < 0 {
		return min(0, late+c.within)
	}
	return late
}
