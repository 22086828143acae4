package command

import (
	"errors"
	"fmt"
	"os"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
	"github.com/almanac-go/almanac/contrib/holidays"
)

// days are the working days and the hours of the week in which occurrences may be.
type days struct {
	Hours       string `help:"Hours of the week, such as Mo-Fr 09:00-18:00: a time outside of them moves to the next opening." placeholder:"HOURS"`
	WorkingDays string `help:"Holidays of a country or region, such as DE-BY, or a file of days: a day off moves to another day." placeholder:"CODE|FILE"`
	Convention  string `help:"To which day: ${convention} (default following)." placeholder:"CONVENTION"`
}

// calendar returns the calendar of a code, or else that of a file, or nil without both.
func (d *days) calendar() (*calendar.WorkCalendar, error) {
	if d.WorkingDays == "" {
		return nil, nil
	}
	if c, err := holidays.Calendar(d.WorkingDays); err == nil {
		return c, nil
	}
	text, err := os.ReadFile(d.WorkingDays)
	if err != nil {
		return nil, fmt.Errorf("--working-days: is no code such as DE-BY, and no file: %w", err)
	}
	c, err := calendar.ParseWorkCalendar(string(text))
	if bad, ok := errors.AsType[*calendar.InputError](err); ok {
		return nil, errors.Join(mapped(bad.Problems, func(p calendar.InputProblem) error {
			return fmt.Errorf("--working-days: %s: %s %s", d.WorkingDays, p.Field, p.Problem)
		})...)
	}
	return c, err
}

// parseRule returns the recurrence of the flags, and the other calendar if there is one.
func (w *when) parseRule(first calendar.Date) (calendar.Recurrence, calendar.System, error) {
	var system calendar.System
	var errSystem error
	if w.Calendar != "" {
		system, errSystem = calendars.Load(w.Calendar)
		if unknown, ok := errors.AsType[*calendars.UnknownError](errSystem); ok {
			errSystem = fmt.Errorf("--calendar: %q %s", unknown.Name, unknown.Problem())
		}
	}
	workDays, errDays := w.Days.calendar()
	if err := errors.Join(errSystem, errDays); err != nil {
		return nil, nil, err // without a calendar, a day or a convention would be refused too
	}
	rule, err := w.Rule.parse(first, calendar.RuleText{Quiet: w.Quiet, Hours: w.Days.Hours, WorkDays: workDays, Convention: w.Days.Convention, System: system})
	return rule, system, err
}

// dayBy returns a day by another calendar, or "" if that calendar does not have it.
func dayBy(s calendar.System, d calendar.Date) string {
	day, err := s.Day(d)
	if err != nil {
		return ""
	}
	return day.String()
}

// registerCalendars makes all calendars known by which users may be stored. A calendar of the host with the
// same name stays.
func registerCalendars() {
	for _, s := range calendars.All() {
		if _, err := calendar.LoadSystem(s.Info().Name); err != nil {
			_ = calendar.RegisterSystems(s) // which the module's own tests accept
		}
	}
}
