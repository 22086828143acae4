package calendar_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
)

// scaledRule reads a rule by the lunar calendar.
func scaledRule(t testing.TB, text, start string) calendar.RRule {
	t.Helper()
	r, err := calendar.ParseRRule(text, wall(t, start), lunar)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// listSlots returns the slots of a rule after a wall time, as texts, and the error at their end.
func listSlots(r calendar.Recurrence, w calendar.WallTime, n int) (list []string, err error) {
	for range n {
		slot, err := r.After(w, calendar.Policies{})
		if err != nil {
			return list, err
		}
		list, w = append(list, slot.Key+" on "+slot.Wall.Date.String()), slot.Wall
	}
	return list, nil
}

// lunarDay returns the date of a day of the lunar calendar at 09:00.
func lunarDay(t rapid.TB, year, month, day int) calendar.WallTime {
	t.Helper()
	d, err := lunar.Date(calendar.SystemDate{Year: year, Month: month, Day: day})
	if err != nil {
		t.Fatal(err)
	}
	return calendar.WallTime{Date: d, Clock: calendar.Clock{Hour: 9}}
}

// The lunar year 2001 has the leap month 8, 2004 has 9, and 2002 and 2003 have none.
func TestRulesByAnotherCalendar(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"FREQ=YEARLY":                                             "2001-03-04 2002-03-04 2003-03-04",
		"FREQ=YEARLY;INTERVAL=2":                                  "2001-03-04 2003-03-04 2005-03-04",
		"FREQ=YEARLY;BYMONTH=5":                                   "2001-05-04 2002-05-04 2003-05-04",
		"FREQ=YEARLY;BYMONTHDAY=30":                               "2001-03-30 2001-05-30 2001-07-30",
		"FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=-1":                    "2001-12-29 2002-12-29 2003-12-29",
		"FREQ=YEARLY;BYMONTH=8L;BYMONTHDAY=7":                     "2001-08L-07 2037-08L-07 2073-08L-07",
		"FREQ=YEARLY;BYMONTH=8L;SKIP=BACKWARD":                    "2001-08L-04 2002-08L-04=2002-08-04 2003-08L-04=2003-08-04",
		"FREQ=YEARLY;BYMONTH=8L;SKIP=FORWARD":                     "2001-08L-04 2002-08L-04=2002-09-04 2003-08L-04=2003-09-04",
		"FREQ=YEARLY;BYMONTH=8L,9;SKIP=FORWARD":                   "2001-08L-04 2001-09-04 2002-09-04",
		"FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=30;SKIP=FORWARD":       "2001-12-30=2002-01-01 2002-12-30=2003-01-01 2003-12-30=2004-01-01",
		"FREQ=YEARLY;BYMONTH=1,12;BYMONTHDAY=1,30;SKIP=FORWARD":   "2001-12-01 2002-01-01 2002-01-30",
		"FREQ=YEARLY;BYMONTH=8L;BYMONTHDAY=30;SKIP=BACKWARD":      "2001-08L-30 2002-08L-30=2002-08-29 2003-08L-30=2003-08-29",
		"FREQ=YEARLY;BYMONTH=8L;BYMONTHDAY=-1;SKIP=BACKWARD":      "2001-08L-30 2002-08L-29=2002-08-29 2003-08L-29=2003-08-29",
		"FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1":                    "2001-06-01 2001-08L-01 2001-11-01",
		"FREQ=MONTHLY;INTERVAL=12":                                "2001-03-04 2002-02-04 2003-02-04",
		"FREQ=MONTHLY;BYMONTH=8,8L":                               "2001-08-04 2001-08L-04 2002-08-04",
		"FREQ=MONTHLY;BYMONTHDAY=30;SKIP=BACKWARD":                "2001-03-30 2001-04-30=2001-04-29 2001-05-30",
		"FREQ=MONTHLY;BYMONTHDAY=29,30;SKIP=BACKWARD;COUNT=4":     "2001-03-29 2001-03-30 2001-04-29 2001-05-29",
		"FREQ=YEARLY;COUNT=2":                                     "2001-03-04 2002-03-04",
		"FREQ=YEARLY;BYYEARDAY=1,366,-1":                          "2001-12-11 2001-12-29 2002-01-01",
		"FREQ=YEARLY;BYMONTH=1,6L;BYDAY=-1SU;COUNT=2":             "2002-01-25 2003-01-28",
		"FREQ=YEARLY;BYMONTH=12L;BYDAY=1MO;SKIP=FORWARD;COUNT=1":  "2001-12L-05=2002-01-05",
		"FREQ=YEARLY;BYDAY=MO;BYSETPOS=366":                       "",
		"FREQ=YEARLY;BYMONTHDAY=30;BYYEARDAY=118;SKIP=BACKWARD":   "",
		"FREQ=MONTHLY;INTERVAL=5;BYDAY=1FR;COUNT=3":               "2001-03-05 2001-08-04 2001-12-03",
		"FREQ=DAILY;BYMONTH=9":                                    "2001-09-01 2001-09-02 2001-09-03",
		"FREQ=DAILY;INTERVAL=30":                                  "2001-03-04 2001-04-04 2001-05-05",
		"FREQ=DAILY;BYMONTH=8L;BYMONTHDAY=-1":                     "2001-08L-30 2037-08L-30 2073-08L-30",
		"FREQ=YEARLY;UNTIL=" + until(t, lunarDay(t, 2003, 3, 4)):  "2001-03-04 2002-03-04 2003-03-04",
		"FREQ=YEARLY;UNTIL=" + until(t, lunarDay(t, 2003, 3, 3)):  "2001-03-04 2002-03-04",
		"FREQ=YEARLY;INTERVAL=2147483647;UNTIL=20991231T000000":   "2001-03-04",
		"FREQ=MONTHLY;INTERVAL=2147483647;UNTIL=20991231T000000Z": "2001-03-04",
	} {
		rule := scaledRule(t, "RSCALE=LUNAR;"+text, lunarDay(t, 2001, 3, 4).String())
		days := strings.Fields(want)
		var wants []string
		for _, day := range days {
			key, shown, moved := strings.Cut(day, "=")
			if !moved {
				shown = key
			}
			wants = append(wants, key+" on "+dateOfText(t, shown).String())
		}
		n := max(len(days), 3)
		got, err := listSlots(rule, calendar.WallTime{}, n)
		if !slices.Equal(got, wants) || len(got) < n && !errors.Is(err, calendar.ErrNoOccurrence) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, wants)
		}
	}
}

