package rrule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/rrule"
)

// The published examples of RFC 5545 section 3.8.5.3, in its order. The wanted readings are
// written as in the RFC. A series with more readings ends in "...".
func TestExamplesOfRFC5545(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ start, rule, want string }{
		"daily for 10 occurrences": {
			"1997-09-02 09:00", "FREQ=DAILY;COUNT=10", "1997-09: 2-11",
		},
		"daily until December 24, 1997": {
			"1997-09-02 09:00", "FREQ=DAILY;UNTIL=19971224T000000Z", "1997-09: 2-30; 10: 1-31; 11: 1-30; 12: 1-23",
		},
		"every other day": {
			"1997-09-02 09:00", "FREQ=DAILY;INTERVAL=2",
			"1997-09: 2,4,6,8,10,12,14,16,18,20,22,24,26,28,30; 10: 2,4,6,8,10,12,14,16,18,20,22,24,26,28,30;" +
				"11: 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29; 12: 1,3; ...",
		},
		"every 10 days, 5 occurrences": {
			"1997-09-02 09:00", "FREQ=DAILY;INTERVAL=10;COUNT=5", "1997-09: 2,12,22; 10: 2,12",
		},
		"every day in January, for 3 years, yearly": {
			"1998-01-01 09:00", "FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA",
			"1998-01: 1-31; 1999-01: 1-31; 2000-01: 1-31",
		},
		"every day in January, for 3 years, daily": {
			"1998-01-01 09:00", "FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1",
			"1998-01: 1-31; 1999-01: 1-31; 2000-01: 1-31",
		},
		"weekly for 10 occurrences": {
			"1997-09-02 09:00", "FREQ=WEEKLY;COUNT=10", "1997-09: 2,9,16,23,30; 10: 7,14,21,28; 11: 4",
		},
		"weekly until December 24, 1997": {
			"1997-09-02 09:00", "FREQ=WEEKLY;UNTIL=19971224T000000Z",
			"1997-09: 2,9,16,23,30; 10: 7,14,21,28; 11: 4,11,18,25; 12: 2,9,16,23",
		},
		"every other week": {
			"1997-09-02 09:00", "FREQ=WEEKLY;INTERVAL=2;WKST=SU",
			"1997-09: 2,16,30; 10: 14,28; 11: 11,25; 12: 9,23; 1998-01: 6,20; 02: 3,17; ...",
		},
		"weekly on Tuesday and Thursday for five weeks, until": {
			"1997-09-02 09:00", "FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH",
			"1997-09: 2,4,9,11,16,18,23,25,30; 10: 2",
		},
		"weekly on Tuesday and Thursday for five weeks, counted": {
			"1997-09-02 09:00", "FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH",
			"1997-09: 2,4,9,11,16,18,23,25,30; 10: 2",
		},
		"every other week on Monday, Wednesday and Friday": {
			"1997-09-01 09:00", "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR",
			"1997-09: 1,3,5,15,17,19,29; 10: 1,3,13,15,17,27,29,31; 11: 10,12,14,24,26,28; 12: 8,10,12,22",
		},
		"every other week on Tuesday and Thursday, for 8 occurrences": {
			"1997-09-02 09:00", "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH",
			"1997-09: 2,4,16,18,30; 10: 2,14,16",
		},
		"monthly on the first Friday for 10 occurrences": {
			"1997-09-05 09:00", "FREQ=MONTHLY;COUNT=10;BYDAY=1FR",
			"1997-09: 5; 10: 3; 11: 7; 12: 5; 1998-01: 2; 02: 6; 03: 6; 04: 3; 05: 1; 06: 5",
		},
		"monthly on the first Friday until December 24, 1997": {
			"1997-09-05 09:00", "FREQ=MONTHLY;UNTIL=19971224T000000Z;BYDAY=1FR", "1997-09: 5; 10: 3; 11: 7; 12: 5",
		},
		"every other month on the first and last Sunday": {
			"1997-09-07 09:00", "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU",
			"1997-09: 7,28; 11: 2,30; 1998-01: 4,25; 03: 1,29; 05: 3,31",
		},
		"monthly on the second-to-last Monday for 6 months": {
			"1997-09-22 09:00", "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO",
			"1997-09: 22; 10: 20; 11: 17; 12: 22; 1998-01: 19; 02: 16",
		},
		"monthly on the third-to-the-last day": {
			"1997-09-28 09:00", "FREQ=MONTHLY;BYMONTHDAY=-3",
			"1997-09: 28; 10: 29; 11: 28; 12: 29; 1998-01: 29; 02: 26; ...",
		},
		"monthly on the 2nd and 15th for 10 occurrences": {
			"1997-09-02 09:00", "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15",
			"1997-09: 2,15; 10: 2,15; 11: 2,15; 12: 2,15; 1998-01: 2,15",
		},
		"monthly on the first and last day for 10 occurrences": {
			"1997-09-30 09:00", "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1",
			"1997-09: 30; 10: 1,31; 11: 1,30; 12: 1,31; 1998-01: 1,31; 02: 1",
		},
		"every 18 months on the 10th thru 15th for 10 occurrences": {
			"1997-09-10 09:00", "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
			"1997-09: 10-15; 1999-03: 10-13",
		},
		"every Tuesday, every other month": {
			"1997-09-02 09:00", "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU",
			"1997-09: 2,9,16,23,30; 11: 4,11,18,25; 1998-01: 6,13,20,27; 03: 3,10,17,24,31; ...",
		},
		"yearly in June and July for 10 occurrences": {
			"1997-06-10 09:00", "FREQ=YEARLY;COUNT=10;BYMONTH=6,7",
			"1997-06: 10; 07: 10; 1998-06: 10; 07: 10; 1999-06: 10; 07: 10; 2000-06: 10; 07: 10; 2001-06: 10; 07: 10",
		},
		"every other year in January, February and March for 10 occurrences": {
			"1997-03-10 09:00", "FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3",
			"1997-03: 10; 1999-01: 10; 02: 10; 03: 10; 2001-01: 10; 02: 10; 03: 10; 2003-01: 10; 02: 10; 03: 10",
		},
		"every third year on the 1st, 100th and 200th day for 10 occurrences": {
			"1997-01-01 09:00", "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
			"1997-01: 1; 04: 10; 07: 19; 2000-01: 1; 04: 9; 07: 18; 2003-01: 1; 04: 10; 07: 19; 2006-01: 1",
		},
		"every 20th Monday of the year": {
			"1997-05-19 09:00", "FREQ=YEARLY;BYDAY=20MO", "1997-05: 19; 1998-05: 18; 1999-05: 17; ...",
		},
		"Monday of week number 20": {
			"1997-05-12 09:00", "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997-05: 12; 1998-05: 11; 1999-05: 17; ...",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			wantDays(t, tt.rule, tt.start, tt.want)
		})
	}
}

