package calendars

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// system is a [calendar.System]: a numbered sequence of years. Its fields never change.
type system struct {
	info  calendar.SystemInfo
	year  func(number int) year // of a year from info.First to info.Last
	name  func(number int, leap bool, in year) string
	begin int // the number of the first day
	end   int // the number of the day after the last one
}

// newSystem completes the description of a calendar.
func newSystem(s system) *system {
	s.begin = s.year(s.info.First).first
	last := s.year(s.info.Last)
	s.end = last.first + last.length()
	return &s
}

// year is one year of a calendar.
type year struct {
	first  int       // the number of its first day
	leap   int       // the number of the leap month, zero if there is none
	months int       // how many it has
	days   [13]uint8 // the lengths of the months in order
}

func (y year) length() int {
	sum := 0
	for _, n := range y.days {
		sum += int(n)
	}
	return sum
}

// month returns the number of the month at an index, and whether it is the leap month.
func (y year) month(at int) (number int, leap bool) {
	if y.leap == 0 || at < y.leap {
		return at + 1, false
	}
	return at, at == y.leap
}

// index returns where a month is among those of the year, or -1 if the year lacks it.
func (y year) index(number int, leap bool) int {
	at := number - 1
	if leap || y.leap > 0 && number > y.leap {
		at = number
	}
	if number < 1 || at >= y.months || leap && number != y.leap {
		return -1
	}
	return at
}

// withLeap inserts a leap month after the month with its number.
func (y year) withLeap(number int, days uint8) year {
	copy(y.days[number+1:], y.days[number:])
	y.leap, y.days[number] = number, days
	y.months++
	return y
}

// row is a year of a table in which months have 29 or 30 days.
type row struct {
	first int32  // the number of the first day
	leap  uint8  // the number of the leap month, zero if there is none
	long  uint16 // the months with 30 days: bit 0 is for the first month of the year
}

func (r row) year() year {
	y := year{first: int(r.first), leap: int(r.leap), months: 12}
	if r.leap > 0 {
		y.months = 13
	}
	for at := range y.months {
		y.days[at] = uint8(29 + r.long>>at&1)
	}
	return y
}

// Info returns what holds for all years.
func (s *system) Info() calendar.SystemInfo { return s.info }

// Day finds the year in proportion, which is off by one year at most, and then counts months.
func (s *system) Day(d calendar.Date) (calendar.SystemDate, error) {
	if !d.Valid() {
		return calendar.SystemDate{}, s.lacks(false, "%s, which no calendar has", d)
	}
	day := numberOf(d)
	if day < s.begin || day >= s.end {
		return calendar.SystemDate{}, s.lacks(true, "%s: its years are %d to %d", d, s.info.First, s.info.Last)
	}
	years := s.info.Last - s.info.First + 1
	number := s.info.First + int(int64(day-s.begin)*int64(years)/int64(s.end-s.begin))
	y := s.year(number)
	for day < y.first {
		number--
		y = s.year(number)
	}
	for rest := y.length(); day >= y.first+rest; rest = y.length() {
		number++
		y = s.year(number)
	}
	at, rest := 0, day-y.first
	for ; rest >= int(y.days[at]); at++ {
		rest -= int(y.days[at])
	}
	month, leap := y.month(at)
	return calendar.SystemDate{Year: number, Month: month, Leap: leap, Day: rest + 1}, nil
}

// Date is the way back from Day.
func (s *system) Date(d calendar.SystemDate) (calendar.Date, error) {
	if err := s.check(d.Year); err != nil {
		return calendar.Date{}, err
	}
	y := s.year(d.Year)
	at := y.index(d.Month, d.Leap)
	if at < 0 || d.Day < 1 || d.Day > int(y.days[at]) {
		return calendar.Date{}, s.lacks(false, "day %s", d)
	}
	day := y.first + d.Day - 1
	for _, n := range y.days[:at] {
		day += int(n)
	}
	return dateOf(day), nil
}

// Months lists the months of a year.
func (s *system) Months(number int) ([]calendar.SystemMonth, error) {
	if err := s.check(number); err != nil {
		return nil, err
	}
	y := s.year(number)
	months := make([]calendar.SystemMonth, y.months)
	for at := range months {
		month, leap := y.month(at)
		months[at] = calendar.SystemMonth{Number: month, Leap: leap, Days: int(y.days[at]), Name: s.name(month, leap, y)}
	}
	return months, nil
}

// check refuses a year that the calendar does not have.
func (s *system) check(number int) error {
	if number < s.info.First || number > s.info.Last {
		return s.lacks(true, "year %d: its years are %d to %d", number, s.info.First, s.info.Last)
	}
	return nil
}

func (s *system) lacks(outOfRange bool, format string, args ...any) error {
	return &calendar.SystemError{System: s.info.Name, Problem: "has no " + fmt.Sprintf(format, args...), OutOfRange: outOfRange}
}

// Days are numbered from 1 January of the year 1, which is day 1, as in Calendrical Calculations.
const (
	unixDay       = 719163 // 1 January 1970
	secondsPerDay = 24 * 60 * 60
)

func numberOf(d calendar.Date) int {
	return int(time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Unix()/secondsPerDay) + unixDay
}

func dateOf(day int) calendar.Date {
	return calendar.DateOf(time.Unix(int64(day-unixDay)*secondsPerDay, 0).UTC())
}