// until formats the end of a rule.
func until(t testing.TB, w calendar.WallTime) string {
	t.Helper()
	return w.Labelled().Format("20060102T150405")
}

// dateOfText returns the date of a day of the lunar calendar.
func dateOfText(t testing.TB, text string) calendar.Date {
	t.Helper()
	var d calendar.SystemDate
	if _, err := fmt.Sscanf(strings.ReplaceAll(text, "L", ""), "%d-%d-%d", &d.Year, &d.Month, &d.Day); err != nil {
		t.Fatal(err)
	}
	d.Leap = strings.Contains(text, "L")
	date, err := lunar.Date(d)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return date
}

// A rule has the slots that its parts name, each searched for by itself, in order.
func TestRulesByAnotherCalendarHaveEachOfTheirDays(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		months := rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 1, 3, rapid.ID[int]).Draw(t, "months")
		leaps := rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 0, 2, rapid.ID[int]).Draw(t, "leap months")
		days := rapid.SliceOfNDistinct(rapid.SampledFrom([]int{1, 2, 15, 29, 30}), 1, 3, rapid.ID[int]).Draw(t, "days")
		interval := rapid.IntRange(1, 3).Draw(t, "interval")
		skip := rapid.SampledFrom([]string{"OMIT", "BACKWARD", "FORWARD"}).Draw(t, "skip")
		policy := map[string]calendar.MissingPolicy{"OMIT": calendar.MissingSkip, "BACKWARD": calendar.MissingBackward, "FORWARD": calendar.MissingForward}[skip]
		year := rapid.IntRange(1990, 2010).Draw(t, "year")
		begin := lunarDay(t, year, 1, 1)
		var texts []string
		wants := make(map[calendar.Date]bool)
		ask := func(month int, leap bool) {
			for _, day := range days {
				y := calendar.YearlyBy{System: lunar, Month: month, Leap: leap, Day: day, Missing: calendar.Missing{Month: policy, Day: policy}}
				for n := year; n < year+12; n += interval {
					if date, ok := expected(t, y, n); ok {
						wants[date] = true
					}
				}
			}
		}
		for _, n := range months {
			texts = append(texts, strconv.Itoa(n))
			ask(n, false)
		}
		for _, n := range leaps {
			texts = append(texts, strconv.Itoa(n)+"L")
			ask(n, true)
		}
		var list []calendar.Date
		for date := range wants {
			list = append(list, date)
		}
		slices.SortFunc(list, calendar.Date.Compare)
		text := fmt.Sprintf("FREQ=YEARLY;RSCALE=LUNAR;INTERVAL=%d;SKIP=%s;BYMONTH=%s;BYMONTHDAY=%s", interval, skip, strings.Join(texts, ","), strings.Trim(strings.ReplaceAll(fmt.Sprint(days), " ", ","), "[]"))
		rule, err := calendar.ParseRRule(text, begin, lunar)
		if err != nil {
			t.Fatal(err)
		}
		last := calendar.Slot{}
		for _, date := range list {
			slot, err := rule.After(last.Wall, calendar.Policies{})
			if err != nil || slot.Wall.Date != date || slot.Key <= last.Key || slot.Unit != "day:lunar" {
				t.Fatalf("%s from %s, after %s: %+v, %v; want %s", text, begin, last.Wall, slot, err, date)
			}
			last = slot
		}
	})
}

