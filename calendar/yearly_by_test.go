package calendar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

var lunar = calendartest.Lunar{}

// yearlyOn is a rule for the lunar day of a date.
func yearlyOn(t testing.TB, w calendar.WallTime) calendar.YearlyBy {
	t.Helper()
	day, err := lunar.Day(w.Date)
	if err != nil {
		t.Fatal(err)
	}
	return calendar.YearlyBy{System: lunar, Month: day.Month, Leap: day.Leap, Day: day.Day, At: w.Clock}
}

// daysOf lists the days of a lunar year and of the month after it, day by day.
func daysOf(t *rapid.T, year int) (dates []calendar.Date, days []calendar.SystemDate) {
	begin, err := lunar.Date(calendar.SystemDate{Year: year, Month: 1, Day: 1})
	if err != nil {
		t.Fatal(err)
	}
	for at := (calendar.WallTime{Date: begin}).Labelled(); ; at = at.AddDate(0, 0, 1) {
		date := calendar.DateOf(at)
		day, err := lunar.Day(date)
		if err != nil || day.Year > year && (day.Month > 1 || day.Leap) {
			return dates, days
		}
		dates, days = append(dates, date), append(days, day)
	}
}

// expected finds the slot of a year by looking at each of its days, in the words of the policies.
func expected(t *rapid.T, y calendar.YearlyBy, year int) (calendar.Date, bool) {
	dates, days := daysOf(t, year)
	first, last := -1, -1 // of the month
	look := func(in func(calendar.SystemDate) bool) {
		first, last = -1, -1
		for i, d := range days {
			if in(d) {
				if first < 0 {
					first = i
				}
				last = i
			}
		}
	}
	look(func(d calendar.SystemDate) bool { return d.Year == year && d.Month == y.Month && d.Leap == y.Leap })
	if first < 0 && y.Missing.Month == calendar.MissingSkip {
		return calendar.Date{}, false
	}
	if first < 0 {
		look(func(d calendar.SystemDate) bool { return d.Year == year && d.Month == y.Month })
		if y.Missing.Month != calendar.MissingBackward { // forward is the custom of this calendar
			if last+1 == len(days) {
				return calendar.Date{}, false // past the end of the calendar
			}
			next := days[last+1]
			look(func(d calendar.SystemDate) bool {
				return d.Year == next.Year && d.Month == next.Month && d.Leap == next.Leap
			})
		}
	}
	at := first + y.Day - 1
	switch {
	case at <= last:
		return dates[at], true
	case y.Missing.Day == calendar.MissingSkip:
		return calendar.Date{}, false
	case y.Missing.Day == calendar.MissingBackward:
		return dates[last], true
	case last+1 == len(dates):
		return calendar.Date{}, false // past the end of the calendar
	}
	return dates[last+1], true
}

func TestYearlyByHasOneSlotForEachYear(t *testing.T) {
	t.Parallel()

	info := lunar.Info()
	rapid.Check(t, func(t *rapid.T) {
		y := calendar.YearlyBy{System: lunar, At: calendar.Clock{Hour: rapid.IntRange(0, 23).Draw(t, "hour")}}
		y.Month, y.Leap = rapid.IntRange(1, 12).Draw(t, "month"), rapid.Bool().Draw(t, "leap")
		y.Day = rapid.SampledFrom([]int{1, 2, 15, 29, 29, 30, 30}).Draw(t, "day")
		if y.Day == 30 && !y.Leap && y.Month%2 == 0 && y.Month < 12 {
			y.Day = 29 // no year has the 30th
		}
		y.Missing = calendar.Missing{Month: calendartest.DrawMissing(t, "month"), Day: calendartest.DrawMissing(t, "day")}
		year := rapid.SampledFrom([]int{info.First, 1998, info.Last - 20}).Draw(t, "year")
		begin, err := lunar.Date(calendar.SystemDate{Year: year, Month: 1, Day: 1})
		if err != nil {
			t.Fatal(err)
		}
		y.From = begin
		w := calendar.WallTime{}
		for end := year + 20; year < end && year <= info.Last; year++ {
			date, ok := expected(t, y, year)
			if !ok {
				continue
			}
			got, err := y.After(w, calendar.Policies{LeapDay: calendar.LeapDaySkip, MonthEnd: calendar.MonthEndSkip})
			key := calendar.SystemDate{Year: year}.String()[:4]
			if err == nil && got.Key < key && w == (calendar.WallTime{}) {
				got, err = y.After(got.Wall, calendar.Policies{}) // that of the year before, moved here by a policy
			}
			want := calendar.WallTime{Date: date, Clock: y.At}
			if err != nil || got.Wall != want || got.Key != key || got.Unit != "year:lunar" {
				t.Fatalf("%+v after %s = %+v, %v; want %s of %d", y, w, got, err, want, year)
			}
			day, err := lunar.Day(date)
			if moved := day.Month != y.Month || day.Leap != y.Leap || day.Day != y.Day; err != nil || moved != (got.DayReason != "") {
				t.Fatalf("%+v: %+v is on %s, %v: the reason is wrong", y, got, day, err)
			}
			w = got.Wall
		}
	})
}

