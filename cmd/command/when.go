package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// when shows the next occurrences of a rule.
//
// What kong would refuse by itself, and one at a time, is text here: parse
// refuses all of it together.
type when struct {
	Zone    string `help:"The IANA zone; it or --country is required." placeholder:"ZONE"`
	Country string `help:"A country instead of the zone, such as US: show a time that is in the hours in all of its zones. It needs --hours or --quiet." placeholder:"CODE"`

	From  string `help:"The first day; today in the zone, or in the first zone of the country, if left out." placeholder:"YYYY-MM-DD"`
	Quiet string `help:"Quiet hours: a time in them moves to their end." placeholder:"HH:MM-HH:MM"`
	Days  days   `embed:"" group:"Where it may happen:"`
	Count string `help:"How many occurrences to show (default ${default})." short:"n" placeholder:"N" default:"10"`
	JSON  bool   `help:"Write JSON." name:"json"`

	Rule     rule     `embed:"" group:"What happens:"`
	Calendar string   `help:"Another calendar, such as hebrew: of a yearly rule, of RSCALE, and for the days that are shown." placeholder:"CALENDAR" group:"What happens:"`
	Window   window   `embed:"" group:"A window after the wall time:"`
	Policies policies `embed:"" group:"What the calendar leaves open:"`
}

// window is the setting Spread of a handler, and what it is applied to.
type window struct {
	Spread string `help:"Spread the events of a type over this time, as the setting Spread of a handler does." placeholder:"DURATION"`
	User   string `help:"The id of the user whose point of the window is shown; required with --spread." placeholder:"ID"`
	Type   string `help:"The event type (default ${default})." placeholder:"TYPE" default:"BIRTHDAY"`
	Series string `help:"The name of the series, if the handler runs several." placeholder:"NAME"`
}

// parse returns how long after its instant an event of an occurrence becomes available, or nil without a spread.
func (w *window) parse() (func(calendar.Occurrence) time.Duration, error) {
	if w.Spread == "" {
		return nil, nil
	}
	length, err := time.ParseDuration(w.Spread)
	if err == nil && (length <= 0 || length > 24*time.Hour) {
		err = fmt.Errorf("%v is not between 0 and 24h", length)
	}
	id, ok := parseID(w.User)
	var errUser error
	if !ok {
		errUser = errors.New("--user: a user id is required with --spread")
	}
	return func(o calendar.Occurrence) time.Duration {
		over := length
		if left, ok := o.OpenFor(); ok {
			over = min(over, left)
		}
		return almanac.Series{Type: w.Type, Name: w.Series}.Spread(id, over)
	}, errors.Join(about("--spread", err), errUser)
}

// maxCount is what the library previews at most.
const maxCount = 1000

// policies are the answers to the questions that a calendar leaves open.
type policies struct {
	Gap      string `help:"A time that clocks skip: ${gap} (default ${default})." placeholder:"POLICY" default:"forward"`
	Fold     string `help:"A time that clocks show twice: ${fold} (default ${default})." placeholder:"POLICY" default:"first"`
	LeapDay  string `help:"A yearly 29 February: ${leap_day} (default ${default})." placeholder:"POLICY" default:"feb28"`
	MonthEnd string `help:"A monthly day that a month lacks: ${month_end} (default ${default})." placeholder:"POLICY" default:"clamp"`

	MissingMonth string `help:"A leap month that a year of --calendar lacks: ${missing_month} (default: what is customary there)." placeholder:"POLICY"`
	MissingDay   string `help:"A day that a month of --calendar lacks: ${missing_day} (default: what is customary there)." placeholder:"POLICY"`
}

// choices are the values of flags that have few, for the help and for oneOf.
var choices = kong.Vars{
	"gap":           "forward, backward, boundary, skip, reject",
	"fold":          "first, second, reject",
	"leap_day":      "feb28, mar1, skip",
	"month_end":     "clamp, skip",
	"missing_month": "backward, forward, skip",
	"missing_day":   "backward, forward, skip",
	"convention":    "following, modified-following, preceding, modified-preceding, nearest, skip",
	"layout":        "plain, goose, tern, golang-migrate",
	"format":        "csv, jsonl",
	"zone_source":   "declared, guessed, default",
	"status":        "pending, processing, completed, failed, cancelled",
	"shell":         "bash, zsh, fish",
	"passed":        "now, skip, next-day",
}

func (p *policies) parse() (calendar.Policies, error) {
	given := func(flag, policy string) error {
		if policy == "" {
			return nil
		}
		return oneOf(flag, policy)
	}
	return calendar.Policies{
			Gap: calendar.GapPolicy(p.Gap), Fold: calendar.FoldPolicy(p.Fold),
			LeapDay: calendar.LeapDayPolicy(p.LeapDay), MonthEnd: calendar.MonthEndPolicy(p.MonthEnd),
			Missing: calendar.Missing{Month: calendar.MissingPolicy(p.MissingMonth), Day: calendar.MissingPolicy(p.MissingDay)},
		}, errors.Join(oneOf("--gap", p.Gap), oneOf("--fold", p.Fold), oneOf("--leap-day", p.LeapDay), oneOf("--month-end", p.MonthEnd),
			given("--missing-month", p.MissingMonth), given("--missing-day", p.MissingDay))
}

