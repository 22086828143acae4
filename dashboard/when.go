package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// whenData is what the page of wall times shows.
type whenData struct {
	complaints
	Form       whenFields
	Suggestion string // the nearest zone to a wrong one, or ""
	One        *oneTime
	Rule       *ruleTimes
}

// whenFields are the fields as they were sent. They have the names of the flags of the
// command “almanac when”.
type whenFields struct {
	Zone, At, From, Rule, On, Every, Quiet string
	Gap, Fold, LeapDay, MonthEnd           string
}

// whenFieldsOf reads the form, with the defaults of policies.
func whenFieldsOf(r *request) whenFields {
	get := func(name, otherwise string) string {
		if text := strings.TrimSpace(r.FormValue(name)); text != "" {
			return text
		}
		return otherwise
	}
	return whenFields{
		Zone: get("zone", "UTC"), At: get("at", ""), From: get("from", ""), Rule: get("rule", ""), On: get("on", ""),
		Every: get("every", ""), Quiet: get("quiet", ""), Gap: get("gap", "forward"), Fold: get("fold", "first"),
		LeapDay: get("leap-day", "feb28"), MonthEnd: get("month-end", "clamp"),
	}
}

// asks reports whether there is anything to answer.
func (f whenFields) asks() bool {
	return f.At+f.Rule+f.From+f.On+f.Every+f.Quiet != ""
}

// Query is the address of the same question in another zone.
func (f whenFields) Query(zone string) string {
	return query("zone", zone, "at", f.At, "from", f.From, "rule", f.Rule, "on", f.On, "every", f.Every, "quiet", f.Quiet,
		"gap", f.Gap, "fold", f.Fold, "leap-day", f.LeapDay, "month-end", f.MonthEnd)
}

// whenChoice is a policy that can be chosen.
type whenChoice struct {
	Name, Label string
	Values      []string
	Chosen      string
}

// Choices are the policies with their values.
func (f whenFields) Choices() []whenChoice {
	return []whenChoice{
		{"gap", "A time that clocks skip", []string{"forward", "backward", "boundary", "skip", "reject"}, f.Gap},
		{"fold", "A time shown twice", []string{"first", "second", "reject"}, f.Fold},
		{"leap-day", "A yearly 29 February", []string{"feb28", "mar1", "skip"}, f.LeapDay},
		{"month-end", "A day that a month lacks", []string{"clamp", "skip"}, f.MonthEnd},
	}
}

func (f whenFields) policies() calendar.Policies {
	return calendar.Policies{
		Gap: calendar.GapPolicy(f.Gap), Fold: calendar.FoldPolicy(f.Fold),
		LeapDay: calendar.LeapDayPolicy(f.LeapDay), MonthEnd: calendar.MonthEndPolicy(f.MonthEnd),
	}
}

func (d *dashboard) whenPage(r *request) (answer, error) {
	data := whenData{Form: whenFieldsOf(r)}
	z, sentence, suggestion := loadZone(data.Form.Zone)
	if data.Suggestion = suggestion; sentence != "" {
		data.refuse("zone", sentence)
	} else {
		data.Form.Zone = z.String()
	}
	data.checkPolicies()
	if data.Form.asks() {
		now, err := r.clock()
		if err != nil {
			return answer{}, err
		}
		data.answer(z, z.WallTime(now).Date)
	}
	return answer{title: "When", template: "when", status: data.status(), data: data}, nil
}

// checkPolicies says which policies are none. Their fields have the names of the form.
func (w *whenData) checkPolicies() {
	var invalid *calendar.InputError
	if errors.As(w.Form.policies().Check(), &invalid) {
		for _, p := range invalid.Problems {
			name := strings.ReplaceAll(p.Field, " ", "-")
			w.refuse(name, fmt.Sprintf("%s %s.", name, p.Problem))
		}
	}
}

