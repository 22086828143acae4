package rrule

import "time"

const (
	daySeconds = 24 * 60 * 60
	lastYear   = 9999
)

// The Gregorian calendar repeats after 400 years, weekdays included.
const (
	cycleYears  = 400
	cycleMonths = cycleYears * 12
	cycleDays   = 146_097
	cycleWeeks  = cycleDays / 7
)

// date is a day of the calendar with its position.
type date struct {
	number           int64 // of days since 1970-01-01
	year             int
	month            time.Month
	day, monthLen    int
	yearDay, yearLen int
}

// numberOf returns the number of days from 1970-01-01 to a date. A day beyond the end of
// its month counts into the next month.
func numberOf(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds
}

func dateOf(number int64) date {
	t := time.Unix(number*daySeconds, 0).UTC()
	year, month, day := t.Date()
	return date{
		number: number, year: year, month: month,
		day: day, monthLen: monthLen(year, month),
		yearDay: t.YearDay(), yearLen: yearLen(year),
	}
}

func monthLen(year int, month time.Month) int {
	if month == time.February {
		return yearLen(year) - 337
	}
	return 30 + int(month+month/8)%2
}

func yearLen(year int) int {
	if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 366
	}
	return 365
}

// weekday returns the day of the week; 1970-01-01 was a Thursday.
func (d *date) weekday() time.Weekday {
	return time.Weekday(floorMod(d.number+int64(time.Thursday), 7))
}

// week returns the number of d's week and the number of weeks in that week's year. Weeks
// begin on start. A week belongs to the year with most of its days, that is, with its
// fourth day. Near New Year that may be the year before or after d's.
func (d *date) week(start time.Weekday) (n, of int) {
	fourth, yearLength := d.yearDay+3-int(d.number-weekStart(d.number, start)), d.yearLen
	switch {
	case fourth < 1:
		yearLength = yearLen(d.year - 1)
		fourth += yearLength
	case fourth > yearLength:
		fourth -= yearLength
		yearLength = yearLen(d.year + 1)
	}
	n = (fourth-1)/7 + 1
	return n, n + (yearLength-fourth)/7
}

// weekStart returns the first day of the week in which a day lies.
func weekStart(number int64, start time.Weekday) int64 {
	return number - floorMod(number+int64(time.Thursday)-int64(start), 7)
}

func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }

func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
