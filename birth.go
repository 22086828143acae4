package almanac

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
)

// DateOfBirth is a date of birth as it was given: by the Gregorian calendar, or by another one that it
// names. It has a year, or is a day of the year if the year is not known. [NewUser] checks that the
// date is not in the future, which depends on the user's zone. Values are comparable with ==. The zero
// DateOfBirth means that the date is not known. NewUser accepts it, and a date without a year, only with
// [WithOptionalProfile].
//
// A date by another calendar is never converted: in some calendars a day begins at sunset, so a birth has no
// certain Gregorian date. See docs/adr/0075-births.md.
type DateOfBirth struct {
	date   calendar.Date       // if it is Gregorian
	day    calendar.SystemDate // otherwise
	system string              // the name of the calendar of day
}

// earliestBirth is before the birth of anyone alive; an earlier date is a typing error.
var earliestBirth = calendar.Date{Year: 1900, Month: time.January, Day: 1}

// ParseDateOfBirth parses a date of birth in the form "1990-03-15", or without a year in
// the form "--03-15" or "--0315" (RFC 6350). The date exists, and is not before 1900-01-01.
//
// The calendar is "" for the Gregorian one, or a name that [calendar.LoadSystem] knows, such as "hebrew".
// Then the forms are "5774-05L-08" and "--05L-08", with an L behind the number of a leap month. The error is an
// [*InvalidDateOfBirthError], or a [*calendar.UnknownSystemError].
func ParseDateOfBirth(s, by string) (DateOfBirth, error) {
	d, err := StoredDateOfBirth(s, by)
	if err != nil || d.system == "" {
		return d, err
	}
	system, err := calendar.LoadSystem(by)
	if err != nil {
		return DateOfBirth{}, err
	}
	if d.day.Year == 0 {
		_, err = calendar.YearlyBy{System: system, Month: d.day.Month, Leap: d.day.Leap, Day: d.day.Day}.After(calendar.WallTime{}, calendar.Policies{})
		if bad, ok := errors.AsType[*calendar.InvalidRecurrenceError](err); ok {
			return DateOfBirth{}, &InvalidDateOfBirthError{Value: s, Reason: "is no day of a year: " + strings.Join(bad.Problems, "; ")}
		}
		return d, err
	}
	date, err := system.Date(d.day)
	switch {
	case errors.Is(err, calendar.ErrOutOfRange):
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: s, Reason: "is beyond the years of the calendar " + by}
	case err != nil:
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: s, Reason: "is no day of the calendar " + by}
	}
	if date.Before(earliestBirth) {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: s, Reason: "is before " + earliestBirth.String()}
	}
	return d, nil
}

// StoredDateOfBirth reads what [DateOfBirth.String] wrote, as a repository does. It does not look for the
// calendar, so a program can read a user whose calendar it does not know. The error is an
// [*InvalidDateOfBirthError].
func StoredDateOfBirth(s, by string) (DateOfBirth, error) {
	day, noYear := strings.CutPrefix(s, "--")
	if by != "" {
		d, err := calendar.ParseSystemDate(day)
		if err != nil || noYear != (d.Year == 0) {
			return DateOfBirth{}, &InvalidDateOfBirthError{Value: excerpt.Of(s, 32),
				Reason: "is not of the form YYYY-MM-DD or --MM-DD, with an L behind the number of a leap month"}
		}
		return DateOfBirth{day: d, system: by}, nil
	}
	if noYear {
		return parseDayOfBirth(s, day)
	}
	date, err := calendar.ParseDate(s)
	if err != nil {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: excerpt.Of(s, 32), Reason: problemOf(err)}
	}
	if date.Before(earliestBirth) {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: s, Reason: "is before " + earliestBirth.String()}
	}
	return DateOfBirth{date: date}, nil
}

// parseDayOfBirth parses a Gregorian date of birth without a year, of which day follows the "--".
func parseDayOfBirth(s, day string) (DateOfBirth, error) {
	if len(day) == len("0315") {
		day = day[:2] + "-" + day[2:]
	}
	date, err := calendar.ParseDate("2000-" + day) // a leap year has each day
	if err != nil {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: excerpt.Of(s, 32), Reason: "is not a day of the year in the form --MM-DD"}
	}
	date.Year = 0
	return DateOfBirth{date: date}, nil
}

// Calendar returns the name of the calendar by which the date was given, such as "hebrew", or "" for the
// Gregorian calendar.
func (d DateOfBirth) Calendar() string { return d.system }

// Date returns the Gregorian date. Its Year is 0 if the year is not known. The result is the zero Date if d
// is zero or by another calendar.
func (d DateOfBirth) Date() calendar.Date { return d.date }

// Day returns the day by the calendar of d. Its Year is 0 if the year is not known. All its fields are zero if d is zero.
func (d DateOfBirth) Day() calendar.SystemDate {
	if d.system != "" {
		return d.day
	}
	return calendar.SystemDate{Year: d.date.Year, Month: int(d.date.Month), Day: d.date.Day}
}

// IsZero reports whether the date is not known.
func (d DateOfBirth) IsZero() bool { return d == DateOfBirth{} }

// Year returns the year of the calendar of d. It reports false if the year is not known. Do not subtract it
// from a Gregorian year: see [DateOfBirth.Age].
func (d DateOfBirth) Year() (year int, known bool) {
	year = d.Day().Year
	return year, year != 0
}

