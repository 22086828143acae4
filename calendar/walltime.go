package calendar

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/almanac-go/almanac/internal/civil"
	"github.com/almanac-go/almanac/internal/excerpt"
)

// Date is a day of the proleptic Gregorian calendar, without a zone. Dates are comparable
// with ==. The zero Date is not valid.
type Date struct {
	Year  int        // 1 to 9999
	Month time.Month // January to December
	Day   int        // 1 to the length of the month
}

// ParseDate reads a date in the form "2006-01-02". The error is a [*FormatError].
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || len(s) != len(time.DateOnly) || t.Year() < 1 {
		return Date{}, &FormatError{excerpt.Of(s, maxQuoted), dateProblem(s)}
	}
	return DateOf(t), nil
}

// dateProblem says, as a clause, why a text is not a date: it has another form, or there is no such day.
func dateProblem(s string) string {
	if !looksLike(s, time.DateOnly) {
		return "is not a date of the form YYYY-MM-DD"
	}
	year, _ := strconv.Atoi(s[:4]) // looksLike has seen digits
	month, _ := strconv.Atoi(s[5:7])
	switch {
	case year < 1:
		return "is not a day of the calendar: years are 0001 to 9999"
	case month < 1 || month > 12:
		return "is not a day of the calendar: months are 01 to 12"
	}
	return fmt.Sprintf("is not a day of the calendar: %s %d has %d days", time.Month(month), year, civil.DaysIn(year, time.Month(month)))
}

// clockProblem says, as a clause, that a text in one of the layouts is a reading that no
// clock shows, or "" where it has another form.
func clockProblem(s string, layouts ...string) string {
	if slices.ContainsFunc(layouts, func(layout string) bool { return looksLike(s, layout) }) {
		return "is not a time of day: hours are 00 to 23, minutes and seconds 00 to 59"
	}
	return ""
}

// looksLike reports whether s has digits where the layout has, and is equal elsewhere.
func looksLike(s, layout string) bool {
	if len(s) != len(layout) {
		return false
	}
	for i := range len(s) {
		digit := s[i] >= '0' && s[i] <= '9'
		if wanted := layout[i] >= '0' && layout[i] <= '9'; digit != wanted || !digit && s[i] != layout[i] {
			return false
		}
	}
	return true
}

// DateOf returns the date that t's own location shows at t.
func DateOf(t time.Time) Date {
	year, month, day := t.Date()
	return Date{year, month, day}
}

// Valid reports whether d exists in the calendar and lies in the years 1 to 9999.
func (d Date) Valid() bool {
	return d.Year >= 1 && d.Year <= 9999 && d.Day >= 1 && d.Day <= civil.DaysIn(d.Year, d.Month)
}

// Before reports whether d comes before other.
func (d Date) Before(other Date) bool { return d.Compare(other) < 0 }

// Compare returns -1 if d comes before other, +1 if it comes after it, and 0 if both are the same.
func (d Date) Compare(other Date) int {
	return cmp.Or(cmp.Compare(d.Year, other.Year), cmp.Compare(d.Month, other.Month), cmp.Compare(d.Day, other.Day))
}

// AddDays returns the day so many days after d, or before it if days is negative. It is not
// [Date.Valid] if it lies outside of the years 1 to 9999.
func (d Date) AddDays(days int) Date { return dateOf(dayNumber(d) + days) }

// DaysUntil returns how many days other is after d. It is negative if other comes before d.
func (d Date) DaysUntil(other Date) int { return dayNumber(other) - dayNumber(d) }

// Weekday returns the day of the week.
func (d Date) Weekday() time.Weekday { return weekdayOn(dayNumber(d)) }

// String formats d as "2006-01-02".
func (d Date) String() string {
	if uint(d.Year) > 9999 || uint(d.Month) > 99 || uint(d.Day) > 99 {
		return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day)
	}
	text := []byte("0000-00-00") // without fmt, since each slot has a date as its key
	for i, digits := range [...]int{d.Year / 100, d.Year % 100, int(d.Month), d.Day} {
		at := []int{0, 2, 5, 8}[i]
		text[at], text[at+1] = '0'+byte(digits/10), '0'+byte(digits%10)
	}
	return string(text)
}

// MarshalText returns d in the form "2006-01-02". The zero Date is "".
func (d Date) MarshalText() ([]byte, error) {
	if d == (Date{}) {
		return []byte{}, nil
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads what MarshalText writes, as [ParseDate] does.
func (d *Date) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*d = Date{}
		return nil
	}
	*d, err = ParseDate(string(text))
	return err
}

// Clock is a reading of a 24-hour clock. Clocks are comparable with ==. The zero Clock is midnight.
type Clock struct {
	Hour   int // 0 to 23
	Minute int // 0 to 59
	Second int // 0 to 59; wall clocks do not show leap seconds
}