// question is what the arguments of when ask.
type question struct {
	zone     calendar.Timezone
	zones    []calendar.Timezone // of the country, or nil; then zone is the first of them
	rule     calendar.Recurrence
	within   calendar.Within // what moves slots, with the rule inside of it
	quiet    bool            // the hours are outside of quiet hours
	policies calendar.Policies
	from     calendar.Date
	count    int
	spread   func(calendar.Occurrence) time.Duration // nil without a window
	system   calendar.System                         // nil for the Gregorian calendar
}

func (w *when) parse(now time.Time) (question, error) {
	q := question{quiet: w.Quiet != ""}
	errZone, failure := w.parseZones(&q)
	q.from = q.zone.WallTime(now).Date
	var errFrom, errCount, errRule, errPolicies, errWindow error
	if w.From != "" {
		var from calendar.Date
		if from, errFrom = calendar.ParseDate(w.From); errFrom == nil {
			q.from = from
		}
	}
	q.count, errCount = number("--count", w.Count, 1, maxCount)
	q.rule, q.system, errRule = w.parseRule(q.from)
	q.within = within(q.rule)
	q.policies, errPolicies = w.Policies.parse()
	q.spread, errWindow = w.Window.parse()
	if w.Calendar == "" || !strings.EqualFold(w.Rule.Rule, "yearly") {
		errPolicies = errors.Join(errPolicies, unused("--missing-month", w.Policies.MissingMonth), unused("--missing-day", w.Policies.MissingDay))
	}
	if err := misused(errZone, about("--from", errFrom), errCount, errRule, errPolicies, errWindow); err != nil {
		return q, err
	}
	return q, failure
}

func unused(flag, policy string) error {
	if policy == "" {
		return nil
	}
	return fmt.Errorf("%s: has no meaning without --rule yearly and --calendar", flag)
}

// Run shows the occurrences.
func (w *when) Run(env *environment) error {
	q, err := w.parse(env.now)
	if err != nil {
		return err
	}
	find := q.answer
	if q.zones != nil {
		find = q.answerForCountry
	}
	a, err := find()
	a.Rule, a.Calendar, a.Country = w.Rule.Rule, w.Calendar, strings.ToUpper(w.Country)
	return errors.Join(err, env.report(w.JSON, a, func() error { return a.write(env.out, q.count) }))
}

// answer is what when shows.
type answer struct {
	Zone        string       `json:"zone,omitempty"`
	Country     string       `json:"country,omitempty"`
	Rule        string       `json:"rule"` // as it was given
	Calendar    string       `json:"calendar,omitempty"`
	From        string       `json:"from"`
	Occurrences []occurrence `json:"occurrences"`
	LeftOut     []leftOut    `json:"leftOut,omitempty"` // what the rule names among them, and is none
	Error       string       `json:"error,omitempty"`   // why there are no more
}

// occurrence is one line of an answer.
type occurrence struct {
	Key     string           `json:"key"`
	Wall    string           `json:"wall"`            // when the rule says
	Named   string           `json:"named,omitempty"` // the day that it names where the calendar lacks it
	Day     string           `json:"day,omitempty"`   // that of wall by another calendar
	Zone    string           `json:"zone,omitempty"`  // one of the country
	Shown   string           `json:"shown"`           // what clocks show at the instant
	Instant time.Time        `json:"instant"`         // UTC
	Starts  time.Time        `json:"starts,omitzero"` // UTC, if the type is spread over a window
	Offset  string           `json:"offset"`          // east of UTC
	Reading calendar.Reading `json:"reading"`         // how often clocks show wall
	Reason  string           `json:"reason"`
}

// answer finds the occurrences. Those before an error are in the answer.
func (q question) answer() (answer, error) {
	a := answer{Zone: q.zone.String(), From: q.from.String(), Occurrences: []occurrence{}}
	// A policy can move the first one to the day before; the rule itself begins with q.from.
	after := calendar.WallTime{Date: q.from}.Labelled().AddDate(0, 0, -3)
	var last calendar.WallTime
	for next, err := range calendar.Occurrences(q.rule, q.zone, q.policies, after) {
		if err != nil {
			if gone, ok := errors.AsType[*calendar.WallTimeError](err); ok {
				q.leaveOut(&a, last, gone.Wall)
			}
			err = q.explain(err)
			a.Error = bare(err.Error())
			return a, err
		}
		own := unmoved(next.Wall, next.Move)
		q.leaveOut(&a, last, own)
		last = own
		shown := occurrenceOf(next)
		if q.system != nil {
			shown.Day = dayBy(q.system, next.Wall.Date)
		}
		if q.spread != nil {
			shown.Starts = shown.Instant.Add(q.spread(next))
		}
		a.Occurrences = append(a.Occurrences, shown)
		if len(a.Occurrences) == q.count {
			return a, nil
		}
	}
	q.leaveOut(&a, last, forever)
	return a, nil
}

