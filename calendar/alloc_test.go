package calendar_test

import (
	"testing"
	"time"

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

// A rule of working days costs a few times the plain one. Each figure is the least of many runs, one of
// each rule in turn, so load on the machine counts for neither. Not parallel.
func TestWorkingDaysCostLittleMoreThanAllDays(t *testing.T) {
	const most = 5
	daily := calendar.Daily{At: calendar.Clock{Hour: 9}}
	rules := [...]calendar.Recurrence{daily, calendar.Within{Of: daily, WorkDays: workCalendar(t, "TEST", "2026-12-25 holiday")}}
	berlin := zone(t, "Europe/Berlin")
	for name, text := range map[string]string{"in the week": "2026-05-20T12:00:00Z", "over a weekend": "2026-05-22T12:00:00Z", "on Monday": "2026-05-25T04:00:00Z"} {
		after := instant(t, text)
		least := [...]time.Duration{time.Hour, time.Hour}
		for range 50 {
			for i, rule := range rules {
				began := time.Now()
				for range 500 {
					if _, err := calendar.Next(rule, berlin, calendar.Policies{}, after); err != nil {
						t.Fatal(err)
					}
				}
				least[i] = min(least[i], time.Since(began))
			}
		}
		if least[1] > most*least[0] {
			t.Errorf("%s, working days take %v, and all days %v: more than %d times as long", name, least[1], least[0], most)
		}
	}
}
