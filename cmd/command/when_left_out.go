package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// leftOut is a time that the rule names and at which nothing happens, or all those
// at a stretch that one change of clocks took.
type leftOut struct {
	Wall   string `json:"wall"`
	Last   string `json:"last,omitempty"` // of several
	Reason string `json:"reason"`

	change calendar.Change // zero where it is the calendar that lacks the day
	before int             // how many occurrences come before it
}

// forever is a wall time after all that the library plans.
var forever = calendar.WallTime{Date: calendar.Date{Year: 9999, Month: time.December, Day: 31}, Clock: calendar.Clock{Hour: 23, Minute: 59, Second: 59}}

// leaveOut adds to a what the rule names after one wall time and before another,
// between which there is no occurrence. The library passes over it in silence, so
// the rule is asked again, as if no day were lacking.
func (q question) leaveOut(a *answer, after, until calendar.WallTime) {
	lenient := q.policies
	if lenient.LeapDay == calendar.LeapDaySkip {
		lenient.LeapDay = calendar.LeapDayFeb28
	}
	if lenient.MonthEnd == calendar.MonthEndSkip {
		lenient.MonthEnd = calendar.MonthEndClamp
	}
	lenient.Gap = calendar.GapForward
	enough := len(a.LeftOut) + q.count // after the last occurrence, where there may be no end
	for until != forever || len(a.LeftOut) < enough {
		slot, err := q.rule.After(after, lenient)
		if err != nil || !slot.Wall.Before(until) {
			return
		}
		next, ok := q.why(slot, after)
		if !ok || until == forever && q.endsBefore(slot, lenient) {
			return
		}
		after = slot.Wall
		next.before = len(a.Occurrences)
		if i := len(a.LeftOut) - 1; i >= 0 && next.goesOn(a.LeftOut[i]) {
			a.LeftOut[i].Last = next.Wall
			continue
		}
		a.LeftOut = append(a.LeftOut, next)
	}
}

// why says why the slot that follows a wall time is no occurrence, and whether there
// is a reason.
func (q question) why(slot calendar.Slot, after calendar.WallTime) (leftOut, bool) {
	if strict, err := q.rule.After(after, q.policies); err != nil || strict.Wall != slot.Wall {
		d := slot.Named
		return leftOut{
			Wall:   calendar.WallTime{Date: d, Clock: slot.Wall.Clock}.String(),
			Reason: fmt.Sprintf("left out because there is no %d %s %d", d.Day, d.Month, d.Year),
		}, true
	}
	read, err := q.zone.Resolve(slot.Wall, calendar.Policies{})
	what := "gives way to another"
	if q.policies.Gap == calendar.GapSkip {
		what = "left out"
	}
	return leftOut{Wall: slot.Wall.String(), Reason: fmt.Sprintf("%s because %s", what, read.Change), change: read.Change},
		err == nil && read.Reading == calendar.ShownNever
}

// endsBefore reports whether the rule has ended by an instant, as an RRULE does
// with UNTIL, before a slot of its own.
func (q question) endsBefore(slot calendar.Slot, lenient calendar.Policies) bool {
	read, err := q.zone.Resolve(slot.Wall, calendar.Policies{})
	if err != nil {
		return true
	}
	_, err = calendar.Next(q.rule, q.zone, lenient, read.Instant.Add(-time.Second))
	return errors.Is(err, calendar.ErrNoOccurrence)
}

// goesOn reports whether what took l took the one before it, too.
func (l leftOut) goesOn(one leftOut) bool {
	return !l.change.IsZero() && l.change == one.change && l.before == one.before
}

// mark is that of an occurrence.
func (l leftOut) mark() string {
	if l.change.IsZero() {
		return ""
	}
	return "gap"
}

// reason is that of the whole stretch.
func (l leftOut) reason() string {
	if l.Last == "" {
		return l.Reason
	}
	return l.Reason + ", likewise until " + l.Last
}