// A count leaves out what clocks skip, and an end in UTC is an instant in the zone.
func TestRulesByAnotherCalendarEndInTheirZone(t *testing.T) {
	t.Parallel()

	start := lunarDay(t, 2001, 3, 4)
	may := lunarDay(t, 2001, 5, 4)
	midnight := calendar.WallTime{Date: may.Date}
	for text, tt := range map[string]struct {
		zone string
		want int
	}{
		"FREQ=MONTHLY;COUNT=3":                           {"America/Los_Angeles", 3},
		"FREQ=MONTHLY;UNTIL=" + until(t, may) + "Z":      {"America/Los_Angeles", 2}, // at 09:00 there it is later
		"FREQ=MONTHLY;UNTIL=" + until(t, midnight) + "Z": {"Asia/Tokyo", 3},          // where it is 09:00
	} {
		rule, err := calendar.ParseRRule("RSCALE=LUNAR;"+text, start, lunar)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range calendar.Occurrences(rule, zone(t, tt.zone), calendar.Policies{Gap: calendar.GapSkip}, instant(t, "2000-01-01T00:00:00Z")) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != tt.want {
			t.Errorf("%s in %s: %d occurrences, want %d", text, tt.zone, n, tt.want)
		}
	}
}

func TestSetsByAnotherCalendar(t *testing.T) {
	t.Parallel()

	text := "DTSTART:" + until(t, lunarDay(t, 2001, 3, 4)) + "\nRRULE:FREQ=YEARLY;RSCALE=LUNAR\nEXDATE:" + until(t, lunarDay(t, 2002, 3, 4))
	set, err := calendar.ParseRecurrenceSet(text, lunar)
	if err != nil {
		t.Fatal(err)
	}
	got, err := listSlots(set, calendar.WallTime{}, 2)
	if want := []string{"2001-03-04 on " + lunarDay(t, 2001, 3, 4).Date.String(), "2003-03-04 on " + lunarDay(t, 2003, 3, 4).Date.String()}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if slot, err := set.After(calendar.WallTime{}, calendar.Policies{}); err != nil || slot.Unit != "day:lunar" {
		t.Errorf("%+v, %v", slot, err)
	}
	if again, err := calendar.ParseRecurrenceSet(set.String(), lunar); err != nil || again.String() != set.String() || !strings.Contains(set.String(), "RSCALE=LUNAR") {
		t.Errorf("%q is read again as %q, %v", set, again, err)
	}
	_, err = calendar.ParseRecurrenceSet(text+"\nRDATE:20050101T090000", lunar)
	if err == nil || !strings.Contains(err.Error(), "RDATE is not for a rule by another calendar") {
		t.Errorf("a set with RDATE: %v", err)
	}
}

