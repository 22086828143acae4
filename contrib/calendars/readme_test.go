package calendars_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/almanac-go/almanac/calendar"
)

// The tables of the README are what the code does.
func TestTheTablesOfTheREADMEAreTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := calendarRows(t)
	for name, runs := range disagreements {
		for _, d := range runs {
			want = append(want, fmt.Sprintf("| %s | %s to %s | %s | %s |", name, d.from, d.until, d.icu, d.ours))
		}
	}
	for _, row := range want {
		if !strings.Contains(string(text), row) {
			t.Errorf("README.md has no row\n%s", row)
		}
	}
	if rows := strings.Count(string(text), "\n| "); rows != len(want)+4 { // with the heads of both tables
		t.Errorf("README.md has %d rows, want %d", rows, len(want)+4)
	}
}

// calendarRows returns the beginning of the row of each calendar.
func calendarRows(t *testing.T) []string {
	t.Helper()
	var rows []string
	for name, s := range all(t) {
		if strings.HasPrefix(name, "islamic-civil-") || strings.HasPrefix(name, "islamic-tbla") {
			continue
		}
		info := s.Info()
		months, err := s.Months(info.Last)
		if err != nil {
			t.Fatal(err)
		}
		end := months[len(months)-1]
		first, err := s.Date(calendar.SystemDate{Year: info.First, Month: 1, Day: 1})
		last, errLast := s.Date(calendar.SystemDate{Year: info.Last, Month: end.Number, Leap: end.Leap, Day: end.Days})
		if err != nil || errLast != nil {
			t.Fatal(err, errLast)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %d to %d | %s | %s | %s |", name, info.First, info.Last, first, last, info.Missing.Day))
	}
	slices.Sort(rows)
	return rows
}
