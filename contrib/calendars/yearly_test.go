package calendars_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// slots lists the dates of the slots after a date, to the end of a year.
func slots(t testing.TB, r calendar.Recurrence, after string, untilYear int) string {
	t.Helper()
	date, err := calendar.ParseDate(after)
	if err != nil {
		t.Fatal(err)
	}
	var dates []string
	for w := (calendar.WallTime{Date: date, Clock: calendar.Clock{Hour: 12}}); ; {
		slot, err := r.After(w, calendar.Policies{})
		if err != nil {
			t.Fatal(err)
		}
		if slot.Wall.Date.Year > untilYear {
			return strings.Join(dates, " ")
		}
		dates, w = append(dates, slot.Wall.Date.String()), slot.Wall
	}
}

// on is a rule for a day, such as 05L-08, at 09:00.
func on(s calendar.System, month int, leap bool, day int) calendar.YearlyBy {
	return calendar.YearlyBy{System: s, Month: month, Leap: leap, Day: day, At: calendar.Clock{Hour: 9}}
}

const leap = true

func TestBirthdaysInYearsThatLackTheDay(t *testing.T) {
	t.Parallel()
	both := func(p calendar.MissingPolicy) calendar.Missing { return calendar.Missing{Month: p, Day: p} }
	const skip, backward, forward = calendar.MissingSkip, calendar.MissingBackward, calendar.MissingForward
	tests := []struct {
		name    string
		rule    calendar.YearlyBy
		missing calendar.Missing
		after   string
		until   int
		want    string
	}{
		{"8 Adar I", on(calendars.Hebrew(), 5, leap, 8), both(skip), "2014-02-08", 2016, "2016-02-17"},
		{"8 Adar I", on(calendars.Hebrew(), 5, leap, 8), both(backward), "2014-02-08", 2015, "2015-01-28"},
		{"8 Adar I", on(calendars.Hebrew(), 5, leap, 8), both(forward), "2014-02-08", 2017, "2015-02-27 2016-02-17 2017-03-06"},
		{"8 Adar I, by custom", on(calendars.Hebrew(), 5, leap, 8), both(""), "2014-02-08", 2017, "2015-02-27 2016-02-17 2017-03-06"},
		{"30 Adar I", on(calendars.Hebrew(), 5, leap, 30), both(skip), "2014-03-02", 2016, "2016-03-10"},
		{"30 Adar I", on(calendars.Hebrew(), 5, leap, 30), both(backward), "2014-03-02", 2015, "2015-02-19"},
		{"30 Adar I", on(calendars.Hebrew(), 5, leap, 30), both(forward), "2014-03-02", 2015, "2015-03-21"},
		{"30 Adar I, by custom", on(calendars.Hebrew(), 5, leap, 30), both(""), "2014-03-02", 2015, "2015-03-21"},
		{"30 Adar I, one of each", on(calendars.Hebrew(), 5, leap, 30), calendar.Missing{Month: forward, Day: backward}, "2014-03-02", 2015, "2015-03-20"},
		{"10th of leap month 6", on(calendars.Chinese(), 6, leap, 10), both(skip), "2025-08-03", 2036, "2036-08-01"},
		{"10th of leap month 6", on(calendars.Chinese(), 6, leap, 10), both(backward), "2025-08-03", 2026, "2026-07-23"},
		{"10th of leap month 6", on(calendars.Chinese(), 6, leap, 10), both(forward), "2025-08-03", 2026, "2026-08-22"},
		{"10th of leap month 6, by custom", on(calendars.Chinese(), 6, leap, 10), both(""), "2025-08-03", 2026, "2026-07-23"},
		{"30th of month 8", on(calendars.Chinese(), 8, false, 30), both(skip), "2024-10-02", 2029, "2029-10-07"},
		{"30th of month 8", on(calendars.Chinese(), 8, false, 30), both(backward), "2024-10-02", 2025, "2025-10-20"},
		{"30th of month 8", on(calendars.Chinese(), 8, false, 30), both(forward), "2024-10-02", 2025, "2025-10-21"},
		{"30th of month 8, by custom", on(calendars.Chinese(), 8, false, 30), both(""), "2024-10-02", 2025, "2025-10-20"},
		{"30 Esfand, by custom", on(calendars.Persian(), 12, false, 30), both(""), "2025-03-20", 2029, "2026-03-20 2027-03-20 2028-03-19 2029-03-19"},
		{"6 Pagumen, by custom", on(calendars.Ethiopic(), 13, false, 6), both(""), "2023-09-11", 2027, "2024-09-10 2025-09-10 2026-09-10 2027-09-11"},
		{"6 Pagumen", on(calendars.Ethiopic(), 13, false, 6), both(forward), "2023-09-11", 2027, "2024-09-11 2025-09-11 2026-09-11 2027-09-11"},
	}
	for _, tt := range tests {
		tt.rule.Missing = tt.missing
		if got := slots(t, tt.rule, tt.after, tt.until); got != tt.want {
			t.Errorf("%s, %+v: %s, want %s", tt.name, tt.missing, got, tt.want)
		}
	}
}

