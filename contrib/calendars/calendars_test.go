package calendars_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

func TestCalendarsHaveTheNamesOfCLDR(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]calendar.System{
		"chinese": calendars.Chinese(), "dangi": calendars.Korean(), "hebrew": calendars.Hebrew(), "islamic-umalqura": calendars.UmmAlQura(),
		"islamic-civil": calendars.IslamicCivil(), "persian": calendars.Persian(), "ethiopic": calendars.Ethiopic(),
	} {
		if got, err := calendars.Load(name); err != nil || got != s || s.Info().Name != name {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	names := calendars.Names()
	if slices.Sort(names); len(names) != 14 || len(slices.Compact(names)) != 14 {
		t.Errorf("%d names: %q", len(names), names)
	}
}

// release is a date, and a counter from 1 to 9: so releases have the order of their texts.
var release = regexp.MustCompile(`^\d{4}-\d\d-\d\d(\.[1-9])?$`)

func TestCalendarsDescribeThemselves(t *testing.T) {
	t.Parallel()
	known := []calendar.MissingPolicy{calendar.MissingBackward, calendar.MissingForward, calendar.MissingSkip}
	for name, s := range all(t) {
		info := s.Info()
		if len(name) > 40 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") != "" || !release.MatchString(info.Release) ||
			info.First < 1 || info.First > info.Last || info.Last > 9999 ||
			!slices.Contains(known, info.Missing.Month) || !slices.Contains(known, info.Missing.Day) {
			t.Errorf("%s: %+v", name, info)
		}
	}
}

func TestOtherNamesAreRefused(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"islamic":      `calendars: "islamic" only approximates the sighting of the moon; choose islamic-umalqura or islamic-civil`,
		"islamic-rgsa": "only approximates",
		"gregory":      "is the calendar of package calendar itself",
		"japanese":     "has Gregorian months",
		"korean":       `did you mean "dangi"?`,
		"Hebrew":       `calendars: "Hebrew" is none of chinese, dangi, hebrew, islamic-umalqura, persian, `,
		"":             `calendars: "" is none of`,
	} {
		s, err := calendars.Load(name)
		if unknown, ok := errors.AsType[*calendars.UnknownError](err); !ok || unknown.Name != name || s != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", name, s, err, want)
		}
	}
}

// Days that authorities have published, or that are well known.
func TestKnownDays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, day, date string }{
		{"hebrew", "5774-01-01", "2013-09-05"},
		{"hebrew", "5774-05L-08", "2014-02-08"},
		{"hebrew", "5787-06-10", "2027-03-19"},
		{"islamic-umalqura", "1300-01-01", "1882-11-12"},
		{"islamic-umalqura", "1436-12-10", "2015-09-23"},
		{"chinese", "1900-01-01", "1900-01-31"},
		{"chinese", "1987-06L-01", "1987-07-26"},
		{"chinese", "2025-06L-10", "2025-08-03"},
		{"chinese", "2027-01-01", "2027-02-06"},
		{"chinese", "2033-11L-01", "2033-12-22"},
		{"chinese", "2057-09-01", "2057-09-28"},
		{"chinese", "2089-08-01", "2089-09-04"},
		{"chinese", "2097-07-01", "2097-08-07"},
		{"chinese", "1988-01-01", "1988-02-17"},
		{"dangi", "1988-01-01", "1988-02-18"},
		{"chinese", "1997-01-01", "1997-02-07"},
		{"dangi", "1997-01-01", "1997-02-08"},
		{"dangi", "2027-01-01", "2027-02-07"},
		{"dangi", "2028-01-01", "2028-01-27"},
		{"persian", "1403-12-30", "2025-03-20"},
		{"persian", "1404-01-01", "2025-03-21"},
		{"ethiopic", "2016-01-01", "2023-09-12"},
		{"ethiopic", "2017-01-01", "2024-09-11"},
		{"ethiopic", "2093-01-01", "2100-09-12"},
		{"islamic-civil", "1447-01-01", "2025-06-27"},
		{"islamic-tbla", "1447-01-01", "2025-06-26"},
	} {
		date, err := calendar.ParseDate(tt.date)
		if err != nil {
			t.Fatal(err)
		}
		if day, err := load(t, tt.name).Day(date); err != nil || day.String() != tt.day {
			t.Errorf("%s: %s is %s, %v; want %s", tt.name, tt.date, day, err, tt.day)
		}
	}
}

// The variants differ from each other in the years of their patterns, and otherwise not.
func TestTabularCalendarsHaveTheirLeapYears(t *testing.T) {
	t.Parallel()
	for suffix, want := range map[string][]int{
		"":     {2, 5, 7, 10, 13, 16, 18, 21, 24, 26, 29},
		"-i":   {2, 5, 7, 10, 13, 15, 18, 21, 24, 26, 29},
		"-iii": {2, 5, 8, 10, 13, 16, 19, 21, 24, 27, 29},
		"-iv":  {2, 5, 8, 11, 13, 16, 19, 21, 24, 27, 30},
	} {
		civil, astronomical := load(t, "islamic-civil"+suffix), load(t, "islamic-tbla"+suffix)
		var leaps []int
		for year := 1411; year <= 1440; year++ {
			months, err := civil.Months(year)
			if err != nil {
				t.Fatal(err)
			}
			if months[11].Days == 30 {
				leaps = append(leaps, year-1410)
			}
			first := calendar.SystemDate{Year: year, Month: 1, Day: 1}
			friday, err := civil.Date(first)
			thursday, errThursday := astronomical.Date(first)
			if err != nil || errThursday != nil || thursday != dateAfter(friday, -1) {
				t.Errorf("%d begins on %s, %v, and %s, %v", year, friday, err, thursday, errThursday)
			}
		}
		if !slices.Equal(leaps, want) {
			t.Errorf("islamic-civil%s has the leap years %v, want %v", suffix, leaps, want)
		}
	}
}
