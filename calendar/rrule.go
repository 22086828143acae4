package calendar

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/almanac-go/almanac/internal/rrule"
)

// RRule is a recurrence rule of RFC 5545 section 3.3.10, with the SKIP of RFC
// 7529. It is evaluated on wall readings: a rule and its start know no zone, and
// what it yields is resolved like every other wall time. Make it with [ParseRRule]. Its keys are
// dates, "2027-03-15", or wall times where a rule can happen more than once a day.
//
// The leap day and month end policies do not apply: a day that a month lacks follows SKIP, which is OMIT
// unless the rule says otherwise. RDATE and EXDATE are not part of a rule; see [RecurrenceSet].
//
// It deviates from RFC 5545 in these points:
//
//   - The start is a slot, and counted, only if the rule yields it. Section 3.8.5.3
//     calls the outcome undefined where it does not, and section 3.3.10 lets the
//     start count always.
//   - A wall time that clocks skip follows the gap policy. Section 3.3.5 moves it
//     forward. Section 3.3.10 ignores it and does not count it, as [Next] does under
//     [GapSkip].
//   - HOURLY, MINUTELY and SECONDLY count readings of the clock, so an hour that is
//     shown twice counts once.
//   - UNTIL may have any of its forms whatever the start is: in UTC it is an instant,
//     otherwise a wall time, and a date stands for the whole of that day. Section
//     3.3.10 demands the form of the start, and UTC where there is a zone.
//   - A start always has a time of day, so BYHOUR, BYMINUTE and BYSECOND always
//     count. Section 3.3.10 ignores them beside a start that is a date.
//   - BYSECOND=60 and an UNTIL with second 60 are refused, because a [WallTime] has no
//     leap seconds. Sections 3.3.10 and 3.3.12 accept both.
//   - A rule of more than 4,096 bytes, a COUNT above 10,000 and an INTERVAL above
//     2,147,483,647 are refused. Section 3.3.10 sets no limits.
//   - A series ends with the year 9999. A series by HOURLY, MINUTELY or SECONDLY also
//     ends at a pause of more than 400 years, where the search stops.
//
// Where section 3.3.10 leaves a choice:
//
//   - BYWEEKNO without a part that names days means the weekday of the start, as
//     WEEKLY does, not all seven days.
//   - YEARLY with BYMONTHDAY but without BYMONTH means every month.
//   - A year holds the days from 1 January to 31 December. Days around New Year that
//     lie in a week of the neighbouring year belong to that week by BYWEEKNO, and to
//     their own year by INTERVAL and BYSETPOS.
//   - A part may stand anywhere, FREQ too, and a list may name an entry twice.
//
// Of RFC 7529 it has SKIP, and RSCALE for the calendars that [ParseRRule] is given. Any other RSCALE is
// refused, as section 4 permits. A rule by another calendar:
//
//   - is YEARLY, MONTHLY, WEEKLY or DAILY. Of the BY parts it can have BYMONTH, with leap months such as 5L,
//     BYMONTHDAY and BYDAY. It can have BYYEARDAY if it is YEARLY, and BYSETPOS unless it is WEEKLY or DAILY.
//     No other part is possible: a key is a date, so a day has one slot.
//   - has dates of that calendar as keys, with a unit of their own: "2025-06L-10" and
//     "day:chinese". A key names the day before SKIP moves it. So neither a corrected table nor another
//     SKIP changes the key of a day that BYMONTHDAY or the start names. A day that the rule finds by
//     counting (DAILY, WEEKLY, BYMONTHDAY=-1, BYDAY, BYYEARDAY) has the key of the day found. A
//     corrected table can change that key.
//   - counts an INTERVAL in days, in weeks, or in years or months of that calendar, leap months included.
//   - ends with the last year of the calendar, see [YearlyBy], or where 400 years that it names have no
//     slot.
//
// SKIP first moves a leap month that the year lacks. Then it moves a day that BYMONTHDAY or the
// start names and the month lacks. SKIP does not move a day counted from the end of the month, a
// day of the year or a numbered week: if the day does not exist, it is left out. BYDAY is applied
// after the move. Days that are moved to the same date are one slot.
type RRule struct {
	rule  rrule.Rule
	by    *scaled // nil for the Gregorian calendar
	start WallTime
	zone  Timezone // where Next looks for slots; zero if unknown
}

