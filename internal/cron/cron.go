// Package cron parses cron expressions and finds the next clock reading that matches one.
//
// A reading is a date and a time of day to the second, in a [time.Time] with location UTC.
// The package knows no zones and no clock changes. The caller turns readings into instants.
// Why this is not an existing library: docs/adr/0015-recurrences.md.
//
// # Syntax
//
// An expression is five fields with blanks between them, or six with the seconds first; five mean second 0.
//
//	field         values   names
//	second        0-59
//	minute        0-59
//	hour          0-23
//	day-of-month  1-31     L, W
//	month         1-12     JAN-DEC
//	day-of-week   0-7      SUN-SAT; both 0 and 7 are Sunday
//
// A field is a list of items between commas, each of them one of
//
//   - every value; in the two day fields ? is another way to write it
//     5        a value
//     10-20    a range, both ends included
//     L        in day-of-month: the last day of the month
//     L-3      in day-of-month: the last day minus 3, the 28th of 31; the number is 1 to 30
//     15W      in day-of-month: the day from Monday to Friday nearest to the 15th
//     LW       in day-of-month: the last day from Monday to Friday
//     5L       in day-of-week: the last Friday of the month
//     5#2      in day-of-week: the second Friday of the month; the number is 1 to 5
//
// and the first three may end in a step: */15, 10-20/3, and 7/15, which goes from 7 to the last
// value of the field. A step is at least 1 and at most the number of values in the field: */90
// minutes would be */60, which is not what is meant by it. Names, L and W may be in any case.
//
// 15W is the 14th if the 15th is a Saturday, and the 16th if it is a Sunday. It does not leave its
// month: 1W is the 3rd if the 1st is a Saturday, and 31W the 29th if the 31st is a Sunday. A month
// without the day has no such day, so April has no 31W, and February no L-30. W knows weekends and
// no holidays.
//
// A range does not wrap: 22-2 is an error, and 22-23,0-2 the way to write it. A
// week ends on Sunday as well as it begins with it, so FRI-SUN is a range.
//
// The macros @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly stand for "0 0 1
// 1 *", the same, "0 0 1 * *", "0 0 * * 0", "0 0 * * *", the same, and "0 * * * *".
//
// # The two day fields
//
// A day must satisfy both day-of-month and day-of-week, unless both are restricted: then it must
// satisfy at least one, so that "0 0 13 * FRI" is every 13th and every Friday. That is POSIX's
// rule. A field is unrestricted if it begins with * or ?, whatever follows, which is how Vixie's
// cron and its successors read the word: "0 0 */2 * MON" is each Monday with an odd date.
package cron

import (
	"math/bits"
	"time"
)

// Readings are in the years with four digits.
const (
	firstYear = 1
	lastYear  = 9999
)

// cycle is the number of years after which dates fall on the same weekdays again. A day
// that does not occur within one cycle never occurs.
const cycle = 400

// Schedule is a cron expression parsed by [Parse]. It is an immutable value, safe for
// concurrent use. Two are equal when their expressions are, except for blanks: "@daily" and
// "0 0 * * *" mean the same, but differ. The zero Schedule has no readings.
type Schedule struct {
	text string // the expression, one blank between fields

	seconds, minutes, hours, months set

	// days is the set of days of the month; 0 means the last day, and 31+n the last day minus n.
	days set

	// near is the set of days of the month of which the nearest weekday counts; 0 means the last weekday.
	near set

	// weekdays has a row of seven elements, from Sunday on, for each occurrence of a weekday in its month:
	// the first to the fifth, and a row for the last. A weekday without a number is in the first five rows.
	weekdays set

	// either means that one of the two day fields suffices.
	either bool
}

// The rows of Schedule.weekdays.
const (
	everyRow = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 // times a row: that row in each of the first five
	lastRow  = 35
)

// String returns the expression with normalized blanks: one between fields, none around
// them. [Parse] of the result returns an equal Schedule.
func (s Schedule) String() string { return s.text }

// OncePerDay reports whether s has only one time of day: one second of one minute of one hour, on any days.
func (s Schedule) OncePerDay() bool {
	return s.seconds.size() == 1 && s.minutes.size() == 1 && s.hours.size() == 1
}