// The examples of libical, as rules of RFC 7529.
func TestRulesOfRFC7529(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, start, want string }{
		{"RSCALE=HEBREW;FREQ=YEARLY;BYMONTH=5L;BYMONTHDAY=8;SKIP=FORWARD", "2014-02-08", "5775-05L-08 2015-02-27, 5776-05L-08 2016-02-17, 5777-05L-08 2017-03-06"},
		{"RSCALE=HEBREW;FREQ=YEARLY;BYMONTH=5L;BYMONTHDAY=30;SKIP=BACKWARD", "2014-03-02", "5775-05L-30 2015-02-19, 5776-05L-30 2016-03-10"},
		{"RSCALE=HEBREW;FREQ=YEARLY;SKIP=FORWARD", "2014-03-02", "5775-05L-30 2015-03-21"},
		{"RSCALE=CHINESE;FREQ=YEARLY", "2013-02-10", "2014-01-01 2014-01-31, 2015-01-01 2015-02-19, 2016-01-01 2016-02-08"},
		{"RSCALE=CHINESE;FREQ=YEARLY;BYMONTH=6L;BYMONTHDAY=10;SKIP=FORWARD", "2025-08-03", "2026-06L-10 2026-08-22"},
		{"RSCALE=CHINESE;FREQ=YEARLY", "2025-08-03", "2036-06L-10 2036-08-01"},
		{"RSCALE=ETHIOPIC;FREQ=MONTHLY;BYMONTH=13", "2013-09-10", "2006-13-05 2014-09-10, 2007-13-05 2015-09-10, 2008-13-05 2016-09-10"},
		{"RSCALE=ISLAMIC-UMALQURA;FREQ=YEARLY;BYMONTH=9;BYMONTHDAY=1", "2026-02-18", "1448-09-01 2027-02-08"},
		{"RSCALE=PERSIAN;FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=-1", "2025-03-20", "1404-12-29 2026-03-20"},
		{"RSCALE=DANGI;FREQ=YEARLY", "2026-02-17", "2027-01-01 2027-02-07"},
		{"RSCALE=ISLAMIC-UMALQURA;FREQ=WEEKLY;BYMONTH=9;BYDAY=FR", "2026-03-19", "1448-09-05 2027-02-12, 1448-09-12 2027-02-19"},
		{"RSCALE=HEBREW;FREQ=YEARLY;BYYEARDAY=1,-1", "2026-09-12", "5787-12-29 2027-10-01, 5788-01-01 2027-10-02"}, // 385 days
		{"RSCALE=CHINESE;FREQ=YEARLY;BYMONTH=1,1L;BYDAY=1MO", "2026-02-18", "2026-01-07 2026-02-23, 2027-01-03 2027-02-08"},
	} {
		rule, err := calendar.ParseRRule(tt.text, wall(t, tt.start+"T09:00:00"), calendars.All()...)
		if err != nil {
			t.Fatal(err)
		}
		w := wall(t, tt.start+"T12:00:00")
		for want := range strings.SplitSeq(tt.want, ", ") {
			slot, err := rule.After(w, calendar.Policies{})
			if got := slot.Key + " " + slot.Wall.Date.String(); err != nil || got != want {
				t.Errorf("%s from %s: %s, %v; want %s", tt.text, tt.start, got, err, want)
			}
			w = slot.Wall
		}
	}
}

// In zones in the east, clocks show the year 10000 at the end.
func TestRulesEndBeforeTheYear10000(t *testing.T) {
	t.Parallel()
	for name, s := range all(t) {
		_, err := on(s, 1, false, 1).After(calendar.WallTime{Date: calendar.Date{Year: 10_000, Month: time.January, Day: 1}}, calendar.Policies{})
		if !errors.Is(err, calendar.ErrNoOccurrence) {
			t.Errorf("%s: %v; want ErrNoOccurrence", name, err)
		}
	}
}

