package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/backoff"
)

// FuzzDelay asks for any delay: it keeps its bounds, grows with the attempts and
// with chance, and never overflows.
func FuzzDelay(f *testing.F) {
	f.Add(int64(time.Second), int64(time.Minute), 2.0, 0.2, 3, 0.5)
	f.Add(int64(10*time.Second), int64(24*time.Hour), 30.0, 0.2, 2, 0.999)
	f.Add(int64(math.MaxInt64), int64(0), math.MaxFloat64, math.Inf(1), math.MaxInt, 1.0)
	f.Add(int64(1), int64(math.MaxInt64), math.Inf(1), math.NaN(), math.MinInt, math.NaN())
	f.Add(int64(math.MinInt64), int64(math.MinInt64), math.NaN(), -1.0, 0, -1.0)
	f.Fuzz(func(t *testing.T, first, most int64, factor, jitter float64, attempt int, random float64) {
		e := backoff.Exponential{First: time.Duration(first), Max: time.Duration(most), Factor: factor, Jitter: jitter}
		bare, jittered := e.Delay(attempt, 0), e.Delay(attempt, random)
		// A float64 tells durations of years from each other by a microsecond.
		limit := math.Inf(1)
		if most > 0 {
			limit = float64(most)
		}
		share := math.Max(jitter*math.Min(math.Max(random, 0), 1), 0)
		switch {
		case bare < 0 || jittered < 0:
			t.Errorf("%+v.Delay(%d, %v) = %v, without jitter %v: negative", e, attempt, random, jittered, bare)
		case first <= 0 && jittered != 0:
			t.Errorf("%+v.Delay(%d, %v) = %v, and it should not wait", e, attempt, random, jittered)
		case float64(bare) > limit:
			t.Errorf("%+v.Delay(%d, 0) = %v, beyond its limit", e, attempt, bare)
		case first > 0 && float64(bare) < math.Min(float64(first), limit)*(1-1e-9):
			t.Errorf("%+v.Delay(%d, 0) = %v, less than the first", e, attempt, bare)
		case jittered < bare:
			t.Errorf("%+v.Delay(%d, %v) = %v, less than %v without jitter", e, attempt, random, jittered, bare)
		case float64(jittered) > float64(bare)*(1+share)*(1+1e-9)+1:
			t.Errorf("%+v.Delay(%d, %v) = %v, more than its share beyond %v", e, attempt, random, jittered, bare)
		case attempt < math.MaxInt && e.Delay(attempt+1, 0) < bare:
			t.Errorf("%+v.Delay(%d, 0) = %v, less than the one before, %v", e, attempt+1, e.Delay(attempt+1, 0), bare)
		}
	})
}