// String formats d as "1990-03-15", or as "--03-15" if the year is not known. A date by another calendar
// is "5774-05L-08" or "--05L-08". The zero DateOfBirth is "".
func (d DateOfBirth) String() string {
	switch {
	case d.IsZero():
		return ""
	case d.system != "" && d.day.Year == 0:
		return "--" + d.day.String()
	case d.system != "":
		return d.day.String()
	case d.date.Year == 0:
		return fmt.Sprintf("--%02d-%02d", d.date.Month, d.date.Day)
	}
	return d.date.String()
}

// Birthdays returns the rule of the birthdays, each at a time of day: a [calendar.Yearly], or a
// [calendar.YearlyBy] whose keys are years of the calendar of d. [calendar.Policies] say what happens in a year
// without the month or the day.
//
// The error matches [calendar.ErrNoOccurrence] if d is zero. It is a [*calendar.UnknownSystemError] if this
// program does not know the calendar.
func (d DateOfBirth) Birthdays(at calendar.Clock) (calendar.Recurrence, error) {
	switch d.system {
	case "":
		if d.IsZero() {
			return nil, fmt.Errorf("%w: the date of birth is not known", calendar.ErrNoOccurrence)
		}
		return calendar.Yearly{Month: d.date.Month, Day: d.date.Day, At: at}, nil
	default:
		system, err := calendar.LoadSystem(d.system)
		if err != nil {
			return nil, err
		}
		return calendar.YearlyBy{System: system, Month: d.day.Month, Leap: d.day.Leap, Day: d.day.Day, At: at}, nil
	}
}

// Age returns how old the user is on a birthday, in years of the calendar of d. The key and the unit are
// those of the occurrence. It reports false if the year of birth is not known, or if the keys are not years
// of that calendar.
func (d DateOfBirth) Age(o calendar.Occurrence) (years int, known bool) {
	born, known := d.Year()
	unit := calendar.UnitYear
	if d.system != "" {
		unit += calendar.Unit(":" + d.system)
	}
	if !known || o.Unit != unit {
		return 0, false
	}
	year, err := yearOf(o.Key)
	return year - born, err == nil
}

// withBirth applies the changes of the date of birth and of its calendar. It reports whether the date is valid.
func (u *User) withBirth(c ProfileChange, optional bool, refuse func(field, problem string, err error)) bool {
	if c.DateOfBirth == nil && c.Calendar == nil {
		return true
	}
	by := u.DateOfBirth.system
	if c.Calendar != nil && *c.Calendar != by {
		by = *c.Calendar
		if _, err := calendar.LoadSystem(by); by != "" && err != nil {
			refuse("calendar", problemOf(err), err)
			return false
		}
		if c.DateOfBirth == nil {
			refuse("dateOfBirth", "is required with another calendar", nil)
			return false
		}
	}
	if c.DateOfBirth == nil { // the calendar stays
		return true
	}
	if c.Calendar == nil && by != "" && *c.DateOfBirth != "" { // 1990-03-15 is a day of most calendars
		refuse("calendar", "is required: the stored date is by the calendar "+by, nil)
		return false
	}
	if c.Calendar != nil && by != "" && optional && *c.DateOfBirth == "" {
		refuse("calendar", "needs a date of birth", nil)
		return false
	}
	var err error
	if u.DateOfBirth, err = dateOfBirth(*c.DateOfBirth, by, optional); err != nil {
		field := "dateOfBirth"
		if errors.Is(err, calendar.ErrUnknownSystem) { // the calendar is the stored one
			field = "calendar"
		}
		refuse(field, problemOf(err), err)
	}
	return err == nil
}

// dateOfBirth parses a date of birth. If optional is true, it accepts "", and dates without a year.
func dateOfBirth(s, by string, optional bool) (DateOfBirth, error) {
	switch {
	case s == "" && optional:
		return DateOfBirth{}, nil
	case s == "":
		return DateOfBirth{}, &InvalidDateOfBirthError{Reason: "is empty"}
	}
	d, err := ParseDateOfBirth(s, by)
	if _, known := d.Year(); err == nil && !known && !optional {
		err = &InvalidDateOfBirthError{Value: s, Reason: "has no year"}
	}
	return d, err
}

// isUnborn reports whether the date of birth is after the present date in the user's zone. A date by another
// calendar may be a day later, because its days may begin at sunset. If this program does not know the
// calendar, the date was checked by another program.
func (u *User) isUnborn(now time.Time) bool {
	d := u.DateOfBirth
	if d.system == "" {
		return latestBirth(u, now).Before(d.date)
	}
	system, err := calendar.LoadSystem(d.system)
	if err != nil || d.day.Year == 0 {
		return false
	}
	date, err := system.Date(d.day)
	return err == nil && latestBirth(u, now).AddDays(1).Before(date)
}

// latestBirth returns the present date in the user's zone. If the zone is not known, it returns
// the present date in the easternmost zone, so that a date in the future is still reported.
func latestBirth(u *User, now time.Time) calendar.Date {
	if u.Timezone.IsZero() {
		return calendar.DateOf(now.UTC().Add(14 * time.Hour))
	}
	return u.Timezone.WallTime(now).Date
}
