package calendar_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

func TestParseDate(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		text string
		want calendar.Date // the zero Date means that the text is refused
	}{
		"a day":                               {"2026-03-15", calendar.Date{Year: 2026, Month: time.March, Day: 15}},
		"29 February of a leap year":          {"2024-02-29", calendar.Date{Year: 2024, Month: time.February, Day: 29}},
		"29 February of a century that leaps": {"2000-02-29", calendar.Date{Year: 2000, Month: time.February, Day: 29}},
		"the first day of all":                {"0001-01-01", calendar.Date{Year: 1, Month: time.January, Day: 1}},
		"the last day of all":                 {"9999-12-31", calendar.Date{Year: 9999, Month: time.December, Day: 31}},
		"29 February of a common year":        {"2023-02-29", calendar.Date{}},
		"29 February of a century":            {"2100-02-29", calendar.Date{}},
		"a month too many":                    {"2026-13-01", calendar.Date{}},
		"a day too many":                      {"2026-04-31", calendar.Date{}},
		"a day zero":                          {"2026-04-00", calendar.Date{}},
		"a year zero, which is not Valid":     {"0000-12-31", calendar.Date{}},
		"a year of five digits":               {"10000-01-01", calendar.Date{}},
		"a negative year":                     {"-001-01-01", calendar.Date{}},
		"digits left out":                     {"2026-3-15", calendar.Date{}},
		"slashes":                             {"2026/03/15", calendar.Date{}},
		"blanks around it":                    {" 2026-03-15", calendar.Date{}},
		"a time behind it":                    {"2026-03-15T00:00:00Z", calendar.Date{}},
		"nothing":                             {"", calendar.Date{}},
		"digits of another script":            {"２０２６-03-15", calendar.Date{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := calendar.ParseDate(tt.text)

			if refused := tt.want == (calendar.Date{}); refused != (err != nil) || err == nil && got != tt.want {
				t.Errorf("ParseDate(%q) = %v, %v; want %v", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestParseClock(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		text string
		want string // "" means that the text is refused
	}{
		"to the minute":        {"09:00", "09:00:00"},
		"to the second":        {"23:59:59", "23:59:59"},
		"midnight":             {"00:00", "00:00:00"},
		"the end of the day":   {"24:00", ""},
		"a leap second":        {"23:59:60", ""},
		"a minute too many":    {"09:60", ""},
		"one digit":            {"9:00", ""},
		"one digit, seconds":   {"9:00:00", ""},
		"a fraction":           {"09:00:00.5", ""},
		"a fraction that fits": {"9:00:0.5", ""},
		"half of a day":        {"09:00PM", ""},
		"an offset":            {"09:00Z", ""},
		"nothing":              {"", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := calendar.ParseClock(tt.text)

			if (tt.want == "") != (err != nil) || err == nil && got.String() != tt.want {
				t.Errorf("ParseClock(%q) = %v, %v; want %q", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestParseWallTime(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		text string
		ok   bool
	}{
		"a wall time":                     {"2026-03-29T02:30:00", true},
		"one that clocks skip is still":   {"2011-12-30T09:00:00", true},
		"a blank instead of the T":        {"2026-03-29 02:30:00", false},
		"an offset":                       {"2026-03-29T02:30:00Z", false},
		"no seconds":                      {"2026-03-29T02:30", true},
		"no minutes":                      {"2026-03-29T02", false},
		"one digit and no seconds":        {"2026-03-29T2:300", false},
		"an offset and no seconds":        {"2026-03-29T2:30Z", false},
		"an hour that no clock shows":     {"2026-03-29T24:30", false},
		"a fraction":                      {"2026-03-29T02:30:00.1", false},
		"a fraction and one digit":        {"2026-03-29T2:30:00.1", false},
		"a day that is in no calendar":    {"2026-02-30T02:30:00", false},
		"a year zero, which is not Valid": {"0000-01-01T00:00:00", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := calendar.ParseWallTime(tt.text)

			if tt.ok != (err == nil) || tt.ok && got.String() != tt.text && got.String() != tt.text+":00" {
				t.Errorf("ParseWallTime(%q) = %v, %v; want ok %v", tt.text, got, err, tt.ok)
			}
		})
	}
}

func TestValidRefusesDatesOutsideTheCalendar(t *testing.T) {
	t.Parallel()

	noon := calendar.Clock{Hour: 12}
	tests := map[string]struct {
		wall calendar.WallTime
		want bool
	}{
		"noon on a leap day":      {calendar.WallTime{Date: calendar.Date{Year: 2024, Month: 2, Day: 29}, Clock: noon}, true},
		"the zero WallTime":       {calendar.WallTime{}, false},
		"30 February":             {calendar.WallTime{Date: calendar.Date{Year: 2024, Month: 2, Day: 30}, Clock: noon}, false},
		"a month before January":  {calendar.WallTime{Date: calendar.Date{Year: 2024, Month: 0, Day: 1}, Clock: noon}, false},
		"a month after December":  {calendar.WallTime{Date: calendar.Date{Year: 2024, Month: 13, Day: 1}, Clock: noon}, false},
		"the year 10000":          {calendar.WallTime{Date: calendar.Date{Year: 10000, Month: 1, Day: 1}, Clock: noon}, false},
		"the year before 1":       {calendar.WallTime{Date: calendar.Date{Year: 0, Month: 1, Day: 1}, Clock: noon}, false},
		"an hour before midnight": {calendar.WallTime{Date: calendar.Date{Year: 2024, Month: 1, Day: 1}, Clock: calendar.Clock{Hour: -1}}, false},
		"a leap second":           {calendar.WallTime{Date: calendar.Date{Year: 2024, Month: 1, Day: 1}, Clock: calendar.Clock{Second: 60}}, false},
		"a negative minute":       {calendar.WallTime{Date: calendar.Date{Year: 2024, Month: 1, Day: 1}, Clock: calendar.Clock{Minute: -1}}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := tt.wall.Valid(); got != tt.want {
				t.Errorf("%v.Valid() = %v, want %v", tt.wall, got, tt.want)
			}
		})
	}
}

func TestDateBeforeFollowsTheCalendar(t *testing.T) {
	t.Parallel()

	ordered := []string{"1999-12-31", "2000-01-01", "2000-01-31", "2000-02-01", "2001-01-01"}
	for i, a := range ordered {
		for j, b := range ordered {
			left, right := wall(t, a+"T00:00:00").Date, wall(t, b+"T00:00:00").Date
			if got, want := left.Before(right), i < j; got != want {
				t.Errorf("%v.Before(%v) = %v, want %v", left, right, got, want)
			}
		}
	}
}

func TestCompareFollowsTheWall(t *testing.T) {
	t.Parallel()

	ordered := []string{"1999-12-31T23:59:59", "2000-01-01T00:00:00", "2000-01-01T00:00:01", "2000-01-01T00:01:00", "2000-01-01T01:00:00", "2000-02-01T00:00:00"}
	for i, a := range ordered {
		for j, b := range ordered {
			left, right, want := wall(t, a), wall(t, b), cmp.Compare(i, j)
			if got := left.Compare(right); got != want || left.Before(right) != (want < 0) {
				t.Errorf("%v.Compare(%v) = %d, want %d", left, right, got, want)
			}
			if left.Date != right.Date && left.Date.Compare(right.Date) != want || left.Date == right.Date && left.Clock.Compare(right.Clock) != want {
				t.Errorf("the parts of %v and %v are in another order", left, right)
			}
		}
	}
}

func TestDatesCountDays(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		from, to string
		days     int
		weekday  time.Weekday // of to
	}{
		{"2026-11-28", "2026-11-28", 0, time.Saturday},
		{"2026-11-28", "2026-12-25", 27, time.Friday},
		{"2028-02-28", "2028-03-01", 2, time.Wednesday},
		{"2027-03-01", "2027-02-28", -1, time.Sunday},
		{"0001-01-01", "9999-12-31", 3652058, time.Friday},
		{"1990-03-15", "2026-03-15", 13149, time.Sunday},
	} {
		from, to := wall(t, tt.from+"T00:00:00").Date, wall(t, tt.to+"T00:00:00").Date
		if got := from.DaysUntil(to); got != tt.days || from.AddDays(tt.days) != to || to.AddDays(-tt.days) != from || to.Weekday() != tt.weekday {
			t.Errorf("%v to %v: %d days, want %d; %v, %v, %v", from, to, got, tt.days, from.AddDays(tt.days), to.AddDays(-tt.days), to.Weekday())
		}
	}
	if first := (calendar.Date{Year: 1, Month: 1, Day: 1}); first.AddDays(-1).Valid() || first.AddDays(-1).String() != "0000-12-31" {
		t.Errorf("the day before the first is %v", first.AddDays(-1))
	}
}

func TestLabelledKeepsTheReading(t *testing.T) {
	t.Parallel()

	w := wall(t, "2026-03-29T02:30:15")
	if got, want := w.Labelled(), instant(t, "2026-03-29T02:30:15Z"); got != want {
		t.Errorf("%v.Labelled() = %v, want %v", w, got, want)
	}
	if got := calendar.WallTimeOf(w.Labelled().Add(999 * time.Millisecond)); got != w {
		t.Errorf("WallTimeOf cuts to the second: got %v, want %v", got, w)
	}
}

func FuzzParseWallTime(f *testing.F) {
	for _, seed := range []string{"2026-03-29T02:30:00", "0000-01-01T00:00:00", "2024-02-29T23:59:59", "2026-3-29T2:30:00.5", "2026-03-29T02:30", "2026-03-29T2:300", "02:30", "2026-03-29"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if w, err := calendar.ParseWallTime(s); err == nil && (w.String() != s && w.String() != s+":00" || !w.Valid()) {
			t.Errorf("ParseWallTime(%q) = %v, valid %v", s, w, w.Valid())
		}
		if d, err := calendar.ParseDate(s); err == nil && (d.String() != s || !d.Valid()) {
			t.Errorf("ParseDate(%q) = %v, valid %v", s, d, d.Valid())
		}
		c, err := calendar.ParseClock(s)
		if err != nil {
			return
		}
		if again, err := calendar.ParseClock(c.String()); err != nil || again != c || !c.Valid() || c.String()[:len(s)] != s {
			t.Errorf("ParseClock(%q) = %v, valid %v, read again %v, %v", s, c, c.Valid(), again, err)
		}
	})
}

func TestDateStringPadsEachPart(t *testing.T) {
	t.Parallel()
	for _, year := range []int{-12, -1, 0, 1, 9, 99, 987, 2026, 9999, 10_000} {
		for _, month := range []time.Month{-1, 0, 1, 9, 12, 99, 100} {
			for _, day := range []int{-1, 0, 1, 31, 99, 100} {
				d := calendar.Date{Year: year, Month: month, Day: day}
				if want := fmt.Sprintf("%04d-%02d-%02d", year, month, day); d.String() != want {
					t.Errorf("%s, want %s", d, want)
				}
			}
		}
	}
}

// A date that is not known keeps a value with dates in it readable.
func TestDatesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, date := range []calendar.Date{{}, {Year: 2026, Month: time.December, Day: 30}} {
		text, err := json.Marshal(date)
		read := calendar.Date{Year: 1}
		if err = errors.Join(err, json.Unmarshal(text, &read)); err != nil || read != date {
			t.Errorf("%v is written as %s, and read as %v: %v", date, text, read, err)
		}
	}
	if err := json.Unmarshal([]byte(`"2026-02-30"`), new(calendar.Date)); err == nil {
		t.Error("30 February is read")
	}
}
