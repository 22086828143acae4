package rrule_test

import (
	"strings"
	"testing"
)

// The examples of RFC 7529 for the Gregorian calendar, and what follows from its
// order of evaluation: SKIP comes after BYMONTHDAY and before BYDAY. A slot is
// written as its date, with the hour if there is one, and in brackets the date that
// the rule names instead.
func TestSkip(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ start, rule, want string }{
		"a leap day without SKIP": {
			"2012-02-29", "FREQ=YEARLY", "2012-02-29 2016-02-29 2020-02-29 ...",
		},
		"a leap day left out": {
			"2012-02-29", "RSCALE=GREGORIAN;FREQ=YEARLY;SKIP=OMIT", "2012-02-29 2016-02-29 2020-02-29 ...",
		},
		"a leap day put forward": {
			"2012-02-29", "RSCALE=GREGORIAN;FREQ=YEARLY;SKIP=FORWARD",
			"2012-02-29 2013-03-01(2013-02-29) 2014-03-01(2014-02-29) 2015-03-01(2015-02-29) 2016-02-29 2017-03-01(2017-02-29) ...",
		},
		"a leap day put backward": {
			"2012-02-29", "RSCALE=GREGORIAN;FREQ=YEARLY;SKIP=BACKWARD",
			"2012-02-29 2013-02-28(2013-02-29) 2014-02-28(2014-02-29) 2015-02-28(2015-02-29) 2016-02-29 2017-02-28(2017-02-29) ...",
		},
		"the 31st left out": {
			"2014-01-31", "RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=OMIT;COUNT=4", "2014-01-31 2014-03-31 2014-05-31 2014-07-31",
		},
		"the 31st put backward": {
			"2014-01-31", "RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=BACKWARD;COUNT=4",
			"2014-01-31 2014-02-28(2014-02-31) 2014-03-31 2014-04-30(2014-04-31)",
		},
		"the 31st put forward": {
			"2014-01-31", "RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=FORWARD;COUNT=4",
			"2014-01-31 2014-03-01(2014-02-31) 2014-03-31 2014-05-01(2014-04-31)",
		},
		"30 February of BYMONTHDAY": {
			"2027-01-30", "FREQ=MONTHLY;BYMONTHDAY=30;RSCALE=GREGORIAN;SKIP=BACKWARD;COUNT=3",
			"2027-01-30 2027-02-28(2027-02-30) 2027-03-30",
		},
		"days that are moved to one day merge": {
			"2027-02-01", "FREQ=MONTHLY;BYMONTHDAY=29,30,31;RSCALE=GREGORIAN;SKIP=BACKWARD;COUNT=4",
			"2027-02-28(2027-02-29) 2027-03-29 2027-03-30 2027-03-31",
		},
		"a day that is named itself was not moved": {
			"2027-02-01", "FREQ=MONTHLY;BYMONTHDAY=28,30;RSCALE=GREGORIAN;SKIP=BACKWARD;COUNT=3",
			"2027-02-28 2027-03-28 2027-03-30",
		},
		"a day moved into the next month merges with one there": {
			"2027-02-01", "FREQ=MONTHLY;BYMONTHDAY=1,31;RSCALE=GREGORIAN;SKIP=FORWARD;COUNT=5",
			"2027-02-01 2027-03-01 2027-03-31 2027-04-01 2027-05-01",
		},
		"and within a year": {
			"2027-02-01", "FREQ=YEARLY;BYMONTH=2,3;BYMONTHDAY=1,31;RSCALE=GREGORIAN;SKIP=FORWARD;COUNT=4",
			"2027-02-01 2027-03-01 2027-03-31 2028-02-01",
		},
		"a day moved into a month that the interval leaves out": {
			"2027-02-01", "FREQ=MONTHLY;INTERVAL=2;BYMONTHDAY=1,31;RSCALE=GREGORIAN;SKIP=FORWARD;COUNT=4",
			"2027-02-01 2027-03-01(2027-02-31) 2027-04-01 2027-05-01(2027-04-31)",
		},
		"a day moved into a month that BYMONTH leaves out": {
			"2027-01-01", "FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=31;RSCALE=GREGORIAN;SKIP=FORWARD;COUNT=2",
			"2027-05-01(2027-04-31) 2028-05-01(2028-04-31)",
		},
		"a month that BYMONTH leaves out has no day to move": {
			"2027-01-31", "FREQ=MONTHLY;BYMONTH=1,4;RSCALE=GREGORIAN;SKIP=BACKWARD;COUNT=3",
			"2027-01-31 2027-04-30(2027-04-31) 2028-01-31",
		},
		"BYDAY judges the day after the move": { // 28 February 2027 is a Sunday, 30 April a Friday
			"2027-01-01", "FREQ=MONTHLY;BYMONTHDAY=31;BYDAY=FR;RSCALE=GREGORIAN;SKIP=BACKWARD;COUNT=2",
			"2027-04-30(2027-04-31) 2027-12-31",
		},
		"BYSETPOS counts days after the move": {
			"2027-02-01", "FREQ=MONTHLY;BYMONTHDAY=28,29,30;BYSETPOS=2;RSCALE=GREGORIAN;SKIP=FORWARD;COUNT=3",
			"2027-03-01(2027-02-29) 2027-03-29 2027-04-29",
		},
		"positions of two months on one day are those of both": {
			"2027-02-01", "FREQ=MONTHLY;BYMONTHDAY=1,31;BYHOUR=9,17;BYSETPOS=1,-1;RSCALE=GREGORIAN;SKIP=FORWARD;COUNT=5",
			"2027-02-01T09 2027-03-01T09 2027-03-01T17 2027-03-31T17 2027-04-01T09",
		},
		"days counted from the end are there or are not": {
			"2027-01-01", "FREQ=MONTHLY;BYMONTHDAY=-31;RSCALE=GREGORIAN;SKIP=BACKWARD;COUNT=3",
			"2027-01-01 2027-03-01 2027-05-01",
		},
		"a day of the year is there or is not": {
			"2027-01-01", "FREQ=YEARLY;BYYEARDAY=366;RSCALE=GREGORIAN;SKIP=BACKWARD;COUNT=2", "2028-12-31 2032-12-31",
		},
		"a day of the month among days of the year is there or is not": {
			"2027-01-01", "FREQ=YEARLY;BYYEARDAY=60;BYMONTHDAY=29;RSCALE=GREGORIAN;SKIP=BACKWARD;COUNT=2", "2028-02-29 2032-02-29",
		},
		"a day of the month within numbered weeks is there or is not": {
			"2027-01-01", "FREQ=YEARLY;BYWEEKNO=8,9;BYMONTHDAY=29;RSCALE=GREGORIAN;SKIP=BACKWARD;COUNT=2", "2028-02-29 2032-02-29",
		},
		"a daily rule has no days to move": {
			"2027-02-01", "FREQ=DAILY;BYMONTHDAY=30;RSCALE=GREGORIAN;SKIP=FORWARD;COUNT=2", "2027-03-30 2027-04-30",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			rule, start := parse(t, tt.rule), wall(t, tt.start)
			want, more := strings.CutSuffix(tt.want, " ...")
			got := firstSlots(rule, start, strings.Count(want, " ")+2)
			if more {
				got = got[:len(got)-1]
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s from %s recurs at\n%s, want\n%s", tt.rule, tt.start, text, want)
			}
		})
	}
}

// The first of a month can stand in for days of the month before, also when that
// month is no longer ahead.
func TestNextAfterTheMonthOfAMovedDay(t *testing.T) {
	t.Parallel()

	rule, start := parse(t, "FREQ=MONTHLY;RSCALE=GREGORIAN;SKIP=FORWARD"), wall(t, "2027-01-31 09:00")
	tests := map[string]struct{ after, want string }{
		"in the month that lacks it":   {"2027-02-10 00:00", "2027-03-01T09(2027-02-31)"},
		"on the day, before its time":  {"2027-03-01 08:00", "2027-03-01T09(2027-02-31)"},
		"on the day, at its time":      {"2027-03-01 09:00", "2027-03-31T09"},
		"years later, before its time": {"2097-03-01 08:00", "2097-03-01T09(2097-02-31)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, ok := next(rule, start, wall(t, tt.after))
			if !ok || written(got) != tt.want {
				t.Errorf("after %s comes %s, want %s", tt.after, written(got), tt.want)
			}
		})
	}
}

func written(r reading) string {
	text := strings.TrimSuffix(r.at.Format("2006-01-02T15"), "T00")
	if r.named != "" {
		text += "(" + r.named + ")"
	}
	return text
}
