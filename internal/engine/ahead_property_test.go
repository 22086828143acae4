package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Items are moved before they are due, and the engine is stopped at any moment. Each item
// is still done once, and never before the due time that it had last.
func TestAhead_movesBeforeTheMomentWin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ms := rapid.Map(rapid.IntRange(0, 3000), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
		n := rapid.IntRange(1, 20).Draw(rt, "items")
		offsets := rapid.SliceOfN(ms, n, n).Draw(rt, "offsets")
		moves := rapid.SliceOfN(ms, 3*n, 3*n).Draw(rt, "moves") // when each item is moved, and to when
		slots, stopAt := rapid.IntRange(1, 40).Draw(rt, "slots"), ms.Draw(rt, "stop")
		maxClaim := rapid.IntRange(0, 5).Draw(rt, "most in a claim")
		fails := rapid.SliceOfN(rapid.Bool(), 0, 4).Draw(rt, "failing confirmations")
		var faults []int
		synctest.Test(t, func(t *testing.T) {
			f := newAheadStore()
			e := f.engine()
			e.Settings.Slots, e.Settings.MaxClaim = slots, maxClaim
			f.failConfirm = failing(fails)
			done := make(map[int]int)
			e.Do = returning(func(ctx context.Context, it item) item {
				f.mu.Lock()
				due, moved := f.moved[it.id]
				if !moved {
					due = f.start.Add(offsets[it.id])
				}
				if it.due != due || time.Now().Before(due) {
					faults = append(faults, it.id)
				}
				done[it.id]++
				f.mu.Unlock()
				return f.do(ctx, it)
			})
			for id, offset := range offsets {
				f.add(soon(id, offset, 0))
				time.AfterFunc(moves[id], func() {
					f.move(id, f.start.Add(moves[n+id]+moves[2*n+id]))
					e.Wake()
				})
			}
			for _, d := range []time.Duration{stopAt, time.Minute} {
				stop := begin(t, e)
				f.pass(d)
				stopClean(t, stop)
			}
			for id := range offsets {
				if done[id] != 1 || f.settled[id] != "done" {
					faults = append(faults, id)
				}
			}
		})
		if len(faults) > 0 {
			rt.Errorf("items %v", faults)
		}
	})
}