func TestMoreExamplesOfRFC5545(t *testing.T) {
	t.Parallel()

	byTwenty := "09:00,09:20,09:40,10:00,10:20,10:40,11:00,11:20,11:40,12:00,12:20,12:40," +
		"13:00,13:20,13:40,14:00,14:20,14:40,15:00,15:20,15:40,16:00,16:20,16:40"
	tests := map[string]struct{ start, rule, want string }{
		"every Thursday in March": {
			"1997-03-13 09:00", "FREQ=YEARLY;BYMONTH=3;BYDAY=TH",
			"1997-03: 13,20,27; 1998-03: 5,12,19,26; 1999-03: 4,11,18,25; ...",
		},
		"every Thursday, but only during June, July and August": {
			"1997-06-05 09:00", "FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8",
			"1997-06: 5,12,19,26; 07: 3,10,17,24,31; 08: 7,14,21,28; 1998-06: 4,11,18,25; 07: 2,9,16,23,30;" +
				"08: 6,13,20,27; 1999-06: 3,10,17,24; 07: 1,8,15,22,29; 08: 5,12,19,26; ...",
		},
		"every Friday the 13th, without the start, which the RFC excludes": {
			"1997-09-02 09:00", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
			"1998-02: 13; 03: 13; 11: 13; 1999-08: 13; 2000-10: 13; ...",
		},
		"the first Saturday that follows the first Sunday of the month": {
			"1997-09-13 09:00", "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
			"1997-09: 13; 10: 11; 11: 8; 12: 13; 1998-01: 10; 02: 7; 03: 7; 04: 11; 05: 9; 06: 13; ...",
		},
		"U.S. Presidential Election day": {
			"1996-11-05 09:00", "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
			"1996-11: 5; 2000-11: 7; 2004-11: 2; ...",
		},
		"the third Tuesday, Wednesday or Thursday of the month": {
			"1997-09-04 09:00", "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "1997-09: 4; 10: 7; 11: 6",
		},
		"the second-to-last weekday of the month": {
			"1997-09-29 09:00", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
			"1997-09: 29; 10: 30; 11: 27; 12: 30; 1998-01: 29; 02: 26; 03: 30; ...",
		},
		// The RFC gives the end as 170000Z, which is 13:00 local time, but lists 15:00.
		"every 3 hours from 9:00 AM to 5:00 PM": {
			"1997-09-02 09:00", "FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T170000", "1997-09-02 09:00,12:00,15:00",
		},
		"every 15 minutes for 6 occurrences": {
			"1997-09-02 09:00", "FREQ=MINUTELY;INTERVAL=15;COUNT=6", "1997-09-02 09:00,09:15,09:30,09:45,10:00,10:15",
		},
		"every hour and a half for 4 occurrences": {
			"1997-09-02 09:00", "FREQ=MINUTELY;INTERVAL=90;COUNT=4", "1997-09-02 09:00,10:30,12:00,13:30",
		},
		"every 20 minutes from 9:00 AM to 4:40 PM, daily": {
			"1997-09-02 09:00", "FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40",
			"1997-09-02 " + byTwenty + "; 1997-09-03 " + byTwenty + "; ...",
		},
		"every 20 minutes from 9:00 AM to 4:40 PM, minutely": {
			"1997-09-02 09:00", "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12,13,14,15,16",
			"1997-09-02 " + byTwenty + "; 1997-09-03 " + byTwenty + "; ...",
		},
		"weeks that begin on Monday": {
			"1997-08-05 09:00", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "1997-08: 5,10,19,24",
		},
		"weeks that begin on Sunday": {
			"1997-08-05 09:00", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "1997-08: 5,17,19,31",
		},
		"a date that does not exist": {
			"2007-01-15 09:00", "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", "2007-01: 15,30; 02: 15; 03: 15,30",
		},
		// Of section 3.3.10.
		"every Sunday in January at two times, every other year": {
			"1997-01-05 08:30", "FREQ=YEARLY;INTERVAL=2;BYMONTH=1;BYDAY=SU;BYHOUR=8,9;BYMINUTE=30",
			"1997-01-05 08:30,09:30; 1997-01-12 08:30,09:30; 1997-01-19 08:30,09:30; 1997-01-26 08:30,09:30;" +
				"1999-01-03 08:30,09:30; ...",
		},
		"every other day for 10 occurrences": {
			"1997-01-05 08:30", "FREQ=DAILY;COUNT=10;INTERVAL=2", "1997-01: 5,7,9,11,13,15,17,19,21,23",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			wantDays(t, tt.rule, tt.start, tt.want)
		})
	}
}

