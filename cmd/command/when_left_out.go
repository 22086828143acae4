package command

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// leftOut is a time that the rule names and at which nothing happens, or all those
// at a stretch for one reason.
type leftOut struct {
	Wall   string `json:"wall"`
	Last   string `json:"last,omitempty"` // of several
	Reason string `json:"reason"`

	change calendar.Change // zero where the calendar lacks the day, or the day is off
	before int             // how many occurrences come before it
}

// forever is a wall time after all that the library plans.
var forever = calendar.WallTime{Date: calendar.Date{Year: 9999, Month: time.December, Day: 31}, Clock: calendar.Clock{Hour: 23, Minute: 59, Second: 59}}

// within returns what moves the slots of a rule that [calendar.RuleText.Parse] has returned.
func within(rule calendar.Recurrence) calendar.Within {
	inner := rule
	if bounded, ok := rule.(calendar.Bounded); ok {
		inner = bounded.Rule
	}
	if w, ok := inner.(calendar.Within); ok {
		return w
	}
	return calendar.Within{Of: rule}
}

// unmoved returns the wall time of a slot before working days or hours moved it.
func unmoved(w calendar.WallTime, by calendar.Move) calendar.WallTime { return cmp.Or(by.From, w) }

// leaveOut adds to a what the rule names after one wall time and before another, between which there is no
// occurrence. Both are those of unmoved slots. The library passes over it in silence, so the rule is asked
// again, as if no day were lacking and no day were off.
func (q question) leaveOut(a *answer, after, until calendar.WallTime) {
	lenient := q.policies
	if lenient.LeapDay == calendar.LeapDaySkip {
		lenient.LeapDay = calendar.LeapDayFeb28
	}
	if lenient.MonthEnd == calendar.MonthEndSkip {
		lenient.MonthEnd = calendar.MonthEndClamp
	}
	if lenient.Missing.Month == calendar.MissingSkip {
		lenient.Missing.Month = calendar.MissingForward
	}
	if lenient.Missing.Day == calendar.MissingSkip {
		lenient.Missing.Day = calendar.MissingBackward
	}
	lenient.Gap = calendar.GapForward
	enough := len(a.LeftOut) + q.count // after the last occurrence, where there may be no end
	for n := 0; until != forever || len(a.LeftOut) < enough && n < maxCount; n++ {
		slot, err := q.within.Of.After(after, lenient)
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

// why says why the slot that follows a wall time is no occurrence, and whether there is a reason.
func (q question) why(slot calendar.Slot, after calendar.WallTime) (leftOut, bool) {
	if strict, err := q.within.Of.After(after, q.policies); err != nil || strict.Wall != slot.Wall {
		if slot.DayReason != "" {
			named, _, _ := strings.Cut(slot.DayReason, " moved to ")
			return leftOut{Wall: slot.Wall.String(), Reason: fmt.Sprintf("left out because %s has no %s", slot.Key, named)}, true
		}
		d := slot.Named
		return leftOut{
			Wall:   calendar.WallTime{Date: d, Clock: slot.Wall.Clock}.String(),
			Reason: fmt.Sprintf("left out because there is no %d %s %d", d.Day, d.Month, d.Year),
		}, true
	}
	l := leftOut{Wall: slot.Wall.String()}
	moved, ok := q.target(slot.Wall)
	if !ok {
		l.Reason = "left out because of " + q.closed(slot.Wall)
		return l, true
	}
	read, err := q.zone.Resolve(moved, calendar.Policies{})
	left := q.policies.Gap == calendar.GapSkip
	switch gone := err == nil && read.Reading == calendar.ShownNever; {
	case gone && left:
		l.Reason, l.change = fmt.Sprintf("left out because %s", read.Change), read.Change
	case gone && moved == slot.Wall:
		l.Reason, l.change = fmt.Sprintf("gives way to another because %s", read.Change), read.Change
	case moved == slot.Wall:
		return l, false
	case moved.Date.Before(q.from):
		l.Reason = fmt.Sprintf("left out because %s, to which it moves, is before the first day", dayText(moved.Date))
	case moved.Date == slot.Wall.Date:
		l.Reason = fmt.Sprintf("gives way to the one at %s because of %s", strings.TrimSuffix(moved.Clock.String(), ":00"), q.closed(slot.Wall))
	default:
		l.Reason = fmt.Sprintf("gives way to the one on %s because of %s", dayText(moved.Date), q.closed(slot.Wall))
	}
	return l, true
}

func dayText(d calendar.Date) string { return fmt.Sprintf("%s %d %s", d.Weekday(), d.Day, d.Month) }

// target returns to which wall time a slot moves, and false if its convention leaves it out.
func (q question) target(w calendar.WallTime) (calendar.WallTime, bool) {
	alone := q.within
	alone.Of = calendar.Once{At: w}
	slot, err := alone.After(calendar.WallTime{}, calendar.Policies{})
	return slot.Wall, err == nil
}

// closed says what closes a wall time, in the words of a [calendar.Move].
func (q question) closed(w calendar.WallTime) string {
	for _, c := range [...]*calendar.WorkCalendar{q.within.WorkDays, q.within.Window.Holidays()} {
		if c == nil {
			continue
		}
		if name, ok := c.Holiday(w.Date); ok {
			return cmp.Or(name, "a holiday")
		}
	}
	if c := q.within.WorkDays; c != nil {
		if working, _ := c.IsWorking(w.Date); !working {
			return "the weekend"
		}
	}
	if q.quiet {
		return "quiet hours"
	}
	return "closed hours"
}

// endsBefore reports whether the rule has ended by an instant, as an RRULE does
// with UNTIL, before a slot of its own.
func (q question) endsBefore(slot calendar.Slot, lenient calendar.Policies) bool {
	read, err := q.zone.Resolve(slot.Wall, calendar.Policies{})
	if err != nil {
		return true
	}
	_, err = calendar.Next(q.within.Of, q.zone, lenient, read.Instant.Add(-time.Second))
	return errors.Is(err, calendar.ErrNoOccurrence)
}

// goesOn reports whether what took l took the one before it, too.
func (l leftOut) goesOn(one leftOut) bool {
	return l.change == one.change && l.Reason == one.Reason && l.before == one.before
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
