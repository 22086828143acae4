package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/backoff"
)

// FuzzDelay tries arbitrary delays, limits and jitters. The result stays within its bounds,
// grows with the attempts and the random number, and never overflows. Asked must do the
// same.
func FuzzDelay(f *testing.F) {
	f.Add(int64(time.Second), 2.0, 3, 0.5)
	f.Add(int64(10*time.Second), 30.0, 2, 0.999)
	f.Add(int64(math.MaxInt64), math.MaxFloat64, math.MaxInt, 1.0)
	f.Add(int64(1), math.Inf(1), math.MinInt, math.NaN())
	f.Add(int64(time.Second), math.NaN(), 3, 0.5)
	f.Add(int64(math.MinInt64), math.NaN(), 0, -1.0)
	f.Fuzz(func(t *testing.T, first int64, factor float64, attempt int, random float64) {
		for _, most := range []time.Duration{math.MinInt64, 0, 1, time.Minute, 24 * time.Hour, math.MaxInt64} {
			for _, jitter := range []float64{math.NaN(), math.Inf(-1), 0, 0.2, 1, math.Inf(1)} {
				e := backoff.Exponential{First: time.Duration(first), Max: most, Factor: factor, Jitter: jitter}
				checkDelay(t, e, attempt, random)
				checkAsked(t, e, time.Duration(first), random)
			}
		}
	})
}

func checkDelay(t *testing.T, e backoff.Exponential, attempt int, random float64) {
	t.Helper()
	bare, jittered := e.Delay(attempt, 0), e.Delay(attempt, random)
	limit := math.Inf(1)
	if e.Max > 0 {
		limit = float64(e.Max)
	}
	share := max(e.Jitter, 0) * min(max(random, 0), 1)
	if math.IsNaN(share) {
		share = 0
	}
	// A float64 distinguishes durations of years only to about a microsecond.
	const exact = 1e-9
	switch {
	case bare < 0 || jittered < 0:
		t.Errorf("%+v.Delay(%d, %v) = %v, without jitter %v: negative", e, attempt, random, jittered, bare)
	case e.First <= 0 && jittered != 0:
		t.Errorf("%+v.Delay(%d, %v) = %v, and it should not wait", e, attempt, random, jittered)
	case float64(bare) > limit:
		t.Errorf("%+v.Delay(%d, 0) = %v, beyond its limit", e, attempt, bare)
	case e.First > 0 && float64(bare) < min(float64(e.First), limit)*(1-exact):
		t.Errorf("%+v.Delay(%d, 0) = %v, less than the first", e, attempt, bare)
	case jittered < bare:
		t.Errorf("%+v.Delay(%d, %v) = %v, less than %v without jitter", e, attempt, random, jittered, bare)
	case float64(jittered) > float64(bare)*(1+share)*(1+exact)+1:
		t.Errorf("%+v.Delay(%d, %v) = %v, more than its share beyond %v", e, attempt, random, jittered, bare)
	case attempt < math.MaxInt && e.Delay(attempt+1, 0) < bare:
		t.Errorf("%+v.Delay(%d, 0) = %v, less than the one before, %v", e, attempt+1, e.Delay(attempt+1, 0), bare)
	}
}

func checkAsked(t *testing.T, e backoff.Exponential, d time.Duration, random float64) {
	t.Helper()
	want := max(d, 0)
	if e.Max > 0 {
		want = min(want, e.Max)
	}
	got, share := e.Asked(d, random), max(e.Jitter, 0)*min(max(random, 0), 1)
	if math.IsNaN(share) {
		share = 0
	}
	if got < want || want == 0 && got != 0 || float64(got) > float64(want)*(1+share)*(1+1e-9)+1 {
		t.Errorf("%+v.Asked(%v, %v) = %v, want %v and no more than its share beyond", e, d, random, got, want)
	}
}
