package rrule_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/rrule"
)

// firstSlots returns the first n slots of a series, or all when there are fewer.
func firstSlots(rule rrule.Rule, start time.Time, n int) []string {
	var all []string
	for after := start.Add(-time.Second); len(all) < n; {
		r, ok := next(rule, start, after)
		if !ok {
			break
		}
		all, after = append(all, written(r)), r.at
	}
	return all
}

func TestNext(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ rule, start, after, want string }{
		"the start itself":                       {"FREQ=DAILY", "2026-05-01 09:00", "2026-05-01 08:59:59", "2026-05-01 09:00:00"},
		"strictly after":                         {"FREQ=DAILY", "2026-05-01 09:00", "2026-05-01 09:00", "2026-05-02 09:00:00"},
		"nothing before the start":               {"FREQ=DAILY", "2026-05-01 09:00", "1990-01-01", "2026-05-01 09:00:00"},
		"a start that does not fit":              {"FREQ=WEEKLY;BYDAY=MO", "2026-05-01 09:00", "2026-05-01", "2026-05-04 09:00:00"},
		"a start that does not fit by its hour":  {"FREQ=DAILY;BYHOUR=8", "2026-05-01 09:00", "2026-05-01", "2026-05-02 08:00:00"},
		"a slot that is not counted":             {"FREQ=WEEKLY;BYDAY=MO;COUNT=2", "2026-05-01 09:00", "2026-05-05", "2026-05-11 09:00:00"},
		"far from the start":                     {"FREQ=MONTHLY;INTERVAL=7;BYDAY=-1FR", "1990-01-26 09:00", "2026-05-01", "2026-10-30 09:00:00"},
		"seconds far from the start":             {"FREQ=SECONDLY;INTERVAL=86399", "0001-01-01 00:00", "2026-05-01", "2026-05-01 10:30:55"},
		"before 1970":                            {"FREQ=MINUTELY;INTERVAL=50", "1969-12-31 23:00", "1969-12-31 23:00", "1969-12-31 23:50:00"},
		"the last of a count":                    {"FREQ=DAILY;COUNT=3", "2026-05-01 09:00", "2026-05-02 09:00", "2026-05-03 09:00:00"},
		"a count that is used up":                {"FREQ=DAILY;COUNT=3", "2026-05-01 09:00", "2026-05-03 09:00", ""},
		"a count used up long ago":               {"FREQ=DAILY;COUNT=10000", "1990-05-01 09:00", "2026-05-03 09:00", ""},
		"the last day of a date":                 {"FREQ=HOURLY;UNTIL=20260501", "2026-05-01 09:00", "2026-05-01 22:00", "2026-05-01 23:00:00"},
		"not after a date":                       {"FREQ=HOURLY;UNTIL=20260501", "2026-05-01 09:00", "2026-05-01 23:00", ""},
		"a local end is included":                {"FREQ=DAILY;UNTIL=20260503T090000", "2026-05-01 09:00", "2026-05-02 09:00", "2026-05-03 09:00:00"},
		"not after a local end":                  {"FREQ=DAILY;UNTIL=20260503T085959", "2026-05-01 09:00", "2026-05-02 09:00", ""},
		"an end before the start":                {"FREQ=DAILY;UNTIL=20260430", "2026-05-01 09:00", "2026-01-01", ""},
		"an end in UTC is not yet one":           {"FREQ=DAILY;UNTIL=20260503T090000Z", "2026-05-01 09:00", "2026-05-04 09:00", "2026-05-05 09:00:00"},
		"but is two days later":                  {"FREQ=DAILY;UNTIL=20260503T090000Z", "2026-05-01 09:00", "2026-05-05 09:00", ""},
		"the last second there is":               {"FREQ=SECONDLY", "2026-05-01 09:00", "9999-12-31 23:59:58", "9999-12-31 23:59:59"},
		"nothing after it":                       {"FREQ=SECONDLY", "2026-05-01 09:00", "9999-12-31 23:59:59", ""},
		"the last of a week that goes on":        {"FREQ=WEEKLY;BYDAY=SU,SA", "2026-05-01 09:00", "9999-12-25 09:00", "9999-12-26 09:00:00"},
		"the end of the last week":               {"FREQ=WEEKLY;BYDAY=SA", "2026-05-01 09:00", "9999-12-25 09:00", ""},
		"the first day there is":                 {"FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO", "0001-01-01", "0000-01-01", "0001-01-01 00:00:00"},
		"a leap day across a common century":     {"FREQ=YEARLY", "2096-02-29 09:00", "2096-02-29 09:00", "2104-02-29 09:00:00"},
		"a Friday, 29 February":                  {"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=FR", "2092-01-01", "2092-03-01", "2104-02-29 00:00:00"},
		"an interval of centuries":               {"FREQ=YEARLY;INTERVAL=500", "2026-05-01", "2026-05-01", "2526-05-01 00:00:00"},
		"a leap Sunday that 68 days seldom meet": {"FREQ=DAILY;INTERVAL=68;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU", "2026-05-01", "2026-05-01", "5288-02-29 00:00:00"},
		"a count of thousands of years":          {"FREQ=YEARLY;COUNT=5000", "2026-05-01", "2526-05-01", "2527-05-01 00:00:00"},
		"a count of cycles of the calendar":      {"FREQ=DAILY;INTERVAL=146097;COUNT=3", "2026-05-01", "2426-05-01", "2826-05-01 00:00:00"},
		"positions from either end, in order":    {"FREQ=DAILY;BYHOUR=8,9,10,11;BYSETPOS=3,-3", "2026-05-01", "2026-05-01", "2026-05-01 09:00:00"},
		"one from either end is counted once":    {"FREQ=DAILY;BYHOUR=9;BYSETPOS=1,-1;COUNT=2", "2026-05-01", "2026-05-01 09:00", "2026-05-02 09:00:00"},
		"a leap Monday across a common century":  {"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "2072-02-29", "2072-02-29", "2112-02-29 00:00:00"},
		"no more than one interval":              {"FREQ=YEARLY;INTERVAL=2147483647", "2026-05-01", "2026-05-01", ""},
		"a leap day that 37 minutes seldom meet": {"FREQ=MINUTELY;INTERVAL=37;BYMONTH=2;BYMONTHDAY=29;BYHOUR=5;BYMINUTE=0", "2026-05-01 09:00", "2026-05-01 09:00", "2232-02-29 05:00:00"},
		"an interval of 68 years in seconds":     {"FREQ=SECONDLY;INTERVAL=2147483647", "2026-05-01", "2026-05-01", "2094-05-19 03:14:07"},
		"the shortest week":                      {"FREQ=YEARLY;BYWEEKNO=53", "2026-12-31", "2027-01-01", "2032-12-30 00:00:00"},
		"the weekday of the start, in a week":    {"FREQ=YEARLY;BYWEEKNO=20", "2026-05-13", "2026-05-13", "2027-05-19 00:00:00"},
		"the first week, in the year before":     {"FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO", "2024-01-01", "2024-01-01", "2024-12-30 00:00:00"},
		"the last week, in the year after":       {"FREQ=YEARLY;BYWEEKNO=-1;BYDAY=SU", "2026-01-01", "2026-02-01", "2027-01-03 00:00:00"},
		"the month of the start, on its day":     {"FREQ=YEARLY", "2026-05-31", "2026-05-31", "2027-05-31 00:00:00"},
		"every month with BYMONTHDAY":            {"FREQ=YEARLY;BYMONTHDAY=13", "2026-05-13", "2026-05-13", "2026-06-13 00:00:00"},
		"plain and numbered days together":       {"FREQ=MONTHLY;BYDAY=MO,-1FR", "2026-05-01", "2026-05-25", "2026-05-29 00:00:00"},
		"BYDAY counts in the month of BYMONTH":   {"FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU", "2026-01-01", "2026-01-01", "2026-03-29 00:00:00"},
		"a position counts from its period":      {"FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=-1", "2026-05-06", "2026-05-01", "2026-05-08 00:00:00"},
		"the last minute of each hour":           {"FREQ=HOURLY;BYMINUTE=0,15,45;BYSETPOS=-1", "2026-05-01 09:00", "2026-05-01 09:45", "2026-05-01 10:45:00"},
		"fractions of a second are cut":          {"FREQ=SECONDLY", "2026-05-01 09:00", "2026-05-01 09:00:00.9", "2026-05-01 09:00:01"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := ""
			if slot, ok := parse(t, tt.rule).Next(wall(t, tt.start), wall(t, tt.after)); ok {
				got = slot.Wall.Format(time.DateTime)
			}
			if got != tt.want {
				t.Errorf("%s from %s: after %s comes %q, want %q", tt.rule, tt.start, tt.after, got, tt.want)
			}
		})
	}
}

