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
	Holidays    string `help:"Close the hours on the holidays of a country or region, or of a file of days." placeholder:"CODE|FILE"`
	KeepDay     bool   `help:"Move a time after the last closing of its day back, to the last opening of that day."`
	Each        bool   `help:"Keep all times that move to one time, a second apart."`
}

// workCalendar returns the calendar of a code, or else of a file. If given is empty, it returns nil.
func workCalendar(flag, given string) (*calendar.WorkCalendar, error) {
	if given == "" {
		return nil, nil
	}
	if c, err := holidays.Calendar(given); err == nil {
		return c, nil
	}
	text, err := os.ReadFile(given)
	if err != nil {
		return nil, fmt.Errorf("%s: is no code such as DE-BY, and no file: %w", flag, err)
	}
	c, err := calendar.ParseWorkCalendar(string(text))
	if bad, ok := errors.AsType[*calendar.InputError](err); ok {
		return nil, errors.Join(mapped(bad.Problems, func(p calendar.InputProblem) error {
			return fmt.Errorf("%s: %s: %s %s", flag, given, p.Field, p.Problem)
		})...)
	}
	return c, err
}

// unused refuses the flags that have no meaning without others.
func (d *days) unused(quiet string) error {
	var errs []error
	hours := d.Hours != "" || quiet != ""
	if d.Holidays != "" && d.Hours == "" {
		errs = append(errs, errors.New("--holidays: needs --hours"))
	}
	if d.KeepDay && !hours {
		errs = append(errs, errors.New("--keep-day: needs --hours or --quiet"))
	}
	if d.Each && !hours && d.WorkingDays == "" {
		errs = append(errs, errors.New("--each: needs --hours, --quiet or --working-days"))
	}
	return errors.Join(errs...)
}

// adjust sets KeepDay, Each and the holidays of the window, for which [calendar.RuleText] has no field.
func (d *days) adjust(rule calendar.Recurrence, closed *calendar.WorkCalendar) calendar.Recurrence {
	switch r := rule.(type) {
	case calendar.Bounded:
		r.Rule = d.adjust(r.Rule, closed)
		return r
	case calendar.Within:
		if r.KeepDay, r.Each = d.KeepDay, d.Each; closed != nil {
			r.Window = r.Window.ClosedOnHolidays(closed)
		}
		return r
	}
	return rule
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
	workDays, errDays := workCalendar("--working-days", w.Days.WorkingDays)
	closed, errClosed := workCalendar("--holidays", w.Days.Holidays)
	if err := errors.Join(errSystem, errDays, errClosed); err != nil {
		return nil, nil, err // without a calendar, a day or a convention would be refused too
	}
	rule, err := w.Rule.parse(first, calendar.RuleText{Quiet: w.Quiet, Hours: w.Days.Hours, WorkDays: workDays, Convention: w.Days.Convention, System: system})
	return w.Days.adjust(rule, closed), system, errors.Join(err, w.Days.unused(w.Quiet))
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
