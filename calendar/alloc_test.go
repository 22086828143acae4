package calendar_test

import (
	"testing"

	"github.com/almanac-go/almanac/calendar"
)

// It is on the way of every event, so the ordinary answer costs the collector
// nothing. Not parallel: what others allocate would count.
func TestResolveAllocatesNothing(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	policies := calendar.Policies{Gap: calendar.GapBackward, Fold: calendar.FoldSecond}
	for _, text := range []string{"2026-05-01T09:00:00", "2026-03-29T09:00:00", "2026-03-29T02:30:00", "2026-10-25T02:30:00", "2099-12-31T23:59:59"} {
		w := wall(t, text)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := berlin.Resolve(w, policies); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("Resolve of %s allocates %v times", text, n)
		}
	}
}