// Each wall time of the year is asked for the slot after it.
func TestYearlyByIsStrictlyAfter(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		y := calendar.YearlyBy{System: lunar, Month: 12, Day: 30, At: calendar.Clock{Hour: 9}}
		y.Leap = rapid.Bool().Draw(t, "leap")
		y.Missing.Month, y.Missing.Day = calendartest.DrawMissing(t, "month"), calendartest.DrawMissing(t, "day")
		day := rapid.IntRange(-400, 12000).Draw(t, "day")
		w := calendar.WallTimeOf(time.Date(1985, time.January, 1+day, rapid.IntRange(8, 10).Draw(t, "hour"), 0, 0, 0, time.UTC))
		slot, err := y.After(w, calendar.Policies{})
		if err != nil || !w.Before(slot.Wall) {
			t.Fatalf("%+v after %s = %+v, %v", y, w, slot, err)
		}
		gap := slot.Wall.Labelled().Sub(w.Labelled())
		for n := range time.Duration(20) {
			at := w.Labelled().Add(gap / 20 * n)
			if same, err := y.After(calendar.WallTimeOf(at), calendar.Policies{}); err != nil || same != slot {
				t.Fatalf("%+v after %s = %+v, %v; want %+v as after %s", y, at, same, err, slot, w)
			}
		}
	})
}

func TestYearlyByCountsItsYears(t *testing.T) {
	t.Parallel()

	y := yearlyOn(t, wall(t, "2001-05-05T09:00:00"))
	y.Every, y.From = 4, date(2001, time.May, 6) // the first is missed by a day
	w := calendar.WallTime{}
	var keys []string
	for range 3 {
		slot, err := y.After(w, calendar.Policies{})
		if err != nil {
			t.Fatal(err)
		}
		keys, w = append(keys, slot.Key), slot.Wall
	}
	begin, err := lunar.Day(y.From)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range 3 {
		want = append(want, calendar.SystemDate{Year: begin.Year + 4*(n+1)}.String()[:4])
	}
	if strings.Join(keys, " ") != strings.Join(want, " ") {
		t.Errorf("%+v has the keys %q, want %q", y, keys, want)
	}
}

func TestYearlyByEndsWithItsCalendar(t *testing.T) {
	t.Parallel()

	last, err := lunar.Date(calendar.SystemDate{Year: lunar.Info().Last, Month: 3, Day: 4})
	if err != nil {
		t.Fatal(err)
	}
	y := calendar.YearlyBy{System: lunar, Month: 3, Day: 4, At: calendar.Clock{Hour: 9}}
	slot, err := y.After(calendar.WallTime{Date: last}, calendar.Policies{})
	if err != nil || slot.Wall.Date != last {
		t.Fatalf("%+v, %v; want %s", slot, err, last)
	}
	beyond := calendar.WallTime{Date: calendar.Date{Year: 10_000, Month: time.January, Day: 1}} // as a zone in the east shows the last hours
	for _, w := range []calendar.WallTime{slot.Wall, wall(t, "9999-12-31T23:59:59"), beyond} {
		_, err = y.After(w, calendar.Policies{})
		if !errors.Is(err, calendar.ErrNoOccurrence) || !errors.Is(err, calendar.ErrOutOfRange) || !strings.Contains(err.Error(), "the calendar lunar ends with its year 2199") {
			t.Errorf("after %s: %v", w, err)
		}
	}
	y.Month, y.Day = 12, 30 // which the last year lacks
	if _, err = y.After(slot.Wall, calendar.Policies{}); !errors.Is(err, calendar.ErrNoOccurrence) || !errors.Is(err, calendar.ErrOutOfRange) {
		t.Errorf("moved past the last year: %v", err)
	}
	y.Month, y.Day = 3, 4
	n := 0
	for _, err := range calendar.Occurrences(y, zone(t, "UTC"), calendar.Policies{}, instant(t, "2190-01-01T00:00:00Z")) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n < 8 || n > 11 {
		t.Errorf("%d occurrences until the end", n)
	}
}

