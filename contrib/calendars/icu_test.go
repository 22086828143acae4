package calendars_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// tableYear is a line of testdata/icu.txt or testdata/tables.txt, which testdata/icu.mjs explains.
type tableYear struct {
	number int
	first  time.Time
	leap   int
	months []int // their lengths
}

// readTables returns the years of each calendar in a file of testdata.
func readTables(t testing.TB, name string) map[string][]tableYear {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]tableYear)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var name, first, lengths string
		var y tableYear
		if _, err := fmt.Sscan(line, &name, &y.number, &first, &y.leap, &lengths); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if y.first, err = time.Parse(time.DateOnly, first); err != nil {
			t.Fatal(err)
		}
		for _, c := range lengths {
			days, ok := map[rune]int{'-': 29, '+': 30, '*': 31, '5': 5, '6': 6}[c]
			if !ok {
				t.Fatalf("%q: no month has the length %c", line, c)
			}
			y.months = append(y.months, days)
		}
		all[name] = append(all[name], y)
	}
	return all
}

// days yields each day that ICU has, with its date.
func days(years []tableYear) iter.Seq2[time.Time, calendar.SystemDate] {
	return func(yield func(time.Time, calendar.SystemDate) bool) {
		for _, y := range years {
			at := y.first
			for i, length := range y.months {
				day := calendar.SystemDate{Year: y.number, Month: i + 1}
				if y.leap > 0 && i >= y.leap {
					day.Month, day.Leap = i, i == y.leap
				}
				for day.Day = 1; day.Day <= length; day.Day++ {
					if !yield(at, day) {
						return
					}
					at = at.Add(24 * time.Hour)
				}
			}
		}
	}
}

// disagreement is a run of days on which ICU has other days than this package.
type disagreement struct{ from, until, icu, ours string }

// TestEachDayAgreesWithICU compares all days from 1900 to 2100, and all of Umm al-Qura. The list of
// disagreements is complete. January 1900 belongs to a year that the Chinese and the Korean table
// do not have.
func TestEachDayAgreesWithICU(t *testing.T) {
	t.Parallel()
	icu := readTables(t, "icu.txt")
	if len(icu) != 8 {
		t.Fatalf("testdata/icu.txt has %d calendars", len(icu))
	}
	for name, years := range icu {
		s, want := load(t, name), 73_414
		switch name {
		case "chinese", "dangi":
			want -= 30
		case "islamic-umalqura":
			want = 106_665
		}
		compared := 0
		var found []disagreement
		for at, day := range days(years) {
			if (at.Year() < 1900 || at.Year() > 2100) && name != "islamic-umalqura" || day.Year < s.Info().First {
				continue
			}
			compared++
			date := calendar.DateOf(at)
			got, err := s.Day(date)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, date, err)
			}
			if got == day {
				continue
			}
			if i := len(found) - 1; i >= 0 && found[i].until == calendar.DateOf(at.AddDate(0, 0, -1)).String() {
				found[i].until = date.String()
			} else {
				found = append(found, disagreement{date.String(), date.String(), day.String(), got.String()})
			}
		}
		if !slices.Equal(found, disagreements[name]) {
			t.Errorf("%s disagrees with ICU on other days than listed:\n%s", name, listed(found))
		}
		if compared != want {
			t.Errorf("%s: %d days were compared, want %d", name, compared, want)
		}
	}
}

// TestMonthsAreThoseOfTheAuthorities compares Chinese days from 1901-02-19 to 2100 with the tables of the Hong Kong
// Observatory, Korean ones of 1900 to 2050 with those of the Korea Astronomy and Space Science Institute, and those of
// 1420 to 1450 with the calendars printed in Saudi Arabia, by copies of others.
func TestMonthsAreThoseOfTheAuthorities(t *testing.T) {
	t.Parallel()
	tables := readTables(t, "tables.txt")
	for name, want := range map[string]int{"chinese": 72_999, "dangi": 55_104, "islamic-umalqura": 10_985} {
		s, compared := load(t, name), 0
		for at, day := range days(tables[name]) {
			compared++
			if got, err := s.Day(calendar.DateOf(at)); err != nil || got != day {
				t.Errorf("%s: %s is %s, %v; want %s", name, calendar.DateOf(at), got, err, day)
			}
		}
		if compared != want {
			t.Errorf("%s: %d days were compared, want %d", name, compared, want)
		}
	}
}

func listed(found []disagreement) string {
	var text strings.Builder
	for _, d := range found {
		fmt.Fprintf(&text, "\t\t{%q, %q, %q, %q},\n", d.from, d.until, d.icu, d.ours)
	}
	return text.String()
}

func load(t testing.TB, name string) calendar.System {
	t.Helper()
	s, err := calendars.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// disagreements has every run of days on which ICU is wrong, or is not known to be right.
var disagreements = map[string][]disagreement{
	// The published tables of the Hong Kong Observatory decide. ICU misplaces 15 month starts.
	"chinese": {
		{"1917-03-23", "1917-05-20", "1917-03-01", "1917-02L-01"},
		{"1922-06-25", "1922-08-22", "1922-06-01", "1922-05L-01"},
		{"1954-02-03", "1954-03-04", "1953-12-30", "1954-01-01"},
		{"1955-02-22", "1955-03-23", "1955-01-30", "1955-02-01"},
		{"1987-07-26", "1987-09-22", "1987-07-01", "1987-06L-01"},
		{"1999-01-17", "1999-02-15", "1998-11-30", "1998-12-01"},
		{"2012-08-17", "2012-09-15", "2012-06-30", "2012-07-01"},
		{"2018-11-07", "2018-12-06", "2018-10-01", "2018-09-30"},
		{"2027-02-06", "2027-03-07", "2026-12-30", "2027-01-01"},
		{"2030-02-02", "2030-03-03", "2030-01-01", "2029-12-30"},
		{"2057-09-28", "2057-10-27", "2057-08-30", "2057-09-01"}, // near midnight; the Observatory itself is not sure
		{"2070-03-12", "2070-04-10", "2070-01-30", "2070-02-01"},
	},
	// The tables of the Korea Astronomy and Space Science Institute decide until 2050. No authority has published
	// the later ones. A computation of the new moons decides: that of 2051-08-07 is minutes after midnight,
	// those of the other two days are seconds before.
	"dangi": {
		{"2017-02-26", "2017-03-27", "2017-01-30", "2017-02-01"},
		{"2051-08-06", "2051-09-04", "2051-07-01", "2051-06-30"},
		{"2051-11-03", "2051-12-02", "2051-09-30", "2051-10-01"},
		{"2097-01-13", "2097-02-11", "2096-11-30", "2096-12-01"},
	},
}