// ParseRRule reads a rule such as "FREQ=WEEKLY;BYDAY=MO,WE" for the series that begins at
// start, which supplies what the rule does not say, such as the time of day or the day of the
// month. Letters may have either case, and "RRULE:" may stand before the rule. The error is
// an [*InvalidRecurrenceError] that names every bad part: parts that the RFCs forbid, parts
// that [RRule] refuses, and unknown parts, those with X- included.
//
// RSCALE may name the Gregorian calendar and the given systems, in capital letters: RSCALE=HEBREW.
func ParseRRule(text string, start WallTime, systems ...System) (RRule, error) {
	var problems []string
	var scales []string
	for _, s := range systems {
		scales = append(scales, scaleOf(s))
	}
	rule, err := rrule.Parse(text, scales...)
	if bad, ok := errors.AsType[*rrule.Error](err); ok {
		problems = bad.Problems
	}
	if !start.Valid() {
		problems = append(problems, fmt.Sprintf("the start %s is on no calendar", start))
	}
	r := RRule{rule: rule, start: start}
	if parts, ok := rule.Scaled(); ok && len(problems) == 0 {
		r.by, problems = newScaled(parts, start, systems)
	}
	if err := invalidRecurrence(text, problems); err != nil {
		return RRule{}, err
	}
	return r, nil
}

// After returns the first slot strictly after w. It knows no zone: it may return slots that
// end up after an UNTIL in UTC, and counts slots that clocks skip. [Next] does neither.
func (r RRule) After(w WallTime, p Policies) (Slot, error) {
	if !r.zone.IsZero() || r.by != nil {
		return r.first(w, p)
	}
	if err := r.check(); err != nil {
		return Slot{}, err
	}
	next, ok := r.rule.Next(r.start.Labelled(), w.Labelled())
	if !ok {
		return Slot{}, noOccurrence(w)
	}
	return r.slot(next), nil
}

// first returns the first of the slots after w. It is apart from After because it needs an
// iterator, which copies the rule.
func (r RRule) first(w WallTime, p Policies) (Slot, error) { return firstOf(r.slots(w, p), w) }

// slots yields what After would return one after the other.
func (r RRule) slots(w WallTime, p Policies) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		if err := r.check(); err != nil {
			yield(Slot{}, err)
			return
		}
		if r.rule.Count() > 0 && p.Gap == GapSkip && !r.zone.IsZero() {
			r.countShown(w, p, yield)
			return
		}
		for slot, err := range r.readings(w) {
			if (err != nil || !r.isOver(slot.Wall, p)) && !yield(slot, err) {
				return
			}
		}
	}
}

// readings yields the slots after w in any zone, and at last an error.
func (r RRule) readings(w WallTime) iter.Seq2[Slot, error] {
	if r.by != nil {
		return r.by.slots(r.rule, w)
	}
	return func(yield func(Slot, error) bool) {
		for next := range r.rule.Slots(r.start.Labelled(), w.Labelled()) {
			if !yield(r.slot(next), nil) {
				return
			}
		}
		yield(Slot{}, noOccurrence(w))
	}
}

// countShown yields the slots after w, of which COUNT counts those that clocks show.
func (r RRule) countShown(w WallTime, p Policies, yield func(Slot, error) bool) {
	shown, skipped, count := 0, 0, r.rule.Count()
	r.rule = r.rule.Uncounted()
	for slot, err := range r.readings(justBefore(r.start)) {
		if err != nil {
			yield(Slot{}, err)
			return
		}
		if r.zone.skips(slot.Wall, p) {
			if skipped++; skipped > maxSkipped {
				break
			}
			continue
		}
		if w.Before(slot.Wall) && !yield(slot, nil) {
			return
		}
		if shown++; shown == count {
			break
		}
	}
	yield(Slot{}, noOccurrence(w))
}

// isOver reports whether a slot comes after an UNTIL that is an instant. Which wall time that
// is depends on the zone. A slot that a policy refuses is judged by the default policies.
func (r RRule) isOver(w WallTime, p Policies) bool {
	const near = 48 * time.Hour // further than any zone is from UTC
	until, utc, ok := r.rule.Until()
	if !ok || !utc || r.zone.IsZero() || w.Labelled().Before(until.Add(-near)) {
		return false
	}
	read, err := r.zone.Resolve(w, p)
	if err != nil {
		read, err = r.zone.Resolve(w, Policies{})
	}
	return err == nil && read.Instant.After(until)
}

func (r RRule) check() error {
	if !r.start.Valid() {
		return invalidRecurrence("rrule", []string{"it was not made by ParseRRule"})
	}
	return nil
}

func (r RRule) slot(s rrule.Slot) Slot {
	slot := Slot{Wall: WallTimeOf(s.Wall), Named: Date{s.Year, s.Month, s.Day}}
	daily := r.rule.OncePerDay()
	slot.Key, slot.Unit = keyOf(slot.Wall, daily), unitOf(daily)
	return slot
}

// keyOf names a slot by its day where that identifies it.
func keyOf(w WallTime, oncePerDay bool) string {
	if oncePerDay {
		return w.Date.String()
	}
	return w.String()
}

// String returns the rule's text in a normal form, without its start.
func (r RRule) String() string { return r.rule.String() }