// wantDays compares a series with readings in the manner of the RFC: days of months
// at the start's time of day ("1997-09: 2,4,7-9; 10: 1"), or times of a day
// ("1997-09-02 09:00,12:00"). After "..." more may follow, otherwise none. The end of
// a rule in UTC is taken for one in New York, which the caller's part is.
func wantDays(t *testing.T, text, start, want string) {
	t.Helper()
	rule, begin := parse(t, text), wall(t, start)
	wanted, more := readings(t, begin, want)
	var got []time.Time
	for at := begin.Add(-time.Second); ; at = got[len(got)-1] {
		slot, ok := rule.Next(begin, at)
		if end, utc, _ := rule.Until(); ok && utc && slot.Wall.Add(5*time.Hour).After(end) {
			break
		}
		if !ok || more && len(got) == len(wanted) {
			break
		}
		got = append(got, slot.Wall)
		if len(got) > len(wanted) {
			break
		}
	}
	if !slices.Equal(got, wanted) {
		t.Errorf("%s from %s recurs at\n%v, want\n%v", text, start, got, wanted)
	}
}

func readings(t *testing.T, begin time.Time, text string) (wanted []time.Time, more bool) {
	t.Helper()
	year, month := 0, 0
	text, more = strings.CutSuffix(text, "...")
	for group := range strings.SplitSeq(text, ";") {
		if group = strings.TrimSpace(group); group == "" {
			continue
		}
		if date, times, ok := strings.Cut(group, " "); ok && len(date) == len(time.DateOnly) {
			for at := range strings.SplitSeq(times, ",") {
				wanted = append(wanted, wall(t, date+" "+at))
			}
			continue
		}
		name, days, _ := strings.Cut(group, ": ")
		if n, _ := fmt.Sscanf(name, "%d-%d", &year, &month); n == 1 {
			year, month = wanted[len(wanted)-1].Year(), year // there was no year, only a month
		}
		for days := range strings.SplitSeq(days, ",") {
			var from, to int
			if n, _ := fmt.Sscanf(days, "%d-%d", &from, &to); n == 1 {
				to = from
			}
			for ; from <= to; from++ {
				wanted = append(wanted, time.Date(year, time.Month(month), from, begin.Hour(), begin.Minute(), begin.Second(), 0, time.UTC))
			}
		}
	}
	return wanted, more
}

func parse(t testing.TB, text string) rrule.Rule {
	t.Helper()
	rule, err := rrule.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return rule
}

func wall(t testing.TB, text string) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02 15:04", time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	t.Fatalf("%q is no reading", text)
	return time.Time{}
}
