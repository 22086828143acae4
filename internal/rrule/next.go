package rrule

import (
	"iter"
	"time"
)

// Slot is one reading of a series.
type Slot struct {
	Wall time.Time // the wall reading, labelled UTC
	// Year, Month and Day are the date that the rule names when SKIP moved the reading: 30
	// February for a reading on 28 February. They are zero when the reading was not moved,
	// and when the rule also names the day of the reading.
	Year  int
	Month time.Month
	Day   int
}

// Next returns the first reading strictly after the given one, in the series that begins at
// start. The start itself is a reading if it fits the rule. Next returns false when there
// is none before the year 10000.
//
// Both arguments are wall readings in UTC, truncated to the second. Next observes COUNT,
// and UNTIL unless that is in UTC. For an UNTIL in UTC it stops two days late, and the
// caller compares instants (see [Rule.Until]).
//
// The cost does not depend on the distance between start and after, except with COUNT,
// which counts from the start. It is bounded for every rule, because the search ends where
// the calendar repeats. For a rule below daily with readings more than 400 years apart,
// Next may return false although further readings exist.
func (r Rule) Next(start, after time.Time) (Slot, bool) {
	if s, ok := newSeries(r, start); ok {
		for slot := range s.after(after.Unix()) {
			return slot, true
		}
	}
	return Slot{}, false
}

// Slots yields the successive results of [Rule.Next]. It counts from the start only once.
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

// from yields the readings of the series from a second on, in order, ignoring COUNT.
func (s *series) from(second int64) iter.Seq[Slot] {
	if s.unit != 0 {
		return s.inShortPeriods(second)
	}
	return s.inLongPeriods(second)
}