// Years of two calendars do not match: a Gregorian year can have two slots, or none.
func TestBirthdaysTwiceInAGregorianYear(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		rule  calendar.YearlyBy
		after string
		until int
		want  string
	}{
		{"1 Muharram", on(calendars.UmmAlQura(), 1, false, 1), "2040-01-31", 2041, "2041-01-04 2041-12-25"},
		{"10 Tevet", on(calendars.Hebrew(), 4, false, 10), "2018-06-01", 2020, "2018-12-18 2020-01-07 2020-12-25"},
		{"11 Dey", on(calendars.Persian(), 10, false, 11), "2023-06-01", 2032, "2024-01-01 2024-12-31 2026-01-01 2027-01-01 2028-01-01 2028-12-31 2029-12-31 2031-01-01 2032-01-01 2032-12-31"},
		{"8th of month 12", on(calendars.Chinese(), 12, false, 8), "2021-06-01", 2024, "2022-01-10 2022-12-30 2024-01-18"},
	}
	for _, tt := range tests {
		if got := slots(t, tt.rule, tt.after, tt.until); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// counting counts how often the months of a year are asked for.
type counting struct {
	calendar.System
	months *int
}

func (c counting) Months(year int) ([]calendar.SystemMonth, error) {
	*c.months++
	return c.System.Months(year)
}

// The only leap month 11 is in 2033. The years before need not all be looked at.
func TestARareLeapMonthIsFoundNearby(t *testing.T) {
	t.Parallel()
	looked := 0
	rule := on(counting{calendars.Chinese(), &looked}, 11, leap, 5)
	slot, err := rule.After(wall(t, "2026-11-28T12:00:00"), calendar.Policies{})
	if err != nil || slot.DayReason != "5 Leap Eleventh Month moved to 5 Eleventh Month" || looked > 25 {
		t.Errorf("%+v, %v; %d years were looked at", slot, err, looked)
	}
}

func TestYahrzeits(t *testing.T) {
	t.Parallel()
	const backward, forward = calendar.MissingBackward, calendar.MissingForward
	tests := []struct {
		name   string
		of     calendar.SystemDate
		after  string
		until  int
		want   string
		reason string // of the first
		month  calendar.MissingPolicy
		day    calendar.MissingPolicy
	}{
		{"30 Kislev, then long", calendar.SystemDate{Year: 5788, Month: 3, Day: 30}, "2029-01-01", 2029, "2029-12-07", "30 Kislev moved to 1 Tevet", backward, forward},
		{"30 Kislev, then short", calendar.SystemDate{Year: 5789, Month: 3, Day: 30}, "2029-01-01", 2029, "2029-12-06", "30 Kislev moved to 29 Kislev", backward, backward},
		{"10 Adar of a common year", calendar.SystemDate{Year: 5785, Month: 6, Day: 10}, "2026-06-01", 2027, "2027-02-17", "10 Adar moved to 10 Adar I", forward, backward},
		{"8 Adar I", calendar.SystemDate{Year: 5774, Month: 5, Leap: true, Day: 8}, "2014-02-08", 2017, "2015-02-27 2016-02-17 2017-03-06", "8 Adar I moved to 8 Adar", forward, backward},
		{"30 Adar I", calendar.SystemDate{Year: 5774, Month: 5, Leap: true, Day: 30}, "2014-03-02", 2016, "2015-02-19 2016-03-10", "30 Adar I moved to 30 Shevat", backward, backward},
		{"8 Adar II", calendar.SystemDate{Year: 5774, Month: 6, Day: 8}, "2014-03-10", 2016, "2015-02-27 2016-03-18", "8 Adar II moved to 8 Adar", backward, backward},
		{"an ordinary day", calendar.SystemDate{Year: 5785, Month: 9, Day: 3}, "2025-05-30", 2026, "2026-05-19", "", backward, backward},
	}
	for _, tt := range tests {
		rule := calendar.Yahrzeit{System: calendars.Hebrew(), Of: tt.of, At: calendar.Clock{Hour: 9}}
		if got := slots(t, rule, tt.after, tt.until); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		date, err := calendar.ParseDate(tt.after)
		if err != nil {
			t.Fatal(err)
		}
		slot, err := rule.After(calendar.WallTime{Date: date, Clock: calendar.Clock{Hour: 12}}, calendar.Policies{Missing: calendar.Missing{Month: calendar.MissingSkip, Day: calendar.MissingSkip}})
		if err != nil || slot.DayReason != tt.reason || slot.Unit != "year:hebrew" {
			t.Errorf("%s: %+v, %v; want the reason %q", tt.name, slot, err, tt.reason)
		}
		if want := (calendar.Missing{Month: tt.month, Day: tt.day}); slot.Missing != want {
			t.Errorf("%s: %v, want %v", tt.name, slot.Missing, want)
		}
	}
}

// yahrzeit is the rule of Calendrical Calculations, in its own words: months are counted from their
// first days, so a 30th that is missing is the first day of the next month.
func yahrzeit(t *rapid.T, of calendar.SystemDate, year int) calendar.Date {
	s := calendars.Hebrew()
	first := func(year, month int, leap bool) calendar.Date {
		date, err := s.Date(calendar.SystemDate{Year: year, Month: month, Leap: leap, Day: 1})
		if err != nil {
			t.Fatal(err)
		}
		return date
	}
	has := func(year, month, day int, leap bool) bool {
		_, err := s.Date(calendar.SystemDate{Year: year, Month: month, Leap: leap, Day: day})
		return err == nil
	}
	leapYear := func(year int) bool { return has(year, 5, 1, leap) }
	switch {
	case of.Month == 2 && of.Day == 30 && !has(of.Year+1, 2, 30, false):
		return dateAfter(first(year, 3, false), -1)
	case of.Month == 3 && of.Day == 30 && !has(of.Year+1, 3, 30, false):
		return dateAfter(first(year, 4, false), -1)
	case of.Month == 6 && leapYear(of.Year): // Adar II is in the last Adar of the year
		return dateAfter(first(year, 6, false), of.Day-1)
	case of.Leap && of.Day == 30 && !leapYear(year):
		return dateAfter(first(year, 5, false), 29) // 30 Shevat
	case of.Leap || of.Month == 6: // the first Adar of the year
		if leapYear(year) {
			return dateAfter(first(year, 5, leap), of.Day-1)
		}
		return dateAfter(first(year, 6, false), of.Day-1)
	}
	return dateAfter(first(year, of.Month, false), of.Day-1)
}

// A yahrzeit is once in each year after the death, on the day of the published rule.
func TestOneYahrzeitInEachYear(t *testing.T) {
	t.Parallel()
	s := calendars.Hebrew()
	rapid.Check(t, func(t *rapid.T) {
		of, err := s.Day(dateAfter(calendar.Date{Year: 1901, Month: time.January, Day: 1}, rapid.IntRange(0, 150*365).Draw(t, "died")))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "a day that some years lack") {
			of = lacking(t, s, of.Year)
		}
		rule := calendar.Yahrzeit{System: s, Of: of, At: calendar.Clock{Hour: 20}}
		w := calendar.WallTime{}
		for year := of.Year + 1; year < of.Year+40; year++ {
			slot, err := rule.After(w, calendar.Policies{})
			if want := yahrzeit(t, of, year); err != nil || slot.Wall.Date != want || slot.Key != (calendar.SystemDate{Year: year}).String()[:4] {
				t.Fatalf("%+v after %s: %+v, %v; want %s in %d", rule, w, slot, err, want, year)
			}
			w = slot.Wall
		}
	})
}

