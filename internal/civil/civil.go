// Package civil is calendar arithmetic without a clock: the proleptic Gregorian
// calendar, which is the one that Go and PostgreSQL share.
package civil

import "time"

// IsLeap reports whether year has a 29 February.
func IsLeap(year int) bool {
	return year%4 == 0 && (year%100 != 0 || year%400 == 0)
}

// DaysIn returns how many days month has in year, or 0 when month is not one of
// the twelve.
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
