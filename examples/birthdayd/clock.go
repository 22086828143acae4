package main

import (
	"context"
	"time"

	"github.com/almanac-go/almanac"
)

// clock converts this machine's time to the database time, which decides when events are
// due.
type clock struct{ ahead time.Duration }

// readClock gets the database time once. It assumes that this was the time halfway through
// the call.
func readClock(ctx context.Context, t almanac.Timekeeper) (clock, error) {
	asked := time.Now()
	now, err := t.Now(ctx)
	return clock{now.Sub(asked.Add(time.Since(asked) / 2))}, err
}

func (c clock) now() time.Time { return c.at(time.Now()) }

// at returns the database time at the given local time.
func (c clock) at(local time.Time) time.Time { return local.Add(c.ahead) }
