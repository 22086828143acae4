package calendar

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// systems are the calendars that the process knows, in the order of their registration. Like zone
// data they belong to the process: see docs/adr/0075-births.md.
var systems struct {
	sync.RWMutex
	all []System
}

// RegisterSystems makes calendars known to the whole process by their names, for [LoadSystem]. A program
// calls it once, before it uses stored names. A calendar that is known with the same [SystemInfo] stays, and
// one of a later release replaces the known one. Every scheduler of the process compares these calendars
// with those of other programs, and plans events again after a new release.
//
// The error is an [*InputError] that names each calendar that is nil, has an invalid SystemInfo, or has
// the name of a known calendar and no later release. Then none of them is registered.
func RegisterSystems(all ...System) error {
	systems.Lock()
	defer systems.Unlock()
	known := slices.Clone(systems.all)
	var bad []InputProblem
	for i, s := range all {
		if s == nil {
			bad = append(bad, InputProblem{fmt.Sprintf("calendar %d", i), "is nil"})
			continue
		}
		info := s.Info()
		same := slices.IndexFunc(known, func(k System) bool { return k.Info().Name == info.Name })
		problem := info.problem()
		if problem == "" && same >= 0 && known[same].Info() != info && info.Release <= known[same].Info().Release {
			problem = "has the name of another calendar, of release " + known[same].Info().Release
		}
		switch {
		case problem != "":
			bad = append(bad, InputProblem{fmt.Sprintf("calendar %q", excerpt.Of(info.Name, maxQuoted)), problem})
		case same < 0:
			known = append(known, s)
		case known[same].Info() != info:
			known[same] = s
		}
	}
	if len(bad) > 0 {
		return &InputError{bad}
	}
	systems.all = known
	return nil
}

// LoadSystem returns the calendar with a name that [RegisterSystems] made known. The error is an
// [*UnknownSystemError].
func LoadSystem(name string) (System, error) {
	systems.RLock()
	defer systems.RUnlock()
	for _, s := range systems.all {
		if s.Info().Name == name {
			return s, nil
		}
	}
	return nil, &UnknownSystemError{Name: excerpt.Of(name, maxQuoted)}
}

// SystemNames returns the names of all calendars that the process knows, in the order of their registration.
func SystemNames() []string {
	systems.RLock()
	defer systems.RUnlock()
	names := make([]string, len(systems.all))
	for i, s := range systems.all {
		names[i] = s.Info().Name
	}
	return names
}

// UnknownSystemError says that the process does not know a calendar. See [RegisterSystems].
type UnknownSystemError struct{ Name string } // shortened if it is long

func (e *UnknownSystemError) Error() string {
	return fmt.Sprintf("calendar: %q %s", e.Name, e.Problem())
}

// Problem says what is wrong with the name, as a clause.
func (e *UnknownSystemError) Problem() string {
	names := SystemNames()
	if len(names) == 0 {
		return "is no calendar that this program knows: it knows the Gregorian calendar alone"
	}
	return "is no calendar that this program knows; it knows " + strings.Join(names, ", ")
}

// Is makes errors.Is(err, ErrUnknownSystem) hold.
func (e *UnknownSystemError) Is(target error) bool { return target == ErrUnknownSystem }

// systemName and systemRelease match what can be stored, and read again in a [Consulted].
var (
	systemName    = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
	systemRelease = regexp.MustCompile(`^[!-+\--?A-~]{0,40}$`)
)

// problem says what is wrong with i, as a clause, or returns "".
func (i SystemInfo) problem() string {
	switch {
	case !systemName.MatchString(i.Name):
		return "has a name that is not 1 to 40 lower-case letters, digits and hyphens"
	case !systemRelease.MatchString(i.Release):
		return "has a release that is not at most 40 characters of ASCII without spaces, commas and @"
	case i.First < 1 || i.Last > 9999 || i.Last < i.First:
		return fmt.Sprintf("has the years %d to %d, which are not within 1 to 9999", i.First, i.Last)
	case i.Missing.Month == "" || i.Missing.Day == "" || len(i.Missing.problems()) > 0:
		return "does not say what is customary where a year lacks a month or a day"
	}
	return ""
}

// System returns the name of the calendar that the keys of u count by, such as "hebrew" for "year:hebrew",
// and "" for the Gregorian calendar and for keys of the host's own.
func (u Unit) System() string {
	_, name, _ := strings.Cut(string(u), ":")
	return name
}

// SystemDay returns the local day on which the occurrence happens, by the calendar that its Unit
// names. It reports false if the unit names no calendar, or one that the process does not know, or
// if that calendar does not have the day.
func (o Occurrence) SystemDay() (System, SystemDate, bool) {
	name := o.Unit.System()
	if name == "" {
		return nil, SystemDate{}, false
	}
	s, err := LoadSystem(name)
	if err != nil {
		return nil, SystemDate{}, false
	}
	day, err := s.Day(o.Wall.Date)
	return s, day, err == nil
}

// SystemDayText returns the result of SystemDay in English, as [SystemDate.In] does: "8 Adar I 5787". It is ""
// if there is none.
func (o Occurrence) SystemDayText() string {
	s, day, ok := o.SystemDay()
	if !ok {
		return ""
	}
	return day.In(s)
}

// In formats d in English with the name of its month: "8 Adar I 5787", or "8 Adar I" without a
// year. It returns d.String() if s does not have the month.
func (d SystemDate) In(s System) string {
	month, err := monthOf(s, d)
	if err != nil {
		return d.String()
	}
	if d.Year == 0 {
		return told(d.Day, month)
	}
	return fmt.Sprintf("%s %d", told(d.Day, month), d.Year)
}

// MonthIn returns the name of the month of d in English, such as "Adar I". The error is a [*SystemError].
func (d SystemDate) MonthIn(s System) (string, error) {
	month, err := monthOf(s, d)
	return month.Name, err
}

// monthOf returns the month in which a day is. Without a year, it is that of the first year that has the month.
func monthOf(s System, d SystemDate) (SystemMonth, error) {
	info := s.Info()
	first, last := d.Year, d.Year
	if d.Year == 0 {
		first, last = info.First, info.Last
	}
	for year := first; year <= last; year++ {
		months, err := s.Months(year)
		if err != nil {
			return SystemMonth{}, err
		}
		for _, m := range months {
			if m.Number == d.Month && m.Leap == d.Leap {
				return m, nil
			}
		}
	}
	return SystemMonth{}, &SystemError{System: info.Name, Problem: "has no day " + d.String()}
}
