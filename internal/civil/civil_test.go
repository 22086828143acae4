package civil_test

import (
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/civil"
)

func TestIsLeap(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		year int
		want bool
	}{
		"a year like most":             {2026, false},
		"every fourth year":            {2024, true},
		"a century":                    {2100, false},
		"a century before the reform":  {1500, false},
		"a century divisible by 400":   {2000, true},
		"the first year":               {1, false},
		"the first leap year":          {4, true},
		"the last year of four digits": {9999, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := civil.IsLeap(tt.year); got != tt.want {
				t.Errorf("IsLeap(%d) = %v, want %v", tt.year, got, tt.want)
			}
		})
	}
}

func TestDaysIn(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		year  int
		month time.Month
		want  int
	}{
		"a long month":                     {2026, time.January, 31},
		"a short month":                    {2026, time.April, 30},
		"the last month":                   {2026, time.December, 31},
		"February of a common year":        {2026, time.February, 28},
		"February of a leap year":          {2028, time.February, 29},
		"February of a century":            {2100, time.February, 28},
		"February of a century that leaps": {2000, time.February, 29},
		"a month too few":                  {2026, 0, 0},
		"a month too many":                 {2026, 13, 0},
		"a month below zero":               {2026, -1, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := civil.DaysIn(tt.year, tt.month); got != tt.want {
				t.Errorf("DaysIn(%d, %d) = %d, want %d", tt.year, tt.month, got, tt.want)
			}
		})
	}
}

// The calendar repeats after 400 years. These years are at the edges of the cases.
func TestTheCalendarAgreesWithPackageTime(t *testing.T) {
	t.Parallel()

	for year := 1800; year <= 2200; year++ {
		for month := time.January; month <= time.December; month++ {
			want := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
			if got := civil.DaysIn(year, month); got != want {
				t.Errorf("DaysIn(%d, %s) = %d, package time says %d", year, month, got, want)
			}
		}
		want := time.Date(year, time.December, 31, 0, 0, 0, 0, time.UTC).YearDay() == 366
		if got := civil.IsLeap(year); got != want {
			t.Errorf("IsLeap(%d) = %v, package time says %v", year, got, want)
		}
	}
}

func TestDayNumbersAgreeWithPackageTime(t *testing.T) {
	t.Parallel()

	first := time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)
	for number := civil.DayNumber(-801, time.January, 1); number <= civil.DayNumber(10400, time.December, 31); number++ {
		year, month, day := civil.DateOf(number)
		if back := civil.DayNumber(year, month, day); back != number {
			t.Fatalf("day %d is %d-%d-%d, which is day %d", number, year, month, day, back)
		}
		if number%97 != 0 && day > 1 {
			continue
		}
		y, m, d := first.AddDate(0, 0, number).Date()
		if year != y || month != m || day != d {
			t.Fatalf("day %d is %d-%d-%d, package time says %d-%d-%d", number, year, month, day, y, m, d)
		}
	}
}

func TestDayNumbersCountOnBeyondAMonth(t *testing.T) {
	t.Parallel()

	for _, tt := range [][3]int{{2027, 2, 29}, {2027, 3, 0}, {2027, 1, -40}, {2027, 12, 400}, {2027, 0, 15}, {2027, 13, 15}, {1, 1, 0}} {
		at := time.Date(tt[0], time.Month(tt[1]), tt[2], 0, 0, 0, 0, time.UTC)
		want := civil.DayNumber(at.Year(), at.Month(), at.Day())
		if got := civil.DayNumber(tt[0], time.Month(tt[1]), tt[2]); got != want {
			t.Errorf("%v is day %d, package time says %d", tt, got, want)
		}
	}
}