// answer finds what the form asks for, unless a field is wrong.
func (w *whenData) answer(z calendar.Timezone, today calendar.Date) {
	q := w.parse(today)
	if len(w.Sentences) > 0 {
		return
	}
	if q.rule == nil {
		w.One = oneTimeOf(z, q.start, w.Form)
		return
	}
	w.Rule = ruleTimesOf(z, q, w.Form)
}

// oneTime is a wall time under each policy.
type oneTime struct {
	Wall    calendar.WallTime
	Zone    string
	Verdict string
	Rows    []policyRow
	Drawing clockDrawing
}

// policyRow is what a policy makes of a wall time.
type policyRow struct {
	Policy string
	Chosen bool
	At     time.Time // zero if there is no instant
	Shown  calendar.WallTime
	Offset string
	Reason string
}

// oneTimeOf resolves a wall time under every policy that matters to it.
func oneTimeOf(z calendar.Timezone, wall calendar.WallTime, form whenFields) *oneTime {
	one := &oneTime{Wall: wall, Zone: z.String()}
	usual, err := z.Resolve(wall, calendar.Policies{})
	if err != nil { // an invalid wall time is refused before
		one.Verdict = sentenceOf(err)
		return one
	}
	around := usual.Instant
	switch usual.Reading {
	case calendar.ShownNever:
		around = usual.Change.At
		one.Verdict = "Clocks never show this time: " + clockChange{usual.Change}.Text() + "."
		for _, policy := range form.Choices()[0].Values {
			one.Rows = append(one.Rows, policyRowOf(z, wall, calendar.Policies{Gap: calendar.GapPolicy(policy)}, policy == form.Gap))
		}
	case calendar.ShownTwice:
		around = usual.Change.At
		one.Verdict = "Clocks show this time twice: " + clockChange{usual.Change}.Text() + "."
		for _, policy := range form.Choices()[1].Values {
			one.Rows = append(one.Rows, policyRowOf(z, wall, calendar.Policies{Fold: calendar.FoldPolicy(policy)}, policy == form.Fold))
		}
	default:
		one.Verdict = "Clocks show this time once, so every policy gives the same instant."
		row := policyRowOf(z, wall, calendar.Policies{}, true)
		row.Policy = "every policy"
		one.Rows = append(one.Rows, row)
	}
	one.Drawing = drawClocks(z, wall, around, instantsOf(one.Rows))
	return one
}

// instantsOf returns the instants of rows, with the names of their policies. Policies with the
// same instant share it.
func instantsOf(rows []policyRow) (all []namedInstant) {
	for _, row := range rows {
		name := row.Policy[strings.LastIndex(row.Policy, " ")+1:]
		if row.Policy == "every policy" {
			name = row.Shown.Clock.String()
		}
		i := slices.IndexFunc(all, func(one namedInstant) bool { return one.At.Equal(row.At) })
		switch {
		case row.At.IsZero():
		case i >= 0:
			all[i].Text += ", " + name
		default:
			all = append(all, namedInstant{row.At, name})
		}
	}
	return all
}

// policyRowOf resolves a wall time under policies of which one is given.
func policyRowOf(z calendar.Timezone, wall calendar.WallTime, p calendar.Policies, chosen bool) policyRow {
	row := policyRow{Policy: "gap " + string(p.Gap), Chosen: chosen}
	if p.Fold != "" {
		row.Policy = "fold " + string(p.Fold)
	}
	read, err := z.Resolve(wall, p)
	switch {
	case errors.Is(err, calendar.ErrSkippedWallTime):
		row.Reason = "left out: the next occurrence is due instead"
	case errors.Is(err, calendar.ErrRejectedWallTime):
		row.Reason = "an error: nothing is planned"
	case err != nil:
		row.Reason = sentenceOf(err)
	default:
		row.At, row.Shown, row.Offset, row.Reason = read.Instant, read.Shown(), clockOffset(read.Offset), read.Reason()
	}
	return row
}

// occurrencesShown is how many occurrences of a rule the page has.
const occurrencesShown = 12

