package calendar

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// System is a calendar other than the Gregorian one, such as the Hebrew or the Chinese calendar. It
// numbers years and divides each into months. The module contrib/calendars has systems. A system
// never changes, and is safe for concurrent use.
//
// The months of a year have the numbers from 1, without a gap, and each year has the same numbers. A
// leap month is an additional month with the number of the month before it. A year has at most one.
// Months of the Hebrew calendar are numbered from Tishri: Shevat is month 5, Adar I is leap month 5,
// and Adar or Adar II is month 6. So RFC 7529 and the month codes of Temporal number them.
// The reasons are in docs/adr/0071-calendars.md.
type System interface {
	// Info returns the name of the calendar, and what holds for all of its years.
	Info() SystemInfo
	// Day returns the day of the calendar that a date is. The error is a [*SystemError].
	Day(d Date) (SystemDate, error)
	// Date returns the date of a day of the calendar. The error is a [*SystemError].
	Date(d SystemDate) (Date, error)
	// Months returns the months of a year in order, as a slice of the caller's own. The
	// error is a [*SystemError].
	Months(year int) ([]SystemMonth, error)
}

// SystemInfo is what holds for all years of a [System].
type SystemInfo struct {
	// Name is the name of the calendar in Unicode CLDR, such as "hebrew" or "islamic-umalqura":
	// at most 40 lower-case letters, digits and hyphens. It is part of the [Unit] of keys.
	Name string
	// Release changes when the date of any day changes. Later releases are greater, compared byte
	// by byte. It is a date, such as "2026-11-28", and may have a counter from 1 to 9 behind a dot. It has
	// at most 40 characters of ASCII without spaces, commas and @.
	Release string
	// First and Last are the first and the last year that the calendar has, both from 1 to 9999.
	First, Last int
	// Missing says what is customary where a year lacks a month or a day. Neither of its
	// policies is empty.
	Missing Missing
	// Provisional is the first date that no authority has published, so that a later release may have
	// another day for it. See [Consulted]. The zero Date means that there is none.
	Provisional Date
}

// SystemDate is a day of a [System], such as a birth date as it was given. Days are comparable with ==.
type SystemDate struct {
	Year  int  // zero for a birth date whose year is not known
	Month int  // its number, from 1
	Leap  bool // the day is in the leap month with this number
	Day   int  // of the month, from 1
}

// String formats d such that days of one calendar have the order of their texts: "5774-05L-08" for the
// 8th day of leap month 5. Without a year it is "05L-08".
func (d SystemDate) String() string {
	leap, year := "", ""
	if d.Leap {
		leap = "L"
	}
	if d.Year != 0 {
		year = fmt.Sprintf("%04d-", d.Year)
	}
	return fmt.Sprintf("%s%02d%s-%02d", year, d.Month, leap, d.Day)
}

// systemDate is the form of the text of a SystemDate.
var systemDate = regexp.MustCompile(`^(?:([0-9]{4})-)?([0-9]{2})(L?)-([0-9]{2})$`)

// ParseSystemDate reads what [SystemDate.String] writes, such as "5774-05L-08", or "05L-08" without a
// year. The day need not exist: no calendar is known here. The error is a [*FormatError].
func ParseSystemDate(s string) (SystemDate, error) {
	parts := systemDate.FindStringSubmatch(s)
	if parts == nil || parts[1] == "0000" || parts[2] == "00" || parts[4] == "00" {
		return SystemDate{}, &FormatError{excerpt.Of(s, maxQuoted), "is not of the form YYYY-MM-DD or MM-DD, with an L behind the number of a leap month"}
	}
	number := func(digits string) int {
		n, _ := strconv.Atoi(digits) // which is 0 for a year that is not there
		return n
	}
	return SystemDate{Year: number(parts[1]), Month: number(parts[2]), Leap: parts[3] != "", Day: number(parts[4])}, nil
}

// SystemMonth is a month in a year of a [System].
type SystemMonth struct {
	Number int    // from 1; a leap month has the number of the month before it
	Leap   bool   // whether this is the leap month of the year
	Days   int    // its length
	Name   string // in English: "Adar I"
}

// MissingPolicy says what happens in a year that lacks the month or the day of a yearly rule by a
// [System]. The empty policy is what is customary; see [SystemInfo].
type MissingPolicy string

// The policies for a missing month and a missing day; RFC 7529 calls them SKIP=BACKWARD, FORWARD and
// OMIT. Only a leap month can be missing.
const (
	// MissingBackward takes the month before the missing month, which has the same number,
	// and the last day of a month that is too short.
	MissingBackward MissingPolicy = "backward"
	// MissingForward takes the month after the missing month, and the first day after a
	// month that is too short.
	MissingForward MissingPolicy = "forward"
	// MissingSkip leaves the year out.
	MissingSkip MissingPolicy = "skip"
)

// Missing has a policy for a month that a year lacks, and one for a day that the month lacks. The
// first applies before the second.
type Missing struct{ Month, Day MissingPolicy }

// or returns m with each empty policy replaced by that of another.
func (m Missing) or(other Missing) Missing {
	if m.Month == "" {
		m.Month = other.Month
	}
	if m.Day == "" {
		m.Day = other.Day
	}
	return m
}

// Check returns an [*InputError] if a policy of m is neither empty nor one of those defined here.
func (m Missing) Check() error {
	var bad []InputProblem
	for _, problem := range m.problems() {
		bad = append(bad, InputProblem{"missing", problem})
	}
	if len(bad) == 0 {
		return nil
	}
	return &InputError{bad}
}

// problems says, as clauses, which policies of m are none of those defined here.
func (m Missing) problems() []string {
	var bad []string
	known := []MissingPolicy{"", MissingBackward, MissingForward, MissingSkip}
	for _, one := range []struct {
		of     string
		policy MissingPolicy
	}{{"month", m.Month}, {"day", m.Day}} {
		if !slices.Contains(known, one.policy) {
			bad = append(bad, fmt.Sprintf("%q is no policy for a missing %s", excerpt.Of(string(one.policy), maxQuoted), one.of))
		}
	}
	return bad
}

// SystemError says that a [System] does not have a day or a year.
type SystemError struct {
	System     string // the name of the calendar
	Problem    string // as a clause: "has no day 5775-05L-08"
	OutOfRange bool   // it is before the first year of the calendar, or after the last
}

func (e *SystemError) Error() string {
	return fmt.Sprintf("calendar: the calendar %s %s", e.System, e.Problem)
}

// Is makes errors.Is hold for [ErrOutOfRange] or [ErrNoSuchDay].
func (e *SystemError) Is(target error) bool {
	if e.OutOfRange {
		return target == ErrOutOfRange
	}
	return target == ErrNoSuchDay
}
