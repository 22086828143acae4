package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

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
	if outside, is := rule.(calendar.Outside); is {
		if _, ok := outside.Of.(calendar.Once); ok {
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