func TestNextOfInvalidArguments(t *testing.T) {
	t.Parallel()

	daily, start := parse(t, "FREQ=DAILY"), wall(t, "2026-05-01")
	tests := map[string]struct {
		rule         rrule.Rule
		start, after time.Time
	}{
		"the zero rule":              {rrule.Rule{}, start, time.Time{}},
		"a start before the year 1":  {daily, time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), time.Time{}},
		"a start after 9999":         {daily, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}},
		"after the last year":        {daily, start, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"after the last of all time": {daily, start, time.Unix(1<<62, 0)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if slot, ok := tt.rule.Next(tt.start, tt.after); ok || slot != (rrule.Slot{}) {
				t.Errorf("%q from %v: after %v comes %v, want nothing", tt.rule, tt.start, tt.after, slot)
			}
		})
	}
}

// hostile are rules that make a naive search long or endless, by what they are. None
// recurs after Friday, 2026-05-01 09:00, but those with COUNT.
func hostile() map[string]string {
	all := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("," + string(rune('0'+i/10)) + string(rune('0'+i%10)))
		}
		return b.String()[1:]
	}
	positions := func(first int) string { // all from there on, from either end
		var b strings.Builder
		for n := first; n <= 366; n++ {
			fmt.Fprintf(&b, ",%d,-%[1]d", n)
		}
		return b.String()[1:]
	}
	return map[string]string{
		"yearly, a day that never is":             "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
		"yearly, a position that never is":        "FREQ=YEARLY;BYDAY=MO;BYSETPOS=366",
		"yearly, a week that is not in the month": "FREQ=YEARLY;BYWEEKNO=20;BYMONTH=1",
		"yearly, years without the day":           "FREQ=YEARLY;INTERVAL=4;BYYEARDAY=366",
		"monthly, a day that never is":            "FREQ=MONTHLY;BYDAY=6MO",
		"monthly, months without the day":         "FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=31;BYMONTH=4",
		"weekly, a position that never is":        "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2",
		"daily, a day that never is":              "FREQ=DAILY;BYMONTH=4;BYMONTHDAY=31",
		"daily, days without the weekday":         "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
		"daily, a position that never is":         "FREQ=DAILY;BYHOUR=9;BYSETPOS=2",
		"daily, every time and no day":            "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=31;BYHOUR=" + all(24) + ";BYMINUTE=" + all(60) + ";BYSECOND=" + all(60),
		"hourly, a day that never is":             "FREQ=HOURLY;BYYEARDAY=1;BYMONTH=2",
		"hourly, an hour that it steps over":      "FREQ=HOURLY;INTERVAL=24;BYHOUR=5",
		"hourly, an odd hour by even steps":       "FREQ=HOURLY;INTERVAL=2;BYHOUR=0,2,4,6,8,10,12,14,16,18,20,22",
		"minutely, a minute that it steps over":   "FREQ=MINUTELY;INTERVAL=1440;BYHOUR=5",
		"minutely, an odd minute by even steps":   "FREQ=MINUTELY;INTERVAL=2;BYMINUTE=1",
		"minutely, a day that never is":           "FREQ=MINUTELY;INTERVAL=1441;BYMONTH=6;BYMONTHDAY=31;BYHOUR=5",
		"secondly, a second that it steps over":   "FREQ=SECONDLY;INTERVAL=86400;BYSECOND=1",
		"secondly, an odd second by even steps":   "FREQ=SECONDLY;INTERVAL=2;BYSECOND=1",
		"secondly, a day that never is":           "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
		"secondly, steps of a seventh of a week":  "FREQ=SECONDLY;INTERVAL=7;BYDAY=TU;BYHOUR=0,7,14,21;BYMINUTE=0,7,14,21,28,35,42,49,56;BYSECOND=0,7,14,21,28,35,42,49,56",
		"secondly, a second position":             "FREQ=SECONDLY;BYSECOND=0;BYSETPOS=2",
		"yearly, the greatest interval":           "FREQ=YEARLY;INTERVAL=2147483647",
		"monthly, the greatest interval":          "FREQ=MONTHLY;INTERVAL=2147483647",
		"weekly, the greatest interval":           "FREQ=WEEKLY;INTERVAL=2147483647",
		"daily, the greatest interval":            "FREQ=DAILY;INTERVAL=2147483647",
		"hourly, the greatest interval":           "FREQ=HOURLY;INTERVAL=2147483647",
		"minutely, the greatest interval":         "FREQ=MINUTELY;INTERVAL=2147483647;BYHOUR=10",
		"secondly, the greatest interval":         "FREQ=SECONDLY;INTERVAL=2147483647;BYHOUR=9;BYMONTH=2;BYMONTHDAY=30",
		"a count of what is once in centuries":    "FREQ=DAILY;INTERVAL=146097;COUNT=10000;BYHOUR=9",
		"a count of what seldom is":               "FREQ=DAILY;BYMONTHDAY=31;BYDAY=FR;BYMONTH=12;INTERVAL=11;COUNT=10000",
		"a count of seconds":                      "FREQ=SECONDLY;INTERVAL=61;BYSECOND=59;COUNT=10000",
		"a count of every time of every day":      "FREQ=YEARLY;COUNT=10000;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=" + all(24) + ";BYMINUTE=" + all(60) + ";BYSECOND=" + all(60),
		"monthly, hundreds of positions":          "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=" + positions(6),
		"weekly, hundreds of positions":           "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=" + positions(2),
		"a count of hundreds of positions":        "FREQ=WEEKLY;BYMONTH=2;BYDAY=MO;COUNT=10000;BYSETPOS=" + positions(1),
		"a count of days that are one in a week":  "FREQ=YEARLY;BYWEEKNO=53;COUNT=10000",
		"a count of positions that seldom are":    "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=366;COUNT=10000",
		"a count of positions among every time":   "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=366,-366;COUNT=10000;BYHOUR=" + all(24) + ";BYMINUTE=" + all(60) + ";BYSECOND=" + all(60),
	}
}

