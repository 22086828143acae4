package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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

// maxEvery is days enough for all that the library plans, up to the year 9999.
const maxEvery = 10_000_000

// maxBefore is the greatest distance of a calendar.Offset.
const maxBefore = 10_000

// understand returns the recurrence, which has no slot before the first day.
func (r *rule) understand(first calendar.Date) (calendar.Recurrence, error) {
	at, errAt := calendar.Clock{Hour: 9}, error(nil)
	if r.At != "" {
		at, errAt = calendar.ParseClock(r.At)
	}
	every, errEvery := 1, error(nil)
	if r.Every != "" {
		every, errEvery = number("--every", r.Every, 1, maxEvery)
	}
	days, errBefore := 0, error(nil)
	if r.Before != "" {
		days, errBefore = number("--before", r.Before, 0, maxBefore)
	}
	found, err := r.named(calendar.WallTime{Date: first, Clock: at}, every)
	if err == nil { // some rules are judged by their use
		if _, err = found.After(calendar.WallTime{}, calendar.Policies{}); !errors.Is(err, calendar.ErrInvalidRecurrence) {
			err = nil
		}
		err = about("--rule", err)
	}
	if r.Before != "" {
		announced := calendar.Offset{Of: found, Days: -days, At: at}
		found = calendar.Bounded{Rule: announced, Start: calendar.WallTime{Date: first}}
	}
	return found, errors.Join(err, about("--at", errAt), errEvery, errBefore)
}

// named returns the recurrence that a word, an RRULE or a cron expression names.
func (r *rule) named(start calendar.WallTime, every int) (calendar.Recurrence, error) {
	from, at := start.Date, start.Clock
	switch word := strings.ToLower(r.Rule); word {
	case "once":
		return calendar.Once{At: start}, r.without(word, "--on", "--every")
	case "daily":
		return calendar.Daily{At: at, Every: every, From: from}, r.without(word, "--on")
	case "weekly":
		days, err := weekdays(r.On, from)
		return calendar.Weekly{On: days, At: at, Every: every, From: from}, err
	case "monthly":
		day, err := dayOfMonth(r.On, from)
		return calendar.Monthly{Day: day, At: at, Every: every, From: from}, err
	case "yearly":
		month, day, err := dayOfYear(r.On, from)
		return calendar.Yearly{Month: month, Day: day, At: at, Every: every, From: from}, err
	}
	if strings.Contains(r.Rule, "=") {
		found, err := calendar.ParseRRule(r.Rule, start)
		return found, errors.Join(about("--rule", err), r.without("an RRULE", "--on", "--every"))
	}
	found, err := calendar.ParseCron(r.Rule)
	if err != nil && !strings.ContainsAny(r.Rule, " @") {
		return nil, fmt.Errorf("--rule: %q is not once, daily, weekly, monthly or yearly, and neither an RRULE nor a cron expression", r.Rule)
	}
	useless := []string{"--at", "--on", "--every"}
	if r.Before != "" {
		useless = useless[1:] // the time of the announcement
	}
	return calendar.Bounded{Rule: found, Start: calendar.WallTime{Date: from}},
		errors.Join(about("--rule", err), r.without("a cron expression", useless...))
}

// without refuses flags that mean nothing to a rule.
func (r *rule) without(rule string, flags ...string) error {
	given := map[string]string{"--at": r.At, "--on": r.On, "--every": r.Every}
	var errs []error
	for _, flag := range flags {
		if given[flag] != "" {
			errs = append(errs, fmt.Errorf("%s: does not go with %s", flag, rule))
		}
	}
	return errors.Join(errs...)
}

func weekdays(text string, first calendar.Date) ([]time.Weekday, error) {
	if text == "" {
		return []time.Weekday{calendar.WallTime{Date: first}.Labelled().Weekday()}, nil
	}
	var days []time.Weekday
	var errs []error
	for name := range strings.SplitSeq(text, ",") {
		day, ok := weekday(strings.TrimSpace(name))
		if !ok {
			errs = append(errs, fmt.Errorf("--on: %q is not a day of the week such as mon", name))
		}
		days = append(days, day)
	}
	return days, errors.Join(errs...)
}

// weekday reads a name of at least three letters.
func weekday(name string) (time.Weekday, bool) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if full := strings.ToLower(day.String()); len(name) >= 3 && strings.HasPrefix(full, strings.ToLower(name)) {
			return day, true
		}
	}
	return 0, false
}

func dayOfMonth(text string, first calendar.Date) (int, error) {
	if text == "" {
		return first.Day, nil
	}
	day, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("--on: %q is not a day of the month such as 31 or -1", text)
	}
	return day, nil
}

func dayOfYear(text string, first calendar.Date) (time.Month, int, error) {
	if text == "" {
		return first.Month, first.Day, nil
	}
	day, err := calendar.ParseDate("2000-" + text) // a year that has every day
	if err != nil {
		return 0, 0, fmt.Errorf("--on: %q is not a day of the year such as 02-29", text)
	}
	return day.Month, day.Day, nil
}
