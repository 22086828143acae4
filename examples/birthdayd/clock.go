package main

import (
	"context"
	"time"

	"github.com/almanac-go/almanac"
)

// clock tells the database's time, which decides when events are due, from this
// machine's.
type clock struct{ ahead time.Duration }

// readClock asks for the database's time once, and takes it for the time halfway
// between the question and the answer.
func readClock(ctx context.Context, t almanac.Timekeeper) (clock, error) {
	asked := time.Now()
	now, err := t.Now(ctx)
	return clock{now.Sub(asked.Add(time.Since(asked) / 2))}, err
}

func (c clock) now() time.Time { return c.at(time.Now()) }

// at is the database's time when it is the given time on this machine.
func (c clock) at(local time.Time) time.Time { return local.Add(c.ahead) }