// Each search runs until it gives up, those with COUNT from the start to the end of
// time. One that does not give up ends the test by its time limit.
func TestNextEndsOnHostileRules(t *testing.T) {
	t.Parallel()

	start := wall(t, "2026-05-01 09:00")
	after := map[bool]time.Time{false: start, true: wall(t, "9999-12-31 23:59:58")}
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			counted := strings.Contains(text, "COUNT")
			if slot, ok := parse(t, text).Next(start, after[counted]); ok {
				t.Errorf("%s from %v: after %v comes %v, want nothing", text, start, after[counted], slot)
			}
		})
	}
}

// A search goes through half a million weeks, so it must not keep anything for each
// that it passes. Not parallel: what others allocate would count.
func TestNextOfHostileRulesTakesLittleMemory(t *testing.T) {
	const most = 4 << 20 // bytes; the slots of the longest count, with their places, take 2 MB
	start, end := wall(t, "2026-05-01 09:00"), wall(t, "9999-12-31 23:59:58")
	for name, text := range hostile() {
		rule := parse(t, text)
		for _, after := range []time.Time{start, end} {
			var before, then runtime.MemStats
			runtime.ReadMemStats(&before)
			rule.Next(start, after)
			runtime.ReadMemStats(&then)
			if taken := then.TotalAlloc - before.TotalAlloc; taken > most {
				t.Errorf("%s: after %v the search takes %d bytes, want at most %d", name, after, taken, most)
			}
		}
	}
}
