// Package backoff computes how long to wait before trying again.
//
// It contains only arithmetic. The caller passes the number of the attempt and the random
// number, so that every result can be tested and explained.
package backoff

import (
	"math"
	"time"
)

// longest is the largest duration that a float64 and a time.Duration both represent exactly. The
// float64 nearest to the largest duration is greater by one, and converting it back would overflow.
const longest = time.Duration(math.MaxInt64 &^ (1<<10 - 1))

// Exponential is a delay that grows by a constant factor from one failed attempt to the next, up to a
// limit. It is a plain value that can be copied and used concurrently. The zero Exponential never waits.
type Exponential struct {
	// First is the delay after the first failed attempt. Zero or less means no
	// delay at all, whatever the other fields say.
	First time.Duration

	// Max limits the delay before jitter. Zero or less means no limit other than
	// the largest duration, some 292 years.
	Max time.Duration

	// Factor is the ratio of one delay to the one before. Anything below 1, zero
	// and NaN included, counts as 1: the delay stays at First.
	Factor float64

	// Jitter is the largest random share that is added to the delay: 0.2 turns ten seconds
	// into ten to twelve. It never shortens a delay. Zero, less, or NaN means no jitter.
	Jitter float64
}

// Delay returns how long to wait before the next attempt when the given number of attempts
// have failed; a number below 1 counts as 1. The random number, from 0 up to but not
// including 1, selects the jitter. Numbers outside that range count as its nearest end.
//
// The result is never negative and never overflows, for any attempt and any factor. A
// larger result is the largest duration, give or take rounding.
func (e Exponential) Delay(attempt int, random float64) time.Duration {
	if e.First <= 0 {
		return 0
	}
	limit := float64(longest)
	if e.Max > 0 {
		limit = min(float64(e.Max), limit)
	}

	// An infinite intermediate result is fine: min bounds it.
	delay := float64(e.First) * math.Pow(atLeast(e.Factor, 1), float64(max(attempt, 1)-1))
	return e.spread(min(delay, limit), random)
}

// Asked returns how long to wait when a receiver asked for a wait of d: at least d, or Max if that
// is less, plus jitter. The jitter prevents that thousands of callers with the same wait return in
// the same second. The random number is as in Delay. When d is zero or less, the result is zero.
func (e Exponential) Asked(d time.Duration, random float64) time.Duration {
	if d <= 0 {
		return 0
	}
	if e.Max > 0 {
		d = min(d, e.Max)
	}
	return max(d, e.spread(float64(d), random)) // rounding to float64 may have made it a little less
}

// spread adds the random share. A result that does not fit is the largest duration.
func (e Exponential) spread(delay, random float64) time.Duration {
	share := e.Jitter * min(atLeast(random, 0), 1)
	delay += delay * atLeast(share, 0)
	return time.Duration(min(delay, float64(longest)))
}

// atLeast returns x, or low when x is smaller or not a number.
func atLeast(x, low float64) float64 {
	if x > low {
		return x
	}
	return low
}