// explain says which flag refuses a wall time.
func (q question) explain(err error) error {
	refused := (*calendar.WallTimeError)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	flag := "--gap"
	if refused.Reading == calendar.ShownTwice {
		flag = "--fold"
	}
	return fmt.Errorf("%w, which %s reject refuses", err, flag)
}

func occurrenceOf(o calendar.Occurrence) occurrence {
	shown := occurrence{
		Key: o.Key, Wall: o.Wall.String(), Shown: o.Resolution.Shown().String(),
		Instant: o.Resolution.Instant, Offset: offsetText(o.Resolution.Offset),
		Reading: o.Resolution.Reading, Reason: o.Reason(),
	}
	if o.Named != (calendar.Date{}) {
		shown.Named = o.Named.String()
	}
	return shown
}

func (a answer) write(out io.Writer, count int) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	column := func(there bool, cell string) string {
		if !there {
			return ""
		}
		return cell + "\t"
	}
	day := func(day, zone string) string { // the columns, if there are some
		return column(a.Calendar != "", day) + column(a.Country != "", zone)
	}
	starts := func(cell string) string { // likewise
		if len(a.Occurrences) == 0 || a.Occurrences[0].Starts.IsZero() {
			return ""
		}
		return cell
	}
	if len(a.Occurrences)+len(a.LeftOut) > 0 {
		fmt.Fprintf(table, "\tWALL TIME\t%sCLOCKS SHOW\tOFFSET\tINSTANT\t%sREASON\n", day(strings.ToUpper(a.Calendar), "ZONE"), starts("STARTS\t"))
	}
	left := a.LeftOut
	leaveOut := func(before int) {
		for ; len(left) > 0 && left[0].before <= before; left = left[1:] {
			fmt.Fprintf(table, "%s\t%s\t%s\t\t\t%s%s\n", left[0].mark(), left[0].Wall, day("", ""), starts("\t"), left[0].reason())
		}
	}
	for i, o := range a.Occurrences {
		leaveOut(i)
		fmt.Fprintf(table, "%s\t%s\t%s%s\t%s\t%s\t%s%s\n", o.mark(), o.Wall, day(o.Day, o.Zone), o.Shown, o.Offset, o.Instant.Format(time.RFC3339),
			starts(o.Starts.Format(time.RFC3339)+"\t"), o.Reason)
	}
	leaveOut(len(a.Occurrences))
	if err := table.Flush(); err != nil {
		return err
	}
	var err error
	switch {
	case a.Error != "" || len(a.Occurrences) == count:
	case len(a.Occurrences) == 0:
		_, err = fmt.Fprintf(out, "never from %s on\n", a.From)
	default:
		_, err = fmt.Fprintln(out, "and never again")
	}
	return err
}

// mark makes the times that clocks do not show once stand out.
func (o occurrence) mark() string {
	switch o.Reading {
	case calendar.ShownNever:
		return "gap"
	case calendar.ShownTwice:
		return "fold"
	}
	return ""
}

// rule is how the command line describes a recurrence.
type rule struct {
	Rule  string `help:"once, daily, weekly, monthly, yearly, an RRULE or a cron expression (default ${default})." placeholder:"RULE" default:"daily"`
	At    string `help:"The time of day (default 09:00). An RRULE begins at this time of the first day; a cron expression has its own. With --before it is the time of the announcement." placeholder:"HH:MM[:SS]"`
	On    string `help:"The day: mon,thu for weekly; 31, or -1 for the last, for monthly; 02-29 for yearly. With --working-days, 3wd is the third working day of a month. The default is the day of the first day." placeholder:"DAY"`
	Every string `help:"The interval in days, weeks, months or years, counted from the first day (default 1)." placeholder:"N"`

	Before string `help:"Announce each occurrence so many days before, at the time of --at. With --working-days, 3wd is three working days." placeholder:"DAYS"`
}

// parse returns the recurrence, which has no slot before the first day. The text says where it may happen.
func (r *rule) parse(first calendar.Date, text calendar.RuleText) (calendar.Recurrence, error) {
	text.Rule, text.At, text.On, text.Every, text.Before = r.Rule, r.At, r.On, r.Every, r.Before
	found, err := text.Parse(first)
	var bad *calendar.InputError
	if !errors.As(err, &bad) {
		return found, err
	}
	return nil, errors.Join(mapped(bad.Problems, func(p calendar.InputProblem) error { return fmt.Errorf("--%s: %s", p.Field, p.Problem) })...)
}
