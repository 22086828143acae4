package calendar

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// RuleText is a recurrence as people write it into a form or on a command line. An empty
// field means its default.
type RuleText struct {
	// Rule is once, daily, weekly, monthly or yearly in upper or lower case, an RRULE (see
	// [ParseRRule]), or a cron expression (see [ParseCron]). The default is daily.
	Rule string
	// At is the time of day, HH:MM or HH:MM:SS; default 09:00. An RRULE begins at this time of the first
	// day. A cron expression has its own times. With Before, At is the time of the announcement.
	At string
	// On is the day: mon,thu for weekly; 1 to 31, or -1 for the last day, for monthly; 02-29
	// for yearly, or 05L-08 by the System. With WorkDays, 3wd is the third working day of the month,
	// and -1wd the last. The default is the day of the first day. Other rules have none.
	On string
	// Every is the interval in days, weeks, months or years, 1 to 10,000,000, counted from
	// the first day; default 1. RRULEs and cron expressions have their own.
	Every string
	// Before announces each occurrence that many days earlier, 0 to 10,000, or working days of
	// WorkDays, such as 3wd. Empty announces none.
	Before string
	// Quiet moves each occurrence out of quiet hours, such as 22:00-08:00 (see [Within]).
	// Empty moves none.
	Quiet string
	// Hours moves each occurrence into a window, such as "Mo-Fr 09:00-18:00; Sa 10:00-14:00" (see
	// [ParseWindow]). Empty moves none. Hours and Quiet together are an error.
	Hours string
	// WorkDays moves each occurrence from a day off to a working day, and has the working days that On
	// and Before count. Nil moves none.
	WorkDays *WorkCalendar
	// Convention says to which working day an occurrence moves, such as modified-following (see
	// [Convention]). Empty is following.
	Convention string
	// System is the calendar of a yearly rule, as in [YearlyBy], and one that the RSCALE of an RRULE
	// may name. A monthly rule is refused with it. Nil is the Gregorian calendar.
	System System
}

const maxTextBytes = 1000 // of a rule

// Parse returns the recurrence, which has no slot before the first day. The error is an
// [*InputError] that names each invalid field by its name in lower case, such as "on".
func (r RuleText) Parse(first Date) (Recurrence, error) {
	p := ruleParser{RuleText: r}
	at := p.clock()
	start := WallTime{Date: first, Clock: at}
	every := p.number("every", cmp.Or(r.Every, "1"), 1, maxEvery)
	days, working := p.working("before", cmp.Or(r.Before, "0"))
	before := p.number("before", days, 0, maxDays)
	rule := p.named(start, every)
	if len(p.bad.Problems) == 0 { // some rules are judged by their use
		if _, err := rule.After(WallTime{}, Policies{}); errors.Is(err, ErrInvalidRecurrence) {
			p.wrong("rule", err)
		}
	}
	if r.Before != "" {
		rule = Bounded{Rule: Offset{Of: rule, Days: -before, At: at, WorkDays: working}, Start: WallTime{Date: first}}
	}
	if r.Quiet != "" || r.Hours != "" || r.WorkDays != nil || r.Convention != "" {
		rule = p.within(rule, first)
	}
	if len(p.bad.Problems) > 0 {
		return nil, &p.bad
	}
	return rule, nil
}

// ruleParser collects what is wrong with a RuleText.
type ruleParser struct {
	RuleText
	bad InputError
}

func (p *ruleParser) refuse(field, problem string) {
	p.bad.Problems = append(p.bad.Problems, InputProblem{Field: field, Problem: problem})
}

// wrong refuses a field because of an error of its parser.
func (p *ruleParser) wrong(field string, err error) {
	var format *FormatError
	var invalid *InvalidRecurrenceError
	var input *InputError
	switch {
	case err == nil:
	case errors.As(err, &input):
		for _, problem := range input.Problems {
			p.refuse(field, "is invalid: "+problem.Field+" "+problem.Problem)
		}
	case errors.As(err, &format):
		p.refuse(field, fmt.Sprintf("%q %s", format.Text, format.Problem))
	case errors.As(err, &invalid):
		p.refuse(field, fmt.Sprintf("%q is invalid: %s", invalid.Rule, strings.Join(invalid.Problems, "; ")))
	default:
		p.refuse(field, "is invalid: "+err.Error())
	}
}

func (p *ruleParser) clock() Clock {
	if p.At == "" {
		return Clock{Hour: 9}
	}
	at, err := ParseClock(p.At)
	p.wrong("at", err)
	return at
}

func (p *ruleParser) number(field, text string, low, high int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		p.refuse(field, fmt.Sprintf("%q is not a whole number from %d to %d", excerpt.Of(text, maxQuoted), low, high))
	}
	return n
}

// named returns the recurrence that a word, an RRULE or a cron expression names.
func (p *ruleParser) named(start WallTime, every int) Recurrence {
	from, at := start.Date, start.Clock
	switch word := strings.ToLower(p.Rule); word {
	case "once":
		p.without(word, "on", "every")
		return Once{At: start}
	case "", "daily":
		p.without("daily", "on")
		return Daily{At: at, Every: every, From: from}
	case "weekly":
		return Weekly{On: p.weekdays(from), At: at, Every: every, From: from}
	case "monthly":
		if p.System != nil {
			p.refuse("rule", "is monthly by another calendar, which needs an RRULE: RSCALE="+scaleOf(p.System)+";FREQ=MONTHLY")
		}
		day, working := p.dayOfMonth(from)
		return Monthly{Day: day, At: at, Every: every, From: from, WorkDays: working}
	case "yearly":
		if p.System != nil {
			return p.yearlyBy(start, every)
		}
		day := p.dayOfYear(from)
		return Yearly{Month: day.Month, Day: day.Day, At: at, Every: every, From: from}
	}
	return p.written(start)
}