// A day that no year has would come each year by a policy.
func TestYearlyByRefusesWhatNoYearHas(t *testing.T) {
	t.Parallel()

	nine := calendar.Clock{Hour: 9}
	for want, y := range map[string]calendar.YearlyBy{
		"there is no calendar":                   {Month: 1, Day: 1, At: nine},
		"no year has a month 0 with a day 1":     {System: lunar, Day: 1, At: nine},
		"no year has a month 1 with a day 0":     {System: lunar, Month: 1, At: nine},
		"lunar has a month 13 with a day 1":      {System: lunar, Month: 13, Day: 1, At: nine},
		"lunar has a leap month 13 with a day 1": {System: lunar, Month: 13, Leap: true, Day: 1, At: nine, Missing: calendar.Missing{Month: calendar.MissingSkip}},
		"lunar has a month 2 with a day 30":      {System: lunar, Month: 2, Day: 30, At: nine, Missing: calendar.Missing{Day: calendar.MissingBackward}},
		"lunar has a month 1 with a day 31":      {System: lunar, Month: 1, Day: 31, At: nine, Missing: calendar.Missing{Day: calendar.MissingSkip}},
		"lunar has a leap month 1 with a day 31": {System: lunar, Month: 1, Leap: true, Day: 31, At: nine},
		"no clock shows 24:00:00":                {System: lunar, Month: 1, Day: 1, At: calendar.Clock{Hour: 24}},
		"every 2 needs a day to count from":      {System: lunar, Month: 1, Day: 1, At: nine, Every: 2},
		"years are not counted from 1700-01-19, before the calendar lunar begins on 1700-01-20": {System: lunar, Month: 1, Day: 1, At: nine, Every: 2, From: date(1700, time.January, 19)},
		`"sideways" is no policy for a missing month`:                                           {System: lunar, Month: 1, Day: 1, At: nine, Missing: calendar.Missing{Month: "sideways"}},
		`"clamp" is no policy for a missing day`:                                                {System: lunar, Month: 1, Day: 1, At: nine, Missing: calendar.Missing{Day: "clamp"}},
	} {
		_, err := y.After(calendar.WallTime{}, calendar.Policies{})
		if !errors.Is(err, calendar.ErrInvalidRecurrence) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", y, err, want)
		}
	}
}

// The rule has its own policies, or those given, or the custom of the calendar. The lunar calendar prefers forward.
func TestYearlyByTellsItsPolicies(t *testing.T) {
	t.Parallel()
	const skip, backward, forward = calendar.MissingSkip, calendar.MissingBackward, calendar.MissingForward
	for name, tt := range map[string]struct{ own, given, want calendar.Missing }{
		"its own": {calendar.Missing{Month: backward, Day: skip}, calendar.Missing{Month: skip, Day: backward}, calendar.Missing{Month: backward, Day: skip}},
		"given":   {calendar.Missing{Day: backward}, calendar.Missing{Month: skip, Day: skip}, calendar.Missing{Month: skip, Day: backward}},
		"custom":  {calendar.Missing{}, calendar.Missing{}, calendar.Missing{Month: forward, Day: forward}},
	} {
		rule := calendar.YearlyBy{System: lunar, Month: 8, Leap: true, Day: 7, Missing: tt.own}
		o, err := calendar.Next(rule, zone(t, "UTC"), calendar.Policies{Missing: tt.given}, time.Date(2002, time.January, 1, 0, 0, 0, 0, time.UTC))
		if err != nil || o.Policies != (calendar.Policies{Missing: tt.want}) {
			t.Errorf("%s: %+v, %v; want %v", name, o.Policies, err, tt.want)
		}
	}
	unused := calendar.Policies{Missing: calendar.Missing{Month: skip, Day: skip}}
	o, err := calendar.Next(calendar.Yearly{Month: time.May, Day: 2}, zone(t, "UTC"), unused, time.Time{})
	if err != nil || o.Policies.Missing != (calendar.Missing{}) {
		t.Errorf("a Gregorian rule: %+v, %v", o.Policies, err)
	}
}