// ParseClock reads a clock reading in the form "15:04" or "15:04:05". The error is a [*FormatError].
func ParseClock(s string) (Clock, error) {
	layout := time.TimeOnly
	if len(s) == len("15:04") {
		layout = "15:04"
	}
	t, err := time.Parse(layout, s)
	if err != nil || len(s) != len(layout) {
		problem := cmp.Or(clockProblem(s, "15:04", time.TimeOnly), "is not a time of day of the form HH:MM or HH:MM:SS")
		return Clock{}, &FormatError{excerpt.Of(s, maxQuoted), problem}
	}
	return Clock{t.Hour(), t.Minute(), t.Second()}, nil
}

// Valid reports whether every part of c is in its range.
func (c Clock) Valid() bool {
	return c.Hour >= 0 && c.Hour <= 23 && c.Minute >= 0 && c.Minute <= 59 && c.Second >= 0 && c.Second <= 59
}

// Before reports whether c comes before other on one day.
func (c Clock) Before(other Clock) bool { return c.Compare(other) < 0 }

// Compare returns -1 if c comes before other on one day, +1 if it comes after it, and 0 if both are the same.
func (c Clock) Compare(other Clock) int {
	return cmp.Or(cmp.Compare(c.Hour, other.Hour), cmp.Compare(c.Minute, other.Minute), cmp.Compare(c.Second, other.Second))
}

// String formats c as "15:04:05".
func (c Clock) String() string {
	return fmt.Sprintf("%02d:%02d:%02d", c.Hour, c.Minute, c.Second)
}

// WallTime is what a calendar and a clock on a wall show: a date and a reading,
// to the second, without zone or offset. It is not an instant; a [Timezone]
// resolves it to one. WallTimes are comparable with ==.
type WallTime struct {
	Date  Date
	Clock Clock
}

// wallLayout is ISO 8601 without an offset, which is also how PostgreSQL reads a
// timestamp without time zone.
const wallLayout = "2006-01-02T15:04:05"

// wallMinutes is wallLayout without seconds.
const wallMinutes = "2006-01-02T15:04"

// ParseWallTime reads a wall time in the form "2006-01-02T15:04:05" or "2006-01-02T15:04". The error is a [*FormatError].
func ParseWallTime(s string) (WallTime, error) {
	layout := wallLayout
	if len(s) == len(wallMinutes) {
		layout = wallMinutes
	}
	t, err := time.Parse(layout, s)
	if err != nil || len(s) != len(layout) || t.Year() < 1 {
		problem := "is not a wall time of the form YYYY-MM-DDTHH:MM or YYYY-MM-DDTHH:MM:SS"
		if looksLike(s, layout) {
			date, clock := s[:len(time.DateOnly)], s[len(time.DateOnly)+1:]
			if _, wrong := ParseDate(date); wrong != nil {
				problem = dateProblem(date)
			} else {
				problem = clockProblem(clock, time.TimeOnly, "15:04")
			}
		}
		return WallTime{}, &FormatError{excerpt.Of(s, maxQuoted), problem}
	}
	return WallTimeOf(t), nil
}

// WallTimeOf returns what clocks in t's own location show at t, cut to the second.
func WallTimeOf(t time.Time) WallTime {
	return WallTime{DateOf(t), Clock{t.Hour(), t.Minute(), t.Second()}}
}

// Valid reports whether both the date and the clock reading exist.
func (w WallTime) Valid() bool { return w.Date.Valid() && w.Clock.Valid() }

// Before reports whether w comes before other on the wall, which says nothing of the
// instants at which clocks show them. The zero WallTime comes before every valid one.
func (w WallTime) Before(other WallTime) bool {
	if w.Date != other.Date {
		return w.Date.Before(other.Date)
	}
	return w.Clock.Before(other.Clock)
}

// Compare returns -1 if w comes before other on the wall, +1 if it comes after it, and 0 if both are
// the same. See [WallTime.Before].
func (w WallTime) Compare(other WallTime) int {
	return cmp.Or(w.Date.Compare(other.Date), w.Clock.Compare(other.Clock))
}

// Labelled returns w with the label UTC: the form in which a wall time is stored, compared and
// handed to calendar arithmetic. It is not the instant at which any clock but one in UTC shows w.
func (w WallTime) Labelled() time.Time {
	return time.Date(w.Date.Year, w.Date.Month, w.Date.Day, w.Clock.Hour, w.Clock.Minute, w.Clock.Second, 0, time.UTC)
}

// String formats w as "2006-01-02T15:04:05".
func (w WallTime) String() string { return w.Date.String() + "T" + w.Clock.String() }