func TestRulesByAnotherCalendarAreRefused(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"RSCALE=HEBREW;FREQ=YEARLY":                    `RSCALE="HEBREW" is not GREGORIAN, LUNAR`,
		"RSCALE=LUNAR;FREQ=YEARLY;BYMONTH=13":          "the calendar lunar has no month 13",
		"RSCALE=LUNAR;FREQ=YEARLY;BYMONTH=13L":         "the calendar lunar has no month 13",
		"RSCALE=LUNAR;FREQ=HOURLY":                     "FREQ=HOURLY is not for RSCALE=LUNAR, which has YEARLY, MONTHLY, WEEKLY and DAILY",
		"RSCALE=LUNAR;FREQ=YEARLY;BYHOUR=9":            "BYHOUR is not for RSCALE=LUNAR, which has BYMONTH, BYYEARDAY, BYMONTHDAY, BYDAY, BYSETPOS",
		"RSCALE=LUNAR;FREQ=DAILY;BYMONTH=9;BYSETPOS=1": "BYSETPOS with RSCALE=LUNAR is for FREQ=YEARLY and FREQ=MONTHLY",
		"RSCALE=LUNAR;FREQ=WEEKLY;BYDAY=1MO":           "BYDAY takes numbers with FREQ=MONTHLY and FREQ=YEARLY only",
		"RSCALE=LUNAR;FREQ=YEARLY;BYMONTH=0L":          `BYMONTH="0L" is not a number from 1 to 13, nor one with an L`,
		"RSCALE=GREGORIAN;BYMONTH=2L":                  `BYMONTH="2L" is not a number from 1 to 12`,
	} {
		_, err := calendar.ParseRRule(text, wall(t, "2001-01-01T09:00:00"), lunar)
		if !errors.Is(err, calendar.ErrInvalidRecurrence) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	_, err := calendar.ParseRRule("RSCALE=LUNAR;FREQ=YEARLY", wall(t, "1699-01-01T09:00:00"), lunar)
	if !errors.Is(err, calendar.ErrInvalidRecurrence) || !strings.Contains(err.Error(), "the start is not in the calendar") {
		t.Errorf("a start before the calendar: %v", err)
	}
	rule := scaledRule(t, "RSCALE=LUNAR;FREQ=YEARLY", "2197-01-01T09:00:00")
	got, err := listSlots(rule, wall(t, "2196-12-01T09:00:00"), 5)
	if len(got) > 2 || !errors.Is(err, calendar.ErrNoOccurrence) || !errors.Is(err, calendar.ErrOutOfRange) {
		t.Errorf("%q, %v; want the end of the calendar", got, err)
	}
}

// gregorianSystem is the Gregorian calendar as a System.
type gregorianSystem struct{}

func (gregorianSystem) Info() calendar.SystemInfo {
	return calendar.SystemInfo{
		Name: "copy", Release: "2026-01-01", First: 1900, Last: 2200,
		Missing: calendar.Missing{Month: calendar.MissingBackward, Day: calendar.MissingBackward},
	}
}

func (gregorianSystem) Day(d calendar.Date) (calendar.SystemDate, error) {
	return calendar.SystemDate{Year: d.Year, Month: int(d.Month), Day: d.Day}, nil
}

func (gregorianSystem) Date(d calendar.SystemDate) (calendar.Date, error) {
	return calendar.Date{Year: d.Year, Month: time.Month(d.Month), Day: d.Day}, nil
}

func (gregorianSystem) Months(year int) ([]calendar.SystemMonth, error) {
	months := make([]calendar.SystemMonth, 12)
	for i := range months {
		first := calendar.Date{Year: year, Month: time.Month(i + 1), Day: 1}
		months[i] = calendar.SystemMonth{Number: i + 1, Days: time.Date(year, time.Month(i+2), 0, 0, 0, 0, 0, time.UTC).Day(), Name: first.Month.String()}
	}
	return months, nil
}