func TestYearlyByHasAReason(t *testing.T) {
	t.Parallel()

	// The lunar year 2001 has the leap month 8, and 2002 has none. Month 12 has 30 days in 2000.
	tests := map[string]struct {
		y     calendar.YearlyBy
		after string // 1-1 of a lunar year
		want  string
	}{
		"an ordinary day":         {calendar.YearlyBy{Month: 1, Day: 30}, "2001", "exact"},
		"a leap month":            {calendar.YearlyBy{Month: 8, Leap: true, Day: 30}, "2001", "exact"},
		"none":                    {calendar.YearlyBy{Month: 8, Leap: true, Day: 7}, "2002", "7 Leap Moon 8 moved to 7 Moon 9"},
		"none, backward":          {calendar.YearlyBy{Month: 8, Leap: true, Day: 7, Missing: calendar.Missing{Month: calendar.MissingBackward}}, "2002", "7 Leap Moon 8 moved to 7 Moon 8"},
		"none, and no 30th":       {calendar.YearlyBy{Month: 9, Leap: true, Day: 30}, "2001", "30 Leap Moon 9 moved to 1 Moon 11"},
		"none, and its last day":  {calendar.YearlyBy{Month: 9, Leap: true, Day: 30, Missing: calendar.Missing{Day: calendar.MissingBackward}}, "2001", "30 Leap Moon 9 moved to 29 Moon 10"},
		"no 30th":                 {calendar.YearlyBy{Month: 12, Day: 30}, "2001", "30 Moon 12 moved to 1 Moon 1"},
		"no 30th, backward":       {calendar.YearlyBy{Month: 12, Day: 30, Missing: calendar.Missing{Day: calendar.MissingBackward}}, "2001", "30 Moon 12 moved to 29 Moon 12"},
		"a leap month at the end": {calendar.YearlyBy{Month: 12, Leap: true, Day: 7}, "2001", "7 Leap Moon 12 moved to 7 Moon 1"},
	}
	for name, tt := range tests {
		year, err := time.Parse("2006", tt.after)
		if err != nil {
			t.Fatal(err)
		}
		begin, err := lunar.Date(calendar.SystemDate{Year: year.Year(), Month: 1, Day: 1})
		if err != nil {
			t.Fatal(err)
		}
		tt.y.System = lunar
		rule := calendar.Bounded{Rule: tt.y, Start: calendar.WallTime{Date: begin}}
		found := false
		for next, err := range calendar.Occurrences(rule, zone(t, "UTC"), calendar.Policies{}, time.Time{}) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if found = next.Key == tt.after; found {
				if got := next.Reason(); got != tt.want {
					t.Errorf("%s: %q, want %q", name, got, tt.want)
				}
				break
			}
		}
		if !found {
			t.Errorf("%s: no occurrence has the key %s", name, tt.after)
		}
	}
}

// What moves a slot further keeps the reason, the key and the unit.
func TestYearlyByKeepsItsReasonInOtherRules(t *testing.T) {
	t.Parallel()

	y := calendar.YearlyBy{System: lunar, Month: 8, Leap: true, Day: 7, At: calendar.Clock{Hour: 23}}
	quiet := calendartest.Quiet("22:00-08:00")
	moved := calendar.Within{Of: calendar.Offset{Of: y, Days: -3, At: calendar.Clock{Hour: 23}}, Window: quiet}
	next, err := calendar.Next(moved, zone(t, "UTC"), calendar.Policies{}, instant(t, "2028-06-01T00:00:00Z"))
	if err != nil || next.Unit != "year:lunar" || next.Key != "2029" || next.DayReason != "7 Leap Moon 8 moved to 7 Moon 9" ||
		!strings.HasSuffix(next.Reason(), "; 7 Leap Moon 8 moved to 7 Moon 9; moved from 23:00 to 08:00 because of quiet hours") {
		t.Errorf("%+v, %v; the reason is %q", next, err, next.Reason())
	}
}

func TestSystemDatesHaveTheOrderOfTheirTexts(t *testing.T) {
	t.Parallel()

	begin := wall(t, "1999-01-01T00:00:00").Labelled()
	last := ""
	for n := range 3000 {
		day, err := lunar.Day(calendar.DateOf(begin.AddDate(0, 0, n)))
		if err != nil || day.String() <= last {
			t.Fatalf("%s after %s, %v", day, last, err)
		}
		last = day.String()
	}
	if got := (calendar.SystemDate{Year: 5774, Month: 5, Leap: true, Day: 8}).String(); got != "5774-05L-08" {
		t.Error(got)
	}
}

func TestSystemErrorsHaveTwoKinds(t *testing.T) {
	t.Parallel()

	_, none := lunar.Date(calendar.SystemDate{Year: 2000, Month: 2, Day: 30})
	_, beyond := lunar.Day(date(1699, time.January, 1))
	if !errors.Is(none, calendar.ErrNoSuchDay) || errors.Is(none, calendar.ErrOutOfRange) || none.Error() != "calendar: the calendar lunar has no 2000-02-30" {
		t.Errorf("no such day: %v", none)
	}
	if !errors.Is(beyond, calendar.ErrOutOfRange) || errors.Is(beyond, calendar.ErrNoSuchDay) {
		t.Errorf("out of range: %v", beyond)
	}
}
