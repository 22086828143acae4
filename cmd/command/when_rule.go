package command

import (
	"errors"
	"fmt"

	"github.com/almanac-go/almanac/calendar"
)

// rule is how the command line describes a recurrence.
type rule struct {
	Rule  string `help:"once, daily, weekly, monthly, yearly, an RRULE or a cron expression (default ${default})." placeholder:"RULE" default:"daily"`
	At    string `help:"The time of day (default 09:00). An RRULE begins at this time of the first day; a cron expression has its own. With --before it is the time of the announcement." placeholder:"HH:MM[:SS]"`
	On    string `help:"The day: mon,thu for weekly; 31, or -1 for the last, for monthly; 02-29 for yearly. The default is that of the first day." placeholder:"DAY"`
	Every string `help:"The interval in days, weeks, months or years, counted from the first day (default 1)." placeholder:"N"`

	Before string `help:"Announce each occurrence so many days before, at the time of --at." placeholder:"DAYS"`
}

// parse returns the recurrence, which has no slot before the first day.
func (r *rule) parse(first calendar.Date, quiet string) (calendar.Recurrence, error) {
	found, err := calendar.RuleText{Rule: r.Rule, At: r.At, On: r.On, Every: r.Every, Before: r.Before, Quiet: quiet}.Parse(first)
	var bad *calendar.InputError
	if !errors.As(err, &bad) {
		return found, err
	}
	return nil, errors.Join(mapped(bad.Problems, func(p calendar.InputProblem) error { return fmt.Errorf("--%s: %s", p.Field, p.Problem) })...)
}
