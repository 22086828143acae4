package calendar

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"time"
)

// RecurrenceSet is a recurrence set of RFC 5545 section 3.8.5: a start, a rule, further dates and
// exceptions. Make it with [ParseRecurrenceSet], and ask [Next] for slots in the zone that
// [RecurrenceSet.Zone] returns. Its keys are wall times, "2027-03-15T09:00:00": they do not change
// when a date or an exception is added. If the rule is by another calendar, the set has the keys of
// the rule.
//
// What [RRule] says of a rule holds here too. So the start is a slot only if the rule yields
// it, or if there is no rule. Besides:
//
//   - A wall time that the rule and RDATE yield several times is one slot.
//   - An EXDATE (section 3.8.5.1) that is a wall time leaves out the slot of that wall time. It
//     also leaves out a slot that clocks skip and the gap policy moves to that wall time:
//     03:30 leaves out the 02:30 that becomes 03:30, as 02:30 does. Calendars write the time
//     that they show, and section 3.3.5 reads a skipped wall time as the later one.
//   - An EXDATE in UTC leaves out the slot that happens at that instant in the zone, by the
//     policies.
//   - An EXDATE with VALUE=DATE leaves out every slot on that date, and every slot that a gap
//     moves to it.
//   - COUNT counts the slots of the rule, those that EXDATE leaves out included.
//   - An RDATE in UTC stands for the wall time that clocks in the zone show then.
type RecurrenceSet struct {
	start    WallTime
	zone     Timezone   // zero for wall times of no zone
	rule     RRule      // the zero RRule for none
	dates    []WallTime // in order, each once
	except   []WallTime // in order, each once
	exceptOn []WallTime // likewise: the midnights at which excepted dates begin
	exceptAt []time.Time
	in       Timezone // where Next looks for slots; the zone of the text otherwise
}

// Start returns the wall time of DTSTART.
func (s RecurrenceSet) Start() WallTime { return s.start }

// Zone returns the zone that DTSTART names: UTC if it is in UTC, and the zero Timezone if it
// is a wall time without a zone. Then the caller chooses the zone.
func (s RecurrenceSet) Zone() Timezone { return s.zone }

// After returns the first slot strictly after w.
func (s RecurrenceSet) After(w WallTime, p Policies) (Slot, error) { return firstOf(s.slots(w, p), w) }

// slots yields what After would return one after the other.
func (s RecurrenceSet) slots(w WallTime, p Policies) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		if !s.start.Valid() {
			yield(Slot{}, invalidRecurrence("recurrence set", []string{"it was not made by ParseRecurrenceSet"}))
			return
		}
		for again := true; again; {
			w, again = s.until(w, p, yield)
		}
	}
}

// until yields the slots after w up to the next excepted date. If it comes to one, it returns the last
// second of that date, and true: the search goes on from there, because a rule may yield a slot each second
// of the date. A rule with COUNT yields few slots, and each search counts them anew.
func (s RecurrenceSet) until(w WallTime, p Policies, yield func(Slot, error) bool) (WallTime, bool) {
	for slot, err := range s.united(w, p) {
		if err == nil {
			if s.exceptsDate(slot.Wall.Date) && s.rule.rule.Count() == 0 {
				return WallTime{Date: slot.Wall.Date, Clock: Clock{Hour: 23, Minute: 59, Second: 59}}, true
			}
			if s.leavesOut(slot.Wall, p) {
				continue
			}
			if s.rule.by == nil {
				slot.Key, slot.Unit = slot.Wall.String(), UnitTime
			}
		}
		if !yield(slot, err) {
			return w, false
		}
	}
	return w, false
}

// united yields the slots of the rule and the dates after w, in order and each once, and at last
// an error.
func (s RecurrenceSet) united(w WallTime, p Policies) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		dates := s.dates
		for len(dates) > 0 && !w.Before(dates[0]) {
			dates = dates[1:]
		}
		for slot, err := range s.ruled(w, p) {
			over := errors.Is(err, ErrNoOccurrence)
			for len(dates) > 0 && (over || !slot.Wall.Before(dates[0])) {
				if dates[0] != slot.Wall && !yield(Slot{Wall: dates[0]}, nil) {
					return
				}
				dates = dates[1:]
			}
			if !yield(slot, err) || err != nil {
				return
			}
		}
	}
}

// ruled yields the slots of the rule after w, and at last an error.
func (s RecurrenceSet) ruled(w WallTime, p Policies) iter.Seq2[Slot, error] {
	if s.rule.start.Valid() {
		return s.rule.slots(w, p)
	}
	return func(yield func(Slot, error) bool) { yield(Slot{}, noOccurrence(w)) }
}

// leavesOut reports whether there is an exception for a slot: for its wall time, for its
// instant, or for the wall time that clocks show then.
func (s RecurrenceSet) leavesOut(w WallTime, p Policies) bool {
	if len(s.except)+len(s.exceptOn)+len(s.exceptAt) == 0 {
		return false
	}
	if s.excepts(w) {
		return true
	}
	is, err := s.in.Resolve(w, p)
	if err != nil {
		return false // a policy refuses the slot, and says so where it is resolved
	}
	_, found := slices.BinarySearchFunc(s.exceptAt, is.Instant, time.Time.Compare)
	return found || is.Moved != 0 && s.excepts(is.Shown())
}

// excepts reports whether an EXDATE names a wall time, or its date.
func (s RecurrenceSet) excepts(w WallTime) bool {
	_, named := slices.BinarySearchFunc(s.except, w, WallTime.Compare)
	return named || s.exceptsDate(w.Date)
}

func (s RecurrenceSet) exceptsDate(d Date) bool {
	_, found := slices.BinarySearchFunc(s.exceptOn, WallTime{Date: d}, WallTime.Compare)
	return found
}

const (
	dateForm = "20060102"         // a date in iCalendar
	wallForm = "20060102T150405"  // a wall time
	utcForm  = "20060102T150405Z" // an instant
)

// String returns the text of the set in a normal form that [ParseRecurrenceSet] reads: a line
// for each of DTSTART, RRULE, RDATE and EXDATE, with a line feed between, the values in order
// and each once. Lines are not folded. The zero RecurrenceSet is "".
func (s RecurrenceSet) String() string {
	if !s.start.Valid() {
		return ""
	}
	form, zone := wallForm, ""
	switch {
	case s.isUTC():
		form = utcForm
	case !s.zone.IsZero():
		zone = ";TZID=" + s.zone.String()
	}
	lines := []string{"DTSTART" + zone + ":" + s.start.Labelled().Format(form)}
	list := func(name string, texts []string) {
		if len(texts) > 0 {
			lines = append(lines, name+":"+strings.Join(texts, ","))
		}
	}
	formatted := func(walls []WallTime, form string) (texts []string) {
		for _, w := range walls {
			texts = append(texts, w.Labelled().Format(form))
		}
		return texts
	}
	dates := s.dates
	if s.rule.start.Valid() {
		list("RRULE", []string{s.rule.String()})
	} else {
		dates = slices.DeleteFunc(slices.Clone(dates), func(w WallTime) bool { return w == s.start })
	}
	list("RDATE"+zone, formatted(dates, form))
	list("EXDATE"+zone, formatted(s.except, form))
	list("EXDATE;VALUE=DATE", formatted(s.exceptOn, dateForm))
	var instants []string
	for _, at := range s.exceptAt {
		instants = append(instants, at.Format(utcForm))
	}
	list("EXDATE", instants)
	return strings.Join(lines, "\n")
}

// isUTC reports whether the set is written in UTC.
func (s RecurrenceSet) isUTC() bool { return s.zone.String() == "UTC" }
