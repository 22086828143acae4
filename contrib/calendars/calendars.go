package calendars

import (
	"fmt"
	"strings"

	"github.com/almanac-go/almanac/calendar"
)

// arithmeticRelease is the release of calendars that have no table. It changes if a rule was wrong.
const arithmeticRelease = "2026-11-28.1"

// every has all calendars, the most common ones first.
var every = append([]*system{chinese, korean, hebrew, ummAlQura, persian, ethiopic}, tabulars...)

// Names returns the names of all calendars of this package, as [Load] accepts them.
func Names() []string {
	names := make([]string, len(every))
	for i, s := range every {
		names[i] = s.info.Name
	}
	return names
}

// All returns all calendars of this package, such as for [calendar.ParseRRule].
func All() []calendar.System {
	systems := make([]calendar.System, len(every))
	for i, s := range every {
		systems[i] = s
	}
	return systems
}

// Load returns the calendar with a name of Unicode CLDR in lower case, such as "hebrew" or "dangi".
// The error is an [*UnknownError].
//
// The tabular Islamic calendars are islamic-civil, and islamic-tbla, in which each year begins a
// day earlier. Both have variants with another pattern of leap years in 30 years, and names that
// are not CLDR's:
//
//	islamic-civil      islamic-tbla       2 5 7 10 13 16 18 21 24 26 29
//	islamic-civil-i    islamic-tbla-i     2 5 7 10 13 15 18 21 24 26 29
//	islamic-civil-iii  islamic-tbla-iii   2 5 8 10 13 16 19 21 24 27 29
//	islamic-civil-iv   islamic-tbla-iv    2 5 8 11 13 16 19 21 24 27 30
//
// CLDR's islamic and islamic-rgsa are refused, since they only approximate the sighting of the moon.
func Load(name string) (calendar.System, error) {
	for _, s := range every {
		if s.info.Name == name {
			return s, nil
		}
	}
	return nil, &UnknownError{Name: name}
}

// UnknownError says that a name is not the name of a calendar of this package.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("calendars: %.50q %s", e.Name, e.Problem()) }

// Problem says what is wrong with the name, as a clause.
func (e *UnknownError) Problem() string {
	switch e.Name {
	case "islamic", "islamic-rgsa":
		return "only approximates the sighting of the moon; choose islamic-umalqura or islamic-civil"
	case "gregory", "gregorian", "iso8601":
		return "is the calendar of package calendar itself"
	case "buddhist", "japanese", "roc":
		return "has Gregorian months; only its years have other numbers"
	case "korean":
		return `is no name of a calendar; did you mean "dangi"?`
	}
	return "is none of " + strings.Join(Names(), ", ")
}