func TestYahrzeitsRefuseWhatIsNoDeath(t *testing.T) {
	t.Parallel()
	of, at := calendar.SystemDate{Year: 5785, Month: 6, Day: 10}, calendar.Clock{Hour: 9}
	for want, rule := range map[string]calendar.Yahrzeit{
		"a yahrzeit is by the Hebrew calendar": {Of: of, At: at},
		"is by the Hebrew calendar":            {System: calendars.UmmAlQura(), Of: of, At: at},
		"has no day 5785-05L-10":               {System: calendars.Hebrew(), Of: calendar.SystemDate{Year: 5785, Month: 5, Leap: true, Day: 10}, At: at},
		"has no year 0":                        {System: calendars.Hebrew(), Of: calendar.SystemDate{Month: 6, Day: 10}, At: at},
		"no clock shows 25:00:00":              {System: calendars.Hebrew(), Of: of, At: calendar.Clock{Hour: 25}},
	} {
		_, err := rule.After(calendar.WallTime{}, calendar.Policies{})
		if !errors.Is(err, calendar.ErrInvalidRecurrence) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", rule, err, want)
		}
	}
	last := calendar.Yahrzeit{System: calendars.Hebrew(), Of: calendar.SystemDate{Year: 9999, Month: 1, Day: 1}}
	long := calendar.Yahrzeit{System: calendars.Hebrew(), Of: calendar.SystemDate{Year: 9999, Month: 2, Day: 30}}
	if months, err := long.System.Months(9999); err != nil || months[1].Days < 30 {
		long.Of.Month = 1
	}
	for _, rule := range []calendar.Yahrzeit{last, long} {
		if _, err := rule.After(calendar.WallTime{}, calendar.Policies{}); !errors.Is(err, calendar.ErrNoOccurrence) || !errors.Is(err, calendar.ErrOutOfRange) {
			t.Errorf("%+v: %v; want ErrNoOccurrence", rule, err)
		}
	}
}
