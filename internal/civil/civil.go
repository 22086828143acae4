// Package civil is calendar arithmetic without a clock. It uses the proleptic Gregorian
// calendar, as Go and PostgreSQL do.
package civil

import "time"

// IsLeap reports whether year has a 29 February.
func IsLeap(year int) bool {
	return year%4 == 0 && (year%100 != 0 || year%400 == 0)
}

// DaysIn returns how many days month has in year, or 0 when month is not 1 to 12.
func DaysIn(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if IsLeap(year) {
			return 29
		}
		return 28
	}
	if month < time.January || month > time.December {
		return 0
	}
	return 31
}

const (
	cycleYears = 400
	cycleDays  = 146097 // in 400 years
	// marchDays is the number of days from 1 March of the year 0 to 1 January of the year 1. Years are
	// counted from March, so that a leap day is the last of its year.
	marchDays = 306
)

// DayNumber counts the days from 1 January of the year 1, a Monday, to a date. A day or a month
// beyond its range counts on from there, as in [time.Date]: day 0 is the last of the month before.
func DayNumber(year int, month time.Month, day int) int {
	m := int(month) - 3
	if m < 0 {
		m, year = m+12, year-1
	}
	cycle := floor(year, cycleYears)
	of := year - cycle*cycleYears
	return cycle*cycleDays + of*365 + of/4 - of/100 + (153*m+2)/5 + day - 1 - marchDays
}

// DateOf returns the date of a day number.
func DateOf(number int) (year int, month time.Month, day int) {
	number += marchDays
	cycle := floor(number, cycleDays)
	of := number - cycle*cycleDays
	year = (of - of/1460 + of/36524 - of/146096) / 365
	of -= 365*year + year/4 - year/100
	m := (5*of + 2) / 153
	year, month, day = year+cycle*cycleYears, time.Month(m+3), of-(153*m+2)/5+1
	if m > 9 {
		year, month = year+1, month-12
	}
	return year, month, day
}

// floor divides, and rounds down.
func floor(n, by int) int {
	if n < 0 {
		n -= by - 1
	}
	return n / by
}
