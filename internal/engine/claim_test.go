package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRun_claimsAtTheDueInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const due = time.Hour + 37*time.Millisecond + 5*time.Nanosecond
		s := newStore(soon(1, due, 0))
		stop := begin(t, s.engine())

		s.pass(due - 1)
		if len(s.claims) != 1 {
			t.Errorf("%d claims before anything was due, want only the one at the start", len(s.claims))
		}
		s.pass(1)
		if got := s.begun[1]; got != due {
			t.Errorf("begun at %v, want %v", got, due)
		}
		stopClean(t, stop)
	})
}

func TestRun_looksOncePerPollWhileIdle(t *testing.T) {
	t.Parallel()
	tests := map[string]func() []item{
		"with nothing known":         func() []item { return nil },
		"with an item due in a week": func() []item { return []item{soon(1, 7*24*time.Hour, 0)} },
	}
	for name, items := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(items()...)
				stop := begin(t, s.engine())
				s.pass(time.Hour)

				if got := len(s.claims); got != 1 {
					t.Errorf("%d claims in an idle hour, want 1", got)
				}
				if got := len(s.looks); got < 3300 || got > 3900 {
					t.Errorf("%d looks in an idle hour, want about one per second", got)
				}
				gaps := map[time.Duration]bool{}
				for i := range s.looks[1:] {
					gap := s.looks[i+1] - s.looks[i]
					if gap < 800*time.Millisecond || gap > 1200*time.Millisecond {
						t.Fatalf("looked after %v, want a second give or take a fifth", gap)
					}
					gaps[gap] = true
				}
				if len(gaps) < 100 {
					t.Errorf("only %d different intervals, want jitter", len(gaps))
				}
				stopClean(t, stop)
			})
		})
	}
}

func TestWake_findsAnEarlierItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 50*time.Minute, 0))
		e := s.engine()
		e.Settings.Poll = time.Hour
		stop := begin(t, e)

		s.pass(10 * time.Second)
		s.add(soon(2, 0, 0), soon(3, 7*time.Second, 0))
		e.Wake()
		s.pass(time.Minute)

		if got, want := fmt.Sprint(s.begun), "map[2:10s 3:17s]"; got != want {
			t.Errorf("begun at %v, want %v", got, want)
		}
		stopClean(t, stop)
	})
}

// A hint that arrives during a call of Until must not be lost.
func TestWake_worksDuringACallOfUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		e := s.engine()
		e.Settings.Poll = time.Hour
		e.Until = func(ctx context.Context) (time.Duration, bool, error) {
			wait, known, err := s.until(ctx)
			if s.now() == 0 {
				s.add(soon(1, 0, 0))
				e.Wake()
			}
			return wait, known, err
		}
		stop := begin(t, e)
		s.pass(time.Second)

		if len(s.begun) != 1 {
			t.Error("the item that came during a look is not begun")
		}
		stopClean(t, stop)
	})
}

func TestWake_mergesHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		e := s.engine()
		stop := begin(t, e)
		for range 10_000 {
			s.pass(100 * time.Microsecond)
			e.Wake()
		}

		if got := len(s.looks); got > 210 {
			t.Errorf("%d looks after a second of many hints, want at most one per 5ms", got)
		}
		if got := len(s.claims); got != 1 {
			t.Errorf("%d claims although nothing was due, want the first only", got)
		}
		stopClean(t, stop)
	})
}

// A claim of many large items exceeds its deadline. Claims of fewer items make progress, and find
// the size at which they do.
func TestRun_claimsFewerItemsAfterAClaimThatTookTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const items, large = 400, 150 // the first items are large
		s := newStore()
		for id := range items {
			s.add(soon(id, time.Duration(id), 0)) // in this order
		}
		e := s.engine()
		e.Settings.Slots, e.Settings.Batch = items, items
		var asked []int
		e.Claim = func(ctx context.Context, free int) ([]item, error) {
			asked = append(asked, free)
			takes := 10 * time.Millisecond
			for i := range min(free, len(s.waiting)) {
				if s.waiting[i].id < large {
					takes += time.Second
				}
			}
			select {
			case <-time.After(takes):
				return s.claim(ctx, free)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		stop := begin(t, e)
		s.pass(10 * time.Minute)

		if len(s.settled) != items {
			t.Errorf("%d of %d items are done: claims of %v", len(s.settled), items, asked)
		}
		timedOut := 0 // the deadline is ten seconds
		for _, n := range asked[:min(len(asked), 30)] {
			if n >= 10 {
				timedOut++
			}
		}
		if asked[0] != items || timedOut > 12 {
			t.Errorf("claims of %v, want few that take too long", asked)
		}
		for i := range 8 {
			s.add(soon(items+i, time.Duration(10+i)*time.Second, 0))
		}
		s.pass(time.Minute)
		if last := asked[len(asked)-1]; last != items {
			t.Errorf("the last claim asks for %d items, want %d again", last, items)
		}
		stopClean(t, stop)
	})
}

func TestRun_claimsAgainAfterAFullClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for id := range 8 {
			s.add(soon(id, 0, time.Second))
		}
		e := s.engine()
		e.Settings.Slots, e.Settings.Poll = 3, time.Hour
		e.Settings.Batch, e.Settings.Linger = 3, time.Second
		var asked []int
		e.Claim = func(ctx context.Context, free int) ([]item, error) {
			asked = append(asked, free)
			return s.claim(ctx, free)
		}
		stop := begin(t, e)
		s.pass(time.Minute)

		if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(s.claims, want) {
			t.Errorf("claims at %v, want %v", s.claims, want)
		}
		if want := []int{3, 3, 3}; !slices.Equal(asked, want) {
			t.Errorf("asked for %v, want %v", asked, want)
		}
		if len(s.settled) != 8 {
			t.Errorf("%d settled, want 8", len(s.settled))
		}
		stopClean(t, stop)
	})
}

// However many slots are free: the first items of a claim wait for its last.
func TestRun_claimsAtMostMaxClaimAtOnce(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		e.Settings.Slots, e.Settings.MaxClaim = 100, 4
		for id := range 9 {
			f.add(soon(id, 0, time.Minute), soon(10+id, 10*time.Second, 0))
		}
		var asked []int
		note := func(claim func(context.Context, int) ([]item, error)) func(context.Context, int) ([]item, error) {
			return func(ctx context.Context, n int) ([]item, error) {
				asked = append(asked, n)
				return claim(ctx, n)
			}
		}
		e.Claim, e.Ahead.Claim = note(e.Claim), note(e.Ahead.Claim)
		stop := begin(t, e)
		f.pass(5 * time.Second)
		if len(f.begun) != 9 || len(f.claims) != 3 {
			t.Errorf("%d begun after %d claims, want 9 after 3", len(f.begun), len(f.claims))
		}
		f.pass(5 * time.Second)
		if len(f.begun) != 18 || len(f.aheads) != 3 {
			t.Errorf("%d begun after %d claims ahead, want 18 after 3", len(f.begun), len(f.aheads))
		}
		f.pass(time.Minute)
		if most := slices.Max(asked); most != 4 {
			t.Errorf("asked for %d at once, want 4", most)
		}
		stopClean(t, stop)
	})
}

// While all slots are taken, the engine does not look for new items.
func TestRun_claimsWhenAFullEngineHasASlotAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Second))
		e := s.engine()
		e.Settings.Slots, e.Settings.Poll = 1, time.Hour
		stop := begin(t, e)
		s.pass(500 * time.Millisecond)
		s.add(soon(2, 0, 0)) // without a hint
		s.pass(time.Minute)

		if got, begun := s.begun[2]; !begun || got != time.Second {
			t.Errorf("begun at %v (%t), want when the slot is freed after 1s", got, begun)
		}
		stopClean(t, stop)
	})
}

func TestRun_doesNotClaimBecauseASlotIsFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Second), soon(2, 0, 2*time.Second), soon(3, time.Minute, 0))
		stop := begin(t, s.engine())
		s.pass(time.Minute)

		if want := []time.Duration{0, time.Minute}; !slices.Equal(s.claims, want) {
			t.Errorf("claims at %v, want %v", s.claims, want)
		}
		stopClean(t, stop)
	})
}