// whenQuestion is what the form asks.
type whenQuestion struct {
	rule  calendar.Recurrence // nil for one wall time
	start calendar.WallTime   // the first day, and the time of day
}

// parse reads the form. The words are those of the command “almanac when”.
func (w *whenData) parse(today calendar.Date) whenQuestion {
	at := w.at(&today)
	text := calendar.RuleText{Rule: cmp.Or(w.Form.Rule, "once"), At: at, On: w.Form.On, Every: w.Form.Every, Quiet: w.Form.Quiet}
	rule, err := text.Parse(today)
	if bad, ok := errors.AsType[*calendar.InputError](err); ok {
		for _, p := range bad.Problems {
			w.refuse(p.Field, p.Field+": "+p.Problem+".")
		}
	}
	q := whenQuestion{rule: rule, start: calendar.WallTime{Date: today}}
	once, ok := rule.(calendar.Once)
	if within, is := rule.(calendar.Within); is {
		if _, ok := within.Of.(calendar.Once); ok {
			w.refuse("quiet", "quiet: has no meaning with one time.")
		}
	}
	if ok {
		q.rule, q.start = nil, once.At
	}
	return q
}

// at returns the time of day. A date before it, which the field may have, is the first day.
func (w *whenData) at(first *calendar.Date) string {
	at, err := w.Form.At, error(nil)
	if i := strings.IndexAny(at, "T "); i >= 0 {
		if *first, err = calendar.ParseDate(at[:i]); err != nil {
			w.refuse("at", "at: "+sentenceOf(err))
		}
		if at = at[i+1:]; w.Form.From != "" {
			w.refuse("from", "Leave From empty when At has a date.")
		}
	}
	if w.Form.From != "" && !w.Bad["from"] {
		if *first, err = calendar.ParseDate(w.Form.From); err != nil {
			w.refuse("from", "from: "+sentenceOf(err))
		}
	}
	return at
}

// ruleTimes are the next occurrences of a rule.
type ruleTimes struct {
	Zone, From string
	Rows       []ruleRow
	End        string // why there are no more, or ""
}

// ruleRow is an occurrence.
type ruleRow struct {
	calendar.Occurrence
	Offset, Mark string // the mark is "gap", "fold" or ""
}

// At is the instant, and Shown what clocks show then.
func (r ruleRow) At() time.Time            { return r.Resolution.Instant }
func (r ruleRow) Shown() calendar.WallTime { return r.Resolution.Shown() }

// ruleTimesOf finds the occurrences of a rule from its first day on.
func ruleTimesOf(z calendar.Timezone, q whenQuestion, form whenFields) *ruleTimes {
	times := &ruleTimes{Zone: z.String(), From: q.start.Date.String()}
	// A policy can move the first one to the day before. The rule itself begins with the first day.
	after := calendar.WallTime{Date: q.start.Date}.Labelled().AddDate(0, 0, -3)
	for next, err := range calendar.Occurrences(q.rule, z, form.policies(), after) {
		if err != nil {
			times.End = endText(err)
			return times
		}
		row := ruleRow{Occurrence: next, Offset: clockOffset(next.Resolution.Offset)}
		switch next.Resolution.Reading {
		case calendar.ShownNever:
			row.Mark = "gap"
		case calendar.ShownTwice:
			row.Mark = "fold"
		}
		if times.Rows = append(times.Rows, row); len(times.Rows) == occurrencesShown {
			return times
		}
	}
	times.End = "There are no further occurrences."
	return times
}

// endText says which policy refuses a wall time.
func endText(err error) string {
	var refused *calendar.WallTimeError
	if !errors.As(err, &refused) {
		return sentenceOf(err)
	}
	policy := "gap"
	if refused.Reading == calendar.ShownTwice {
		policy = "fold"
	}
	return fmt.Sprintf("The next one is refused by %s reject: %s", policy, sentenceOf(err))
}
