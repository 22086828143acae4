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