// A rule by a calendar that is the Gregorian one has the slots of the Gregorian rule.
func TestRulesByACopyOfTheGregorianCalendarAreTheSame(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		freq := rapid.SampledFrom([]string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY"}).Draw(t, "frequency")
		text := fmt.Sprintf("FREQ=%s;INTERVAL=%d;WKST=%s;SKIP=%s", freq, rapid.IntRange(1, 5).Draw(t, "interval"),
			rapid.SampledFrom([]string{"MO", "SU", "TH"}).Draw(t, "week start"), rapid.SampledFrom([]string{"OMIT", "BACKWARD", "FORWARD"}).Draw(t, "skip"))
		part := func(name string, entries ...string) bool {
			list := rapid.SliceOfNDistinct(rapid.SampledFrom(entries), 0, 3, rapid.ID[string]).Draw(t, name)
			if len(list) > 0 {
				text += ";" + name + "=" + strings.Join(list, ",")
			}
			return len(list) > 0
		}
		limited := part("BYMONTH", "1", "2", "6", "12")
		if freq != "WEEKLY" {
			limited = part("BYMONTHDAY", "1", "13", "29", "30", "31", "-1", "-2", "-31") || limited
		}
		if freq == "YEARLY" {
			limited = part("BYYEARDAY", "1", "60", "100", "365", "366", "-1", "-306", "-366") || limited
		}
		if freq == "YEARLY" || freq == "MONTHLY" {
			if part("BYDAY", "MO", "FR", "SU", "1MO", "2TU", "-1FR", "5SA", "-3SU", "20WE") || limited {
				part("BYSETPOS", "1", "2", "-1", "-2", "7")
			}
		} else {
			part("BYDAY", "MO", "WE", "FR", "SU")
		}
		start := calendar.WallTime{
			Date:  calendar.Date{Year: rapid.IntRange(1999, 2008).Draw(t, "year"), Month: 1, Day: 1}.AddDays(rapid.IntRange(0, 364).Draw(t, "day")),
			Clock: calendar.Clock{Hour: 9},
		}
		want, err := calendar.ParseRRule(text+";RSCALE=GREGORIAN", start)
		if err != nil {
			t.Fatal(err)
		}
		got, err := calendar.ParseRRule(text+";RSCALE=COPY", start, gregorianSystem{})
		if err != nil {
			t.Fatal(err)
		}
		after := calendar.WallTime{}
		if rapid.Bool().Draw(t, "later") {
			after = calendar.WallTime{Date: start.Date.AddDays(rapid.IntRange(-10, 3000).Draw(t, "after"))}
		}
		for range 12 {
			one, err := want.After(after, calendar.Policies{})
			if err != nil || one.Wall.Date.Year >= 2190 {
				if two, err := got.After(after, calendar.Policies{}); err == nil && two.Wall.Date.Year < 2190 {
					t.Fatalf("%s from %s, after %s: %s; want none", text, start, after, two.Wall)
				}
				return
			}
			two, err := got.After(after, calendar.Policies{})
			if err != nil || two.Wall != one.Wall {
				t.Fatalf("%s from %s, after %s: %s, %v; want %s", text, start, after, two.Wall, err, one.Wall)
			}
			after = one.Wall
		}
	})
}

func TestSystemDatesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]calendar.SystemDate{
		"5774-05L-08": {Year: 5774, Month: 5, Leap: true, Day: 8},
		"05L-08":      {Month: 5, Leap: true, Day: 8},
		"2027-13-05":  {Year: 2027, Month: 13, Day: 5},
		"08-05":       {Month: 8, Day: 5},
	} {
		if got, err := calendar.ParseSystemDate(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5774-5L-08", "5774-05l-08", "0000-05-08", "05-00", "00-05", "5774-05-08 ", "12345-05-08", "5774-05L-08T09:00"} {
		if got, err := calendar.ParseSystemDate(text); !errors.As(err, new(*calendar.FormatError)) || got != (calendar.SystemDate{}) {
			t.Errorf("%q is %+v, %v; want a *FormatError", text, got, err)
		}
	}
}
