package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

// A failing store gets only the calls that are needed to find out that it works again.
func TestRun_callsAFailingStoreOncePerBackoff(t *testing.T) {
	t.Parallel()
	const longest, outage = 5 * time.Second, time.Hour
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		s.failClaim, s.failUntil, s.failSettle, s.failRenew = always, always, always, always
		e := s.engine()
		failing := true
		rounds := map[string]int{}
		for name, every := range map[string]time.Duration{"often": 50 * time.Millisecond, "seldom": 24 * time.Hour} {
			e.Tasks = append(e.Tasks, engine.Task{Name: name, Every: every, Do: func(context.Context) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				rounds[name]++
				if failing {
					return errStore
				}
				return nil
			}})
		}
		stop := begin(t, e)
		for range int(outage / time.Millisecond / 100) {
			s.pass(100 * time.Millisecond)
			e.Wake() // as other processes do that know nothing of the failure
		}

		const probes = int(outage/longest) + 6 // the first calls follow each other sooner
		if got := len(s.claims); got > probes || got < probes-6 {
			t.Errorf("%d claims in an hour of failures, want one every %v", got, longest)
		}
		for i := 7; i < len(s.claims); i++ {
			if gap := s.claims[i] - s.claims[i-1]; gap != longest {
				t.Fatalf("claim %d came after %v, want %v", i, gap, longest)
			}
		}
		if got := len(s.looks) + len(s.batches) + len(s.renewed); got > 0 {
			t.Errorf("%d other calls while nothing can be claimed, want none", got)
		}
		for name, got := range rounds {
			if got > probes {
				t.Errorf("%d rounds of the task %q, want at most one every %v", got, name, longest)
			}
		}
		if len(s.begun) > 0 {
			t.Error("something is begun that was not claimed")
		}

		s.mu.Lock()
		s.failClaim, s.failUntil, s.failSettle, s.failRenew, failing = nil, nil, nil, nil, false
		before, healed := len(s.claims), s.now()
		s.mu.Unlock()
		s.pass(longest)
		if got := s.begun[1]; got != s.claims[before] || got > healed+longest {
			t.Errorf("begun at %v, want at the first claim after %v", got, healed)
		}
		if s.settled[1] != "done" {
			t.Error("the item is not done")
		}
		rounds["often"] = 0
		s.pass(time.Minute)
		if got := rounds["often"]; got < 900 {
			t.Errorf("%d rounds in a minute after the outage, want the usual pace", got)
		}
		stopClean(t, stop)
	})
}
