package almanac

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/almanac-go/almanac/internal/rrule"
)

// RRule is a recurrence rule of RFC 5545 section 3.3.10, with the SKIP of RFC
// 7529. It is evaluated on wall readings: a rule and its start know no zone, and
// what it yields is resolved like every other wall time. Make it with
// [ParseRRule]. Its keys are dates, "2027-03-15", or wall times where a rule can
// happen more than once a day.
//
// Deviations from the RFC: the start is a slot only if the rule yields it; a wall
// time that clocks skip follows the gap policy, not the rule's own section, which
// contradicts itself; HOURLY, MINUTELY and SECONDLY count readings of the clock,
// so an hour that is shown twice counts once; COUNT is at most 10,000. The leap day
// and month end policies do not apply: a day that a month lacks follows SKIP, which
// is OMIT unless the rule says otherwise. RDATE is not part of a rule; for EXDATE
// see [Bounded].
type RRule struct {
	rule  rrule.Rule
	start WallTime
}

// ParseRRule reads a rule such as "FREQ=WEEKLY;BYDAY=MO,WE" for the series that
// begins at start, which gives what the rule leaves open: the time of day, the day
// of the month. The error is an [*InvalidRecurrenceError] that names every bad
// part.
func ParseRRule(text string, start WallTime) (RRule, error) {
	var problems []string
	rule, err := rrule.Parse(text)
	if bad := (*rrule.Error)(nil); errors.As(err, &bad) {
		problems = bad.Problems
	}
	if !start.Valid() {
		problems = append(problems, fmt.Sprintf("the start %s is on no calendar", start))
	}
	if err := invalidRecurrence(text, problems); err != nil {
		return RRule{}, err
	}
	return RRule{rule, start}, nil
}

// After returns the first slot strictly after w.
func (r RRule) After(w WallTime, _ Policies) (Slot, error) {
	if err := r.check(); err != nil {
		return Slot{}, err
	}
	next, ok := r.rule.Next(r.start.Labelled(), w.Labelled())
	if !ok {
		return Slot{}, noOccurrence(w)
	}
	return r.slot(next), nil
}

// slots is what the function of that name says.
func (r RRule) slots(w WallTime) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		if err := r.check(); err != nil {
			yield(Slot{}, err)
			return
		}
		for next := range r.rule.Slots(r.start.Labelled(), w.Labelled()) {
			if !yield(r.slot(next), nil) {
				return
			}
		}
		yield(Slot{}, noOccurrence(w))
	}
}

func (r RRule) check() error {
	if !r.start.Valid() {
		return invalidRecurrence("rrule", []string{"it was not made by ParseRRule"})
	}
	return nil
}

func (r RRule) slot(s rrule.Slot) Slot {
	slot := Slot{Wall: WallTimeOf(s.Wall), Named: Date{s.Year, s.Month, s.Day}}
	slot.Key = keyOf(slot.Wall, r.rule.OncePerDay())
	return slot
}

// keyOf names a slot by its day where that tells it from all others.
func keyOf(w WallTime, oncePerDay bool) string {
	if oncePerDay {
		return w.Date.String()
	}
	return w.String()
}

// lastInstant returns UNTIL where it is an instant. Which wall time that is depends
// on the zone.
func (r RRule) lastInstant() (time.Time, bool) {
	until, utc, ok := r.rule.Until()
	return until, utc && ok
}

// String returns the rule's text in a normal form, without its start.
func (r RRule) String() string { return r.rule.String() }