// Next returns the first reading strictly after the given one, in [time.UTC] and without a
// fraction of a second. It returns false when there is none up to the end of the year 9999.
// Then s has no readings, like "0 0 30 2 *", or no further ones.
//
// Next uses the date and time that after shows; after should be in UTC too. A reading
// before the year 1 counts as the moment before that year.
func (s Schedule) Next(after time.Time) (time.Time, bool) {
	year, month, day := after.Date()
	if year < firstYear {
		year, month, day = firstYear, time.January, 0
	}
	hour, minute, second, ok := s.clockAfter(after.Clock())
	if !ok || !s.months.has(int(month)) || !s.daysOf(year, month).has(day) {
		year, month, day, ok = s.dateAfter(year, month, day)
		hour, minute, second = s.hours.first(), s.minutes.first(), s.seconds.first()
	}
	if !ok || year > lastYear {
		return time.Time{}, false
	}
	return time.Date(year, month, day, hour, minute, second, 0, time.UTC), true
}

// clockAfter returns the first time of day after the given one, or false when the day has none.
func (s Schedule) clockAfter(hour, minute, second int) (h, m, sec int, ok bool) {
	if s.hours.has(hour) {
		if s.minutes.has(minute) {
			if next := s.seconds.after(second); next != none {
				return hour, minute, next, true
			}
		}
		if next := s.minutes.after(minute); next != none {
			return hour, next, s.seconds.first(), true
		}
	}
	next := s.hours.after(hour)
	return next, s.minutes.first(), s.seconds.first(), next != none
}

// dateAfter returns the first date after the given one, or false when a whole cycle of the
// calendar has none.
func (s Schedule) dateAfter(year int, month time.Month, day int) (y int, m time.Month, d int, ok bool) {
	for end := year + cycle; year <= end; {
		if s.months.has(int(month)) {
			if next := s.daysOf(year, month).after(day); next != none {
				return year, month, next, true
			}
		}
		day = 0
		month = time.Month(s.months.after(int(month)))
		if month == none {
			year++
			month = time.Month(s.months.first())
		}
	}
	return 0, 0, 0, false
}

// daysOf returns the days of one month that satisfy the two day fields.
func (s Schedule) daysOf(year int, month time.Month) set {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	length := last.Day()
	first := (int(last.Weekday()) + 36 - length) % 7 // the weekday of the 1st

	byDate := s.days & (1<<32 - 1)
	if byDate.has(0) {
		byDate |= 1 << length
	}
	for back := s.days >> 32; back != 0; back &= back - 1 {
		byDate |= 1 << max(length-1-back.first(), 0)
	}
	for near := s.near; near != 0; near &= near - 1 {
		byDate |= 1 << nearest(near.first(), first, length)
	}

	// The first of a weekday is among the dates 1 to 7, the second among 8 to 14, and the
	// last among the last seven of the month.
	var byWeekday set
	for n := range 5 {
		byWeekday |= week(s.weekdays>>(7*n), first) << (7*n + 1)
	}
	byWeekday |= week(s.weekdays>>lastRow, first+length) << (length - 6)

	all := set(1)<<(length+1) - 2 // from the 1st on
	if s.either {
		return (byDate | byWeekday) & all
	}
	return byDate & byWeekday & all
}

// nearest returns the weekday from Monday to Friday that is nearest to a day of the month, and not
// in another month. For day 0 it returns the last one, and for a day that the month lacks 0. The
// month begins on the weekday first, and has length days.
func nearest(day, first, length int) int {
	if day == 0 {
		day = length
	}
	if day > length {
		return 0
	}
	switch weekday := time.Weekday((first + day - 1) % 7); {
	case weekday == time.Saturday && day > 1:
		return day - 1
	case weekday == time.Saturday:
		return day + 2
	case weekday == time.Sunday && day < length:
		return day + 1
	case weekday == time.Sunday:
		return day - 2
	}
	return day
}

// week returns the lowest seven elements of weekdays, counted from the weekday
// first (modulo 7) instead of from Sunday.
func week(weekdays set, first int) set {
	first %= 7
	row := weekdays & (1<<7 - 1)
	return (row>>first | row<<(7-first)) & (1<<7 - 1)
}

// set is a set of numbers from 0 to 63.
type set uint64

// none is the result when no element qualifies. No field has that value.
const none = 64

func (s set) has(n int) bool { return s>>n&1 == 1 }

func (s set) size() int { return bits.OnesCount64(uint64(s)) }

// first returns the smallest element, or none.
func (s set) first() int { return bits.TrailingZeros64(uint64(s)) }

// after returns the smallest element above n, or none.
func (s set) after(n int) int { return (s >> (n + 1) << (n + 1)).first() }
