package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// slowClock is a database an hour ahead, whose answers take long.
type slowClock struct {
	almanac.Timekeeper
	there, back []time.Duration // how long each call and its answer take
}

func (s *slowClock) Now(context.Context) (time.Time, error) {
	time.Sleep(s.there[0])
	now := time.Now().Add(time.Hour)
	time.Sleep(s.back[0])
	s.there, s.back = s.there[1:], s.back[1:]
	return now, nil
}

func TestWhatTheClockCannotTellIsNotEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ms := func(n ...time.Duration) []time.Duration {
			for i := range n {
				n[i] *= time.Millisecond
			}
			return n
		}
		c, err := readClock(t.Context(), &slowClock{there: ms(30, 10, 0, 20, 30), back: ms(0, 10, 4, 20, 2)})
		require.NoError(t, err)
		require.Equal(t, 2*time.Millisecond, c.within, "the quickest answer took four")
		require.LessOrEqual(t, (c.ahead - time.Hour).Abs(), c.within)
		now := time.Now()
		due := now.Add(time.Hour)
		require.Negative(t, c.at(now).Sub(due))
		require.Zero(t, c.late(now, due), "punctual")
		require.Negative(t, c.late(now.Add(-5*time.Millisecond), due))
		require.Equal(t, time.Second+c.ahead-time.Hour, c.late(now.Add(time.Second), due))
	})
}
