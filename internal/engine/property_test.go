package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// scenario is one random test case.
type scenario struct {
	slots, batch   int
	maxClaim       int
	settlers       int
	linger         time.Duration
	offsets, takes []time.Duration // of each item
	announced      []bool          // whether a hint announces it
	ends           []string        // how Do ends
	claims, stores []bool          // which calls fail; the rest succeed
	stop           time.Duration
}

func drawScenario(t *rapid.T) scenario {
	ms := func(most int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(0, most), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
	}
	n := rapid.IntRange(0, 40).Draw(t, "items")
	failures := rapid.SliceOfN(rapid.Bool(), 0, 6)
	return scenario{
		slots:     rapid.IntRange(1, 6).Draw(t, "slots"),
		maxClaim:  rapid.IntRange(0, 3).Draw(t, "most in a claim"),
		batch:     rapid.IntRange(1, 8).Draw(t, "batch"),
		settlers:  rapid.IntRange(0, 3).Draw(t, "settlers"),
		linger:    ms(5).Draw(t, "linger"),
		offsets:   rapid.SliceOfN(ms(5000), n, n).Draw(t, "offsets"),
		takes:     rapid.SliceOfN(ms(2000), n, n).Draw(t, "takes"),
		announced: rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "announced"),
		ends:      rapid.SliceOfN(rapid.SampledFrom([]string{"return", "return", "panic", "goexit"}), n, n).Draw(t, "ends"),
		claims:    failures.Draw(t, "failing claims"),
		stores:    failures.Draw(t, "failing stores"),
		stop:      ms(8000).Draw(t, "stop"),
	}
}

func failing(calls []bool) func(int) error {
	return func(call int) error {
		if call <= len(calls) && calls[call-1] {
			return errStore
		}
		return nil
	}
}

// live runs an engine through w: first until w.stop, then a second run with enough time for
// the rest. It returns the violations.
func (w scenario) live(t *testing.T) (faults []string) {
	s := newStore()
	s.failClaim, s.failSettle = failing(w.claims), failing(w.stores)
	e := s.engine()
	e.Settings.Slots, e.Settings.MaxClaim = w.slots, w.maxClaim
	e.Settings.Batch, e.Settings.Linger, e.Settings.Settlers = w.batch, w.linger, w.settlers

	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	done := make([]atomic.Int64, len(w.offsets))
	var doing, mostDoing int // under s.mu
	count := func(change int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		doing += change
		mostDoing = max(mostDoing, doing)
	}
	e.Do = returning(func(ctx context.Context, it item) item {
		count(1)
		defer count(-1)
		done[it.id].Add(1)
		r := s.do(ctx, it)
		switch w.ends[it.id] {
		case "panic":
			panic(it.id)
		case "goexit":
			runtime.Goexit()
		}
		return r
	})
	mostHeld := 0
	e.Claim = func(ctx context.Context, free int) ([]item, error) {
		items, err := s.claim(ctx, free)
		s.mu.Lock()
		defer s.mu.Unlock()
		mostHeld = max(mostHeld, s.held)
		return items, err
	}

	for id, offset := range w.offsets {
		due := soon(id, offset, w.takes[id])
		if !w.announced[id] {
			s.add(due)
			continue
		}
		time.AfterFunc(offset/2, func() { s.add(due); e.Wake() })
	}
	for _, d := range []time.Duration{w.stop, 10 * time.Minute} {
		stop := begin(t, e)
		s.pass(d)
		if err := stop(); err != nil {
			fault("Run = %v", err)
		}
		if s.held != 0 {
			fault("%d held after Run", s.held)
		}
	}

	for id := range w.offsets {
		outcome := map[string]string{"return": "done", "panic": "exited", "goexit": "exited"}[w.ends[id]]
		if done[id].Load() != 1 || s.settled[id] != outcome {
			fault("item %d done %d times, settled as %q, want once and %q", id, done[id].Load(), s.settled[id], outcome)
		}
		if s.begun[id] < w.offsets[id] {
			fault("item %d begun at %v, before it was due at %v", id, s.begun[id], w.offsets[id])
		}
	}
	if mostHeld > w.slots || mostDoing > w.slots {
		fault("%d held, %d being done, with %d slots", mostHeld, mostDoing, w.slots)
	}
	if len(s.settled) != len(w.offsets) {
		fault("%d settled, want %d", len(s.settled), len(w.offsets))
	}
	return faults
}

func TestRun_doesAndSettlesEachItemOnce(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(rt *rapid.T) {
		w := drawScenario(rt)
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = w.live(t) })
		for _, fault := range faults {
			rt.Error(fault)
		}
	})
}
