package backoff_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/internal/backoff"
)

func TestDelay(t *testing.T) {
	t.Parallel()

	doubling := backoff.Exponential{First: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.5}
	endless := backoff.Exponential{First: time.Second, Factor: 2}
	tests := map[string]struct {
		backoff backoff.Exponential
		attempt int
		random  float64
		want    time.Duration
	}{
		"the first failure waits First":           {doubling, 1, 0, time.Second},
		"each further failure multiplies":         {doubling, 4, 0, 8 * time.Second},
		"the limit holds":                         {doubling, 7, 0, time.Minute},
		"the limit holds for ever":                {doubling, 10_000, 0, time.Minute},
		"jitter adds its share":                   {doubling, 2, 0.5, 2500 * time.Millisecond},
		"jitter exceeds the limit":                {doubling, 50, 0.5, 75 * time.Second},
		"an attempt before the first is first":    {doubling, -3, 0, time.Second},
		"randomness below its range is the low":   {doubling, 1, -1, time.Second},
		"randomness above its range is the high":  {doubling, 1, 7, 1500 * time.Millisecond},
		"randomness that is no number is zero":    {doubling, 1, math.NaN(), time.Second},
		"without a limit the delay keeps growing": {endless, 32, 0, (1 << 31) * time.Second},
		"the zero value never waits":              {backoff.Exponential{}, 9, 0.9, 0},
		"a negative First never waits":            {backoff.Exponential{First: -time.Second, Factor: 2}, 9, 0.9, 0},
		"a First beyond the limit is the limit":   {backoff.Exponential{First: time.Hour, Max: time.Minute}, 1, 0, time.Minute},
		"without a factor the delay is constant":  {backoff.Exponential{First: time.Second}, 9, 0, time.Second},
		"a shrinking factor stays":                {backoff.Exponential{First: time.Second, Factor: 0.5}, 9, 0, time.Second},
		"a factor that is no number stays":        {backoff.Exponential{First: time.Second, Factor: math.NaN()}, 9, 0, time.Second},
		"negative jitter adds nothing":            {backoff.Exponential{First: time.Second, Jitter: -1}, 1, 0.9, time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := tt.backoff.Delay(tt.attempt, tt.random); got != tt.want {
				t.Errorf("%+v.Delay(%d, %v) = %v, want %v", tt.backoff, tt.attempt, tt.random, got, tt.want)
			}
		})
	}
}

func TestDelay_neverOverflows(t *testing.T) {
	t.Parallel()

	const century = 100 * 365 * 24 * time.Hour
	factors := []float64{1.0001, 1.5, 2, 10, 1e300, math.MaxFloat64, math.Inf(1)}
	for _, factor := range factors {
		e := backoff.Exponential{First: time.Millisecond, Factor: factor, Jitter: math.MaxFloat64}
		var before time.Duration
		for attempt := 1; attempt <= 10_000; attempt++ {
			got := e.Delay(attempt, 0)
			if got < before {
				t.Fatalf("factor %v: Delay(%d) = %v, less than the one before, %v", factor, attempt, got, before)
			}
			before = got
		}
		if got := e.Delay(2, 0.999); got < century {
			t.Errorf("factor %v: Delay with unbounded jitter = %v, want the largest durations", factor, got)
		}
	}
}

func TestDelay_staysBetweenItsBounds(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		e := backoff.Exponential{
			First:  time.Duration(rapid.Int64().Draw(t, "first")),
			Max:    time.Duration(rapid.Int64().Draw(t, "max")),
			Factor: rapid.Float64().Draw(t, "factor"),
			Jitter: rapid.Float64Range(0, 10).Draw(t, "jitter"),
		}
		attempt := rapid.IntRange(1, 10_000).Draw(t, "attempt")
		random := rapid.Float64Range(0, 0.9999).Draw(t, "random")

		bare, jittered := e.Delay(attempt, 0), e.Delay(attempt, random)

		switch {
		case bare < 0:
			t.Fatalf("Delay = %v, negative", bare)
		case e.First <= 0 && jittered != 0:
			t.Fatalf("Delay = %v although First is %v", jittered, e.First)
		case e.Max > 0 && float64(bare) > float64(e.Max):
			t.Fatalf("Delay without jitter = %v, above Max %v", bare, e.Max)
		case e.First > 0 && e.Max <= 0 && float64(bare) < min(float64(e.First), 9.2e18):
			t.Fatalf("Delay = %v, below First %v", bare, e.First)
		case jittered < bare:
			t.Fatalf("jitter took the delay from %v down to %v", bare, jittered)
		// Both are truncated to whole nanoseconds, so the delay without jitter was up to 1
		// ns longer.
		case float64(jittered) > (float64(bare)+1)*(1+e.Jitter)*(1+1e-9):
			t.Fatalf("jitter %v took the delay from %v up to %v", e.Jitter, bare, jittered)
		case e.Delay(attempt+1, 0) < bare:
			t.Fatalf("Delay(%d) = %v, less than the one before, %v", attempt+1, e.Delay(attempt+1, 0), bare)
		}
	})
}

func TestAsked(t *testing.T) {
	t.Parallel()

	e := backoff.Exponential{First: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.2}
	boundless := backoff.Exponential{Jitter: 0.2}
	tests := map[string]struct {
		backoff backoff.Exponential
		asked   time.Duration
		random  float64
		want    time.Duration
	}{
		"no earlier than requested":        {e, 10 * time.Second, 0, 10 * time.Second},
		"and up to a fifth later":          {e, 10 * time.Second, 1, 12 * time.Second},
		"no longer than the limit":         {e, time.Hour, 0, time.Minute},
		"but for the jitter":               {e, time.Hour, 1, 72 * time.Second},
		"without a limit, any delay":       {boundless, 1000 * time.Hour, 0.5, 1100 * time.Hour},
		"as long as can be":                {boundless, math.MaxInt64, 0.5, math.MaxInt64},
		"exactly, where a float64 is less": {backoff.Exponential{}, 1<<60 + 1, 0, 1<<60 + 1},
		"no delay requested":               {e, 0, 0.9, 0},
		"less than nothing":                {e, -time.Hour, 0.9, 0},
		"jitter that is no number":         {backoff.Exponential{Jitter: math.NaN()}, time.Second, 0.9, time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := tt.backoff.Asked(tt.asked, tt.random); got != tt.want {
				t.Errorf("%+v.Asked(%v, %v) = %v, want %v", tt.backoff, tt.asked, tt.random, got, tt.want)
			}
		})
	}
}

// The third failure in a row waits four seconds. Jitter adds up to a quarter of that; the
// random number 0.5 adds an eighth.
func ExampleExponential_Delay() {
	retry := backoff.Exponential{First: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.25}
	fmt.Println(retry.Delay(3, 0), retry.Delay(3, 0.5))
	// Output: 4s 4.5s
}
