package rrule

import (
	"iter"
	"time"
)

// Slot is one reading of a series.
type Slot struct {
	Wall time.Time // the wall reading, labelled UTC
	// Year, Month and Day are the date that the rule names when SKIP moved the
	// reading to another: 30 February for a reading on 28 February. They are zero
	// when nothing was moved, and when the rule names the day of the reading as well.
	Year  int
	Month time.Month
	Day   int
}

// Next returns the first reading strictly after the given one, of the series that
// begins at start; start itself is one if it fits the rule. It reports false when
// there is none before the year 10000.
//
// Both arguments are wall readings labelled UTC, cut to the second. Next observes
// COUNT, and UNTIL unless it is in UTC: then it stops two days late, and the
// caller compares instants (see [Rule.Until]).
//
// The cost does not depend on how far after lies from start, except with COUNT,
// which is counted from the start. It is bounded for every rule, because the search
// ends where the calendar begins to repeat itself. A rule below daily whose readings
// lie more than 400 years apart can be taken for one that has no more.
func (r Rule) Next(start, after time.Time) (Slot, bool) {
	if s, ok := newSeries(r, start); ok {
		for slot := range s.after(after.Unix()) {
			return slot, true
		}
	}
	return Slot{}, false
}

// Slots yields what [Rule.Next] would find one after the other. It counts from the
// start once, not again for each reading.
func (r Rule) Slots(start, after time.Time) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		if s, ok := newSeries(r, start); ok {
			s.after(after.Unix())(yield)
		}
	}
}

// after yields the readings of the series after a second, in order.
func (s *series) after(second int64) iter.Seq[Slot] {
	if second >= s.end {
		return func(func(Slot) bool) {}
	}
	from := max(s.start, second+1)
	if s.count == 0 {
		return s.from(from)
	}
	return func(yield func(Slot) bool) {
		count := 0
		for slot := range s.from(s.start) {
			if slot.Wall.Unix() >= from && !yield(slot) {
				return
			}
			if count++; count == s.count {
				return
			}
		}
	}
}

// from yields the readings of the series from a second on, in order, whatever
// COUNT says.
func (s *series) from(second int64) iter.Seq[Slot] {
	if s.unit != 0 {
		return s.inShortPeriods(second)
	}
	return s.inLongPeriods(second)
}
