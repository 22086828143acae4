package dashboard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

const (
	// occurrencesShown is how many occurrences of a rule the page has.
	occurrencesShown = 12
	// maxRule is how many bytes a rule may have.
	maxRule = 1000
	// maxEvery is days enough up to the year 9999.
	maxEvery = 10_000_000
)

// whenQuestion is what the form asks.
type whenQuestion struct {
	rule  calendar.Recurrence // nil for one wall time
	start calendar.WallTime   // the first day, and the time of day
}

// understand reads the form. The words are those of the command “almanac when”.
func (w *whenData) understand(today calendar.Date) whenQuestion {
	start := w.start(today)
	every := 1
	if w.Form.Every != "" {
		n, err := strconv.Atoi(w.Form.Every)
		if every = n; err != nil || n < 1 || n > maxEvery {
			w.refuse("every", fmt.Sprintf("every is not a whole number from 1 to %s.", number(maxEvery)))
		}
	}
	if len(w.Form.Rule) > maxRule {
		w.refuse("rule", fmt.Sprintf("rule has more than %s bytes.", number(maxRule)))
		return whenQuestion{}
	}
	q := whenQuestion{start: start}
	if word := strings.ToLower(w.Form.Rule); word == "" || word == "once" {
		w.without("one time", "on", "every", "quiet")
		return q
	}
	q.rule = w.recurrence(start, every)
	if len(w.Sentences) == 0 { // some rules are judged by their use
		if _, err := q.rule.After(calendar.WallTime{}, calendar.Policies{}); errors.Is(err, calendar.ErrInvalidRecurrence) {
			w.refuse("rule", "rule: "+sentenceOf(err))
		}
	}
	if w.Form.Quiet != "" {
		q.rule = calendar.Outside{Of: q.rule, Quiet: w.quietHours()}
	}
	return q
}

// start reads the time of day and the first day. A date in the first field is the first day.
func (w *whenData) start(today calendar.Date) calendar.WallTime {
	start := calendar.WallTime{Date: today, Clock: calendar.Clock{Hour: 9}}
	clock, err := w.Form.At, error(nil)
	if i := strings.IndexAny(clock, "T "); i >= 0 {
		if start.Date, err = calendar.ParseDate(clock[:i]); err != nil {
			w.refuse("at", "at: "+sentenceOf(err))
		}
		if clock = clock[i+1:]; w.Form.From != "" {
			w.refuse("from", "Leave From empty when At has a date.")
		}
	}
	if clock != "" {
		if start.Clock, err = calendar.ParseClock(clock); err != nil {
			w.refuse("at", "at: "+sentenceOf(err))
		}
	}
	if w.Form.From != "" && !w.Bad["from"] {
		if start.Date, err = calendar.ParseDate(w.Form.From); err != nil {
			w.refuse("from", "from: "+sentenceOf(err))
		}
	}
	return start
}

// without refuses fields that mean nothing to a rule.
func (w *whenData) without(rule string, names ...string) {
	given := map[string]string{"at": w.Form.At, "on": w.Form.On, "every": w.Form.Every, "quiet": w.Form.Quiet}
	for _, name := range names {
		if given[name] != "" {
			w.refuse(name, fmt.Sprintf("Leave %s empty: it has no meaning with %s.", name, rule))
		}
	}
}

// recurrence returns the recurrence that a word, an RRULE or a cron expression names.
func (w *whenData) recurrence(start calendar.WallTime, every int) calendar.Recurrence {
	from, at := start.Date, start.Clock
	switch word := strings.ToLower(w.Form.Rule); word {
	case "daily":
		w.without(word, "on")
		return calendar.Daily{At: at, Every: every, From: from}
	case "weekly":
		return calendar.Weekly{On: w.weekdays(from), At: at, Every: every, From: from}
	case "monthly":
		day := from.Day
		if w.Form.On != "" {
			n, err := strconv.Atoi(w.Form.On)
			if day = n; err != nil {
				w.refuse("on", fmt.Sprintf("on: %q is not a day of the month such as 31 or -1.", w.Form.On))
			}
		}
		return calendar.Monthly{Day: day, At: at, Every: every, From: from}
	case "yearly":
		day := from
		if w.Form.On != "" {
			var err error
			if day, err = calendar.ParseDate("2000-" + w.Form.On); err != nil { // a year that has every day
				w.refuse("on", fmt.Sprintf("on: %q is not a day of the year such as 02-29.", w.Form.On))
			}
		}
		return calendar.Yearly{Month: day.Month, Day: day.Day, At: at, Every: every, From: from}
	}
	return w.written(start)
}

// written returns the recurrence of an RRULE or of a cron expression.
func (w *whenData) written(start calendar.WallTime) calendar.Recurrence {
	if strings.Contains(w.Form.Rule, "=") {
		w.without("an RRULE", "on", "every")
		found, err := calendar.ParseRRule(w.Form.Rule, start)
		if err != nil {
			w.refuse("rule", "rule: "+sentenceOf(err))
		}
		return found
	}
	w.without("a cron expression", "on", "every")
	if w.Form.At != "" && !strings.ContainsAny(w.Form.At, "T ") {
		w.without("a cron expression", "at")
	}
	found, err := calendar.ParseCron(w.Form.Rule)
	switch {
	case err != nil && !strings.ContainsAny(w.Form.Rule, " @"):
		w.refuse("rule", fmt.Sprintf("rule: %q is not once, daily, weekly, monthly or yearly, and neither an RRULE nor a cron expression.", w.Form.Rule))
	case err != nil:
		w.refuse("rule", "rule: "+sentenceOf(err))
	}
	begin := start
	if w.Form.At == "" {
		begin.Clock = calendar.Clock{}
	}
	return calendar.Bounded{Rule: found, Start: begin}
}

// weekdays reads names of days of at least three letters. The default is the first day's.
func (w *whenData) weekdays(first calendar.Date) []time.Weekday {
	if w.Form.On == "" {
		return []time.Weekday{calendar.WallTime{Date: first}.Labelled().Weekday()}
	}
	var days []time.Weekday
	for name := range strings.SplitSeq(w.Form.On, ",") {
		day, ok := weekdayOf(strings.ToLower(strings.TrimSpace(name)))
		if !ok {
			w.refuse("on", fmt.Sprintf("on: %q is not a day of the week such as mon.", name))
		}
		days = append(days, day)
	}
	return days
}

func weekdayOf(name string) (time.Weekday, bool) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if len(name) >= 3 && strings.HasPrefix(strings.ToLower(day.String()), name) {
			return day, true
		}
	}
	return 0, false
}

// quietHours reads quiet hours such as "22:00-08:00".
func (w *whenData) quietHours() (q calendar.QuietHours) {
	from, until, _ := strings.Cut(w.Form.Quiet, "-")
	var errFrom, errUntil error
	q.From, errFrom = calendar.ParseClock(from)
	q.Until, errUntil = calendar.ParseClock(until)
	if errFrom != nil || errUntil != nil || q.From == q.Until {
		w.refuse("quiet", fmt.Sprintf("quiet: %q is not two different times of day, such as 22:00-08:00.", w.Form.Quiet))
	}
	return q
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