// written returns the recurrence of an RRULE or of a cron expression.
func (p *ruleParser) written(start WallTime) Recurrence {
	if len(p.Rule) > maxTextBytes {
		p.refuse("rule", fmt.Sprintf("has more than %d bytes", maxTextBytes))
		return Daily{}
	}
	if strings.Contains(p.Rule, "=") {
		p.without("an RRULE", "on", "every")
		var systems []System
		if p.System != nil {
			systems = append(systems, p.System)
		}
		rule, err := ParseRRule(p.Rule, start, systems...)
		p.wrong("rule", err)
		return rule
	}
	p.without("a cron expression", "on", "every")
	if p.Before == "" { // otherwise it is the time of the announcement
		p.without("a cron expression", "at")
	}
	rule, err := ParseCron(p.Rule)
	if err != nil && !strings.ContainsAny(p.Rule, " @") {
		p.refuse("rule", fmt.Sprintf("%q is not once, daily, weekly, monthly or yearly, and neither an RRULE nor a cron expression", excerpt.Of(p.Rule, maxQuoted)))
		err = nil
	}
	p.wrong("rule", err)
	return Bounded{Rule: rule, Start: WallTime{Date: start.Date}}
}

// yearlyBy returns a yearly rule by the System.
func (p *ruleParser) yearlyBy(start WallTime, every int) Recurrence {
	day, err := p.System.Day(start.Date)
	if p.On != "" {
		day, err = ParseSystemDate(p.On)
		if err == nil && day.Year != 0 {
			err = &FormatError{excerpt.Of(p.On, maxQuoted), "is not a day of the year such as 05L-08"}
		}
	}
	p.wrong("on", err)
	return YearlyBy{System: p.System, Month: day.Month, Leap: day.Leap, Day: day.Day, At: start.Clock, Every: every, From: start.Date}
}

// within returns a rule within working days and a window. A slot that moves back stays in the days from the first on.
func (p *ruleParser) within(rule Recurrence, first Date) Recurrence {
	w := Within{Of: rule, WorkDays: p.WorkDays, Convention: Convention(strings.ToLower(p.Convention))}
	if p.Quiet != "" {
		var err error
		w.Window, err = ParseQuietHours(p.Quiet)
		p.wrong("quiet", err)
	}
	if p.Hours != "" {
		hours, err := ParseWindow(p.Hours)
		p.wrong("hours", err)
		w.Window = hours
	}
	switch {
	case p.Quiet != "" && p.Hours != "":
		p.refuse("hours", "have no meaning with quiet hours")
	case p.Convention != "" && p.Hours == "" && p.WorkDays == nil:
		p.refuse("convention", "has no meaning without working days and hours")
	case !w.Convention.valid():
		p.refuse("convention", fmt.Sprintf("%q is not following, modified-following, preceding, modified-preceding, nearest or skip", excerpt.Of(p.Convention, maxQuoted)))
	}
	if p.Quiet != "" && p.WorkDays == nil {
		return w // which moves nothing back
	}
	return Bounded{Rule: w, Start: WallTime{Date: first}}
}

// without refuses fields that have no meaning with a rule.
func (p *ruleParser) without(rule string, fields ...string) {
	given := map[string]string{"at": p.At, "on": p.On, "every": p.Every}
	for _, field := range fields {
		if given[field] != "" {
			p.refuse(field, "has no meaning with "+rule)
		}
	}
}

func (p *ruleParser) weekdays(first Date) []time.Weekday {
	if p.On == "" {
		return []time.Weekday{WallTime{Date: first}.Labelled().Weekday()}
	}
	var days []time.Weekday
	for name := range strings.SplitSeq(p.On, ",") {
		day, ok := weekdayOf(strings.ToLower(strings.TrimSpace(name)), 3)
		if !ok {
			p.refuse("on", fmt.Sprintf("%q is not a day of the week such as mon", excerpt.Of(name, maxQuoted)))
		}
		days = append(days, day)
	}
	return days
}

// weekdayOf reads the first letters of a day in lower case, at least so many.
func weekdayOf(name string, letters int) (time.Weekday, bool) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if len(name) >= letters && strings.HasPrefix(strings.ToLower(day.String()), name) {
			return day, true
		}
	}
	return 0, false
}

func (p *ruleParser) dayOfMonth(first Date) (int, *WorkCalendar) {
	if p.On == "" {
		return first.Day, nil
	}
	number, working := p.working("on", p.On)
	day, err := strconv.Atoi(number)
	if err != nil {
		p.refuse("on", fmt.Sprintf("%q is not a day of the month such as 31 or -1", excerpt.Of(p.On, maxQuoted)))
		return first.Day, nil
	}
	return day, working
}

// working returns the number of a text such as 3wd, and the calendar whose working days it counts. It
// returns other texts as they are, and nil.
func (p *ruleParser) working(field, text string) (number string, days *WorkCalendar) {
	number, ok := strings.CutSuffix(strings.ToLower(text), "wd")
	if !ok {
		return text, nil
	}
	if p.WorkDays == nil {
		p.refuse(field, fmt.Sprintf("%q has no meaning without working days", excerpt.Of(text, maxQuoted)))
	}
	return number, p.WorkDays
}

func (p *ruleParser) dayOfYear(first Date) Date {
	if p.On == "" {
		return first
	}
	day, err := ParseDate("2000-" + p.On) // a year that has every day
	if err != nil {
		p.refuse("on", fmt.Sprintf("%q is not a day of the year such as 02-29", excerpt.Of(p.On, maxQuoted)))
		return first
	}
	return day
}
