package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/cron"
)

func seeds() []string {
	return []string{
		"* * * * *", "*/5 9-17 * * MON-FRI", "0 9 * * *", "30 0 9 * * *", "7/15 22-23,0-2 * * *",
		"0 0 29 2 *", "0 0 30 2 *", "0 0 L * ?", "0 0 L-3,15W * *", "0 0 LW,31w * MON", "0 0 L-31,W,1-5W * *", "0 0 ? * 5L", "0 0 * * 1#5", "0 0 13 * 5", "0 0 */2 * 1",
		"0 0 * * FRI-SUN", "0 0 * * 7/2", "59 59 23 31 12 *", "@weekly", "@every 1h", "TZ=UTC 0 0 * * *",
		"", "61 24 0 13 8", "*/0 * * * *", "a b c d e", "1,,2 * * * *", "\xff\u00a0* * * *",
	}
}

func FuzzParse(f *testing.F) {
	for _, expr := range seeds() {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		s, err := cron.Parse(expr)
		if err != nil {
			problems := problemsOf(t, err)
			if s != (cron.Schedule{}) || len(problems) == 0 || len(problems) > 7 {
				t.Fatalf("Parse(%q) = %v, %v; want no schedule, and 1 to 7 problems", expr, s, err)
			}
			if len(err.Error()) > 1500 {
				t.Fatalf("Parse(%q) tells %d bytes of problems", expr, len(err.Error()))
			}
			return
		}
		if want := strings.Join(strings.Fields(expr), " "); s.String() != want {
			t.Errorf("Parse(%q).String() = %q, want %q", expr, s, want)
		}
		if again, err := cron.Parse(s.String()); err != nil || again != s {
			t.Errorf("Parse(%q) = %v, %v; want an equal schedule", s, again, err)
		}
	})
}

func FuzzNext(f *testing.F) {
	for _, expr := range seeds() {
		f.Add(expr, int64(1_772_323_199))
		f.Add(expr, int64(253_402_214_400)) // the last day of 9999
	}
	f.Fuzz(func(t *testing.T, expr string, seconds int64) {
		s, err := cron.Parse(expr)
		if err != nil {
			return
		}
		const first, last = -62_135_596_800, 253_402_300_799
		after := time.Unix(first+int64(uint64(seconds-first)%(last-first+1)), 0).UTC()
		checkNext(t, s, after)
	})
}

// failer is the common part of a test and a property.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkNext compares Next with a naive search. The result must be later than after and
// match the expression. No earlier reading may match in the rest of after's day, in the day
// of the result, or in the two years between.
func checkNext(t failer, s cron.Schedule, after time.Time) {
	t.Helper()
	n := readNaively(s.String())
	next, ok := s.Next(after)
	if ok && (!next.After(after) || !n.matches(next) || next.Location() != time.UTC || next.Nanosecond() != 0) {
		t.Fatalf("%q.Next(%v) = %v, which is not a later one that it asks for", s, after, next)
	}
	earlier := func(at time.Time) bool {
		return at.After(after) && at.Year() <= 9999 && (!ok || at.Before(next))
	}
	scan := func(day time.Time) {
		if !n.day(day) {
			return
		}
		for second := range 86_400 {
			if !n.hours[second/3600] || !n.minutes[second/60%60] || !n.seconds[second%60] {
				continue
			}
			if at := day.Add(time.Duration(second) * time.Second); earlier(at) {
				t.Fatalf("%q.Next(%v) = %v, %v; want %v", s, after, next, ok, at)
			}
		}
	}

	today := after.Truncate(24 * time.Hour)
	scan(today)
	for days := range 2 * 366 {
		day := today.AddDate(0, 0, days+1)
		if ok && day.After(next) {
			return
		}
		if n.day(day) {
			scan(day) // the first such day decides
			return
		}
	}
	if ok {
		scan(next.Truncate(24 * time.Hour))
	}
}
