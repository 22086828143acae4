package calendar_test

import (
	"slices"
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

// A rule of working days costs at most three times the plain one. Over a weekend the figure is near to that, so
// the test allows five times. Both rules run in turn, and the figure is the median of what one took as a multiple of
// the other, so load on the machine makes no difference. Not parallel.
func TestWorkingDaysCostLittleMoreThanAllDays(t *testing.T) {
	work, nine := workCalendar(t, "TEST", "2026-12-25 holiday"), calendar.Clock{Hour: 9}
	daily, monthly := calendar.Daily{At: nine}, calendar.Monthly{Day: 31, At: nine}
	const wednesday, friday, monday = "2026-05-20T12:00:00Z", "2026-05-22T12:00:00Z", "2026-05-25T04:00:00Z"
	berlin := zone(t, "Europe/Berlin")
	for name, tt := range map[string]struct {
		plain, rule calendar.Recurrence
		after       string
		most        float64 // times the plain rule
	}{
		"in the week":         {daily, calendar.Within{Of: daily, WorkDays: work}, wednesday, 3},
		"over a weekend":      {daily, calendar.Within{Of: daily, WorkDays: work}, friday, 5},
		"on Monday":           {daily, calendar.Within{Of: daily, WorkDays: work}, monday, 5},
		"monthly":             {monthly, calendar.Within{Of: monthly, WorkDays: work}, wednesday, 3},
		"third working day":   {calendar.Monthly{Day: 3, At: nine}, calendar.Monthly{Day: 3, At: nine, WorkDays: work}, wednesday, 3},
		"working days before": {calendar.Offset{Of: monthly, Days: -3, At: nine}, calendar.Offset{Of: monthly, Days: -3, At: nine, WorkDays: work}, wednesday, 3},
	} {
		after := instant(t, tt.after)
		took := func(rule calendar.Recurrence) time.Duration {
			began := time.Now()
			for range 200 {
				if _, err := calendar.Next(rule, berlin, calendar.Policies{}, after); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		var times [101]float64
		for i := range times {
			times[i] = float64(took(tt.rule)) / float64(took(tt.plain))
		}
		slices.Sort(times[:])
		if median := times[len(times)/2]; median > tt.most {
			t.Errorf("%s, working days take %.1f times as long as all days: more than %v", name, median, tt.most)
		}
	}
}
