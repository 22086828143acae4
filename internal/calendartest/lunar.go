package calendartest

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// Lunar is an invented calendar with everything that a [calendar.System] can have. Its months have
// 30 and 29 days in turn, but month 12 has 30 days in each fifth year. Each third year has a leap
// month of 30 days, after another month each time.
type Lunar struct{}

const (
	lunarFirst = 1700
	lunarLast  = 2199
)

// lunarYears has the months of each year.
var lunarYears = sync.OnceValue(func() [][]calendar.SystemMonth {
	var years [][]calendar.SystemMonth
	for year := lunarFirst; year <= lunarLast; year++ {
		years = append(years, lunarMonths(year))
	}
	return years
})

// lunarBegins has the first day of each year, and of the year after the last.
var lunarBegins = sync.OnceValue(func() []time.Time {
	begins := []time.Time{time.Date(lunarFirst, time.January, 20, 0, 0, 0, 0, time.UTC)}
	for _, months := range lunarYears() {
		days := 0
		for _, m := range months {
			days += m.Days
		}
		begins = append(begins, begins[len(begins)-1].AddDate(0, 0, days))
	}
	return begins
})

func lunarMonths(year int) []calendar.SystemMonth {
	var months []calendar.SystemMonth
	for n := 1; n <= 12; n++ {
		m := calendar.SystemMonth{Number: n, Days: 29 + n%2, Name: fmt.Sprintf("Moon %d", n)}
		if n == 12 && year%5 == 0 {
			m.Days = 30
		}
		months = append(months, m)
		if year%3 == 0 && n == 1+year/3%12 {
			months = append(months, calendar.SystemMonth{Number: n, Leap: true, Days: 30, Name: fmt.Sprintf("Leap Moon %d", n)})
		}
	}
	return months
}

// Info has both policies forward, unlike the default of rules for the Gregorian calendar.
func (Lunar) Info() calendar.SystemInfo {
	forward := calendar.Missing{Month: calendar.MissingForward, Day: calendar.MissingForward}
	return calendar.SystemInfo{Name: "lunar", Release: "1", First: lunarFirst, Last: lunarLast, Missing: forward}
}

// Day counts from the first day of the year.
func (l Lunar) Day(d calendar.Date) (calendar.SystemDate, error) {
	at := calendar.WallTime{Date: d}.Labelled()
	begins := lunarBegins()
	i := sort.Search(len(begins), func(i int) bool { return begins[i].After(at) }) - 1
	if i < 0 || i == len(begins)-1 {
		return calendar.SystemDate{}, l.wrong(d, true)
	}
	day := int(at.Sub(begins[i])/(24*time.Hour)) + 1
	for _, m := range lunarYears()[i] {
		if day <= m.Days {
			return calendar.SystemDate{Year: lunarFirst + i, Month: m.Number, Leap: m.Leap, Day: day}, nil
		}
		day -= m.Days
	}
	return calendar.SystemDate{}, l.wrong(d, false)
}

// Date is the way back from Day.
func (l Lunar) Date(d calendar.SystemDate) (calendar.Date, error) {
	months, err := l.Months(d.Year)
	if err != nil {
		return calendar.Date{}, err
	}
	at := lunarBegins()[d.Year-lunarFirst]
	for _, m := range months {
		if m.Number == d.Month && m.Leap == d.Leap && d.Day >= 1 && d.Day <= m.Days {
			return calendar.DateOf(at.AddDate(0, 0, d.Day-1)), nil
		}
		at = at.AddDate(0, 0, m.Days)
	}
	return calendar.Date{}, l.wrong(d, false)
}

// Months lists the months of a year.
func (l Lunar) Months(year int) ([]calendar.SystemMonth, error) {
	if year < lunarFirst || year > lunarLast {
		return nil, l.wrong(year, true)
	}
	return slices.Clone(lunarYears()[year-lunarFirst]), nil
}

func (Lunar) wrong(what any, outOfRange bool) error {
	return &calendar.SystemError{System: "lunar", Problem: fmt.Sprintf("has no %v", what), OutOfRange: outOfRange}
}