// Rows that another transaction has locked are due and cannot be claimed.
func TestRun_neverSpinsOnItemsThatOthersHaveLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		e := s.engine()
		var locked atomic.Bool
		locked.Store(true)
		e.Claim = func(ctx context.Context, free int) ([]item, error) {
			if locked.Load() {
				free = 0
			}
			return s.claim(ctx, free)
		}
		stop := begin(t, e)

		s.pass(100 * time.Millisecond)
		if got := len(s.claims); got < 6 {
			t.Errorf("%d claims within 100ms, want some in quick succession", got)
		}
		s.pass(time.Minute)
		if got := len(s.claims); got > 90 {
			t.Errorf("%d claims within a minute, want few", got)
		}
		unlocked := s.now()
		locked.Store(false)
		s.pass(1200 * time.Millisecond)
		if got, begun := s.begun[1]; !begun || got < unlocked {
			t.Errorf("begun at %v (%t), want within a poll of %v", got, begun, unlocked)
		}
		stopClean(t, stop)
	})
}

// A hint causes a claim at once, however many claims before got nothing.
func TestWake_endsTheWaitAfterEmptyClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		e := s.engine()
		e.Settings.Poll = time.Hour
		var locked atomic.Bool
		locked.Store(true)
		e.Claim = func(ctx context.Context, free int) ([]item, error) {
			if locked.Load() {
				free = 0
			}
			return s.claim(ctx, free)
		}
		stop := begin(t, e)
		s.pass(time.Minute)
		locked.Store(false)
		e.Wake()
		s.pass(0)

		if got, begun := s.begun[1]; !begun || got != time.Minute {
			t.Errorf("begun at %v (%t), want at the hint after 1m", got, begun)
		}
		stopClean(t, stop)
	})
}

func TestRun_neverSpinsWhenTheBackoffIsNegative(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.failClaim = always
		e := s.engine()
		e.Settings.Backoff = func(int) time.Duration { return -1 }
		stop := begin(t, e)
		s.pass(time.Second)

		if got := len(s.claims); got > 1001 {
			t.Errorf("%d claims in a second, want a millisecond between them", got)
		}
		stopClean(t, stop)
	})
}

func TestRun_outlivesFailingClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		e := s.engine()
		s.failClaim = func(call int) error {
			e.Wake() // must not shorten the backoff
			if call <= 8 {
				return errStore
			}
			return nil
		}
		stop := begin(t, e)
		s.pass(time.Minute)

		ms := time.Millisecond
		want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 11300 * ms,
			16300 * ms, 16300 * ms} // the first success is of one item, and there may be more
		if !slices.Equal(s.claims, want) {
			t.Errorf("claims at %v, want %v", s.claims, want)
		}
		if got := s.log.count("level=WARN msg=\"claim failed\""); got != 8 {
			t.Errorf("%d warnings, want 8", got)
		}
		if s.settled[1] != "done" {
			t.Error("the item is not done")
		}
		stopClean(t, stop)
	})
}

// An engine that cannot learn when the next item is due still claims.
func TestRun_outlivesFailingLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, time.Minute, 0))
		s.failUntil = always
		stop := begin(t, s.engine())
		s.pass(2 * time.Minute)

		if got := s.begun[1]; got < time.Minute || got > time.Minute+5*time.Second {
			t.Errorf("begun at %v, want within the longest backoff after 1m", got)
		}
		if got := len(s.looks); got > 35 {
			t.Errorf("%d looks in two minutes, want backoff", got)
		}
		if s.log.count("level=WARN") != len(s.looks) {
			t.Errorf("%d warnings for %d failures", s.log.count("level=WARN"), len(s.looks))
		}
		stopClean(t, stop)
	})
}

func TestRun_doesItemsReturnedWithAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		e := s.engine()
		e.Claim = func(ctx context.Context, free int) ([]item, error) {
			items, _ := s.claim(ctx, free)
			return items, errStore
		}
		stop := begin(t, e)
		s.pass(time.Second)

		if s.settled[1] != "done" {
			t.Error("the item is not done")
		}
		stopClean(t, stop)
	})
}

func TestRun_refusesItemsInExcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0), soon(2, 0, 0), soon(3, 0, 0))
		e := s.engine()
		e.Settings.Slots = 2
		e.Claim = func(ctx context.Context, free int) ([]item, error) { return s.claim(ctx, free+1) }
		stop := begin(t, e)
		s.pass(time.Second)

		if len(s.begun) != 2 {
			t.Errorf("%d begun, want the 2 that there are slots for", len(s.begun))
		}
		if got := s.log.count("level=ERROR"); got != 1 {
			t.Errorf("%d errors logged, want 1", got)
		}
		stopClean(t, stop)
	})
}
