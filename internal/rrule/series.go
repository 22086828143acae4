package rrule

import (
	"math/bits"
	"time"
)

// series is a rule with its start, which supplies what the rule leaves open. It serves one search.
type series struct {
	Rule             // with the day supplied by the start
	start, end int64 // the first and the last second that count
	origin     int64 // the start's period
	unit       int64 // length of a period in seconds; 0 for weeks and longer ones
	outer      clock // the starts of the periods within a day, if there are several
	inner      clock // the times within a period, or within each day of a long one
	page       page  // the month that was examined last
	listed     []day // the days of the period that was expanded last
}

// page is the days of a month that the rule selects.
type page struct {
	first, len int64  // number of its first day, and how many it has
	days       uint32 // bit d stands for day d
}

// utcMargin is the maximum by which a wall reading can exceed an UNTIL in UTC and still resolve to an
// instant that does not exceed it. No zone is as far as a day from UTC, and no clock is set back by a day.
const utcMargin = 2 * daySeconds

// newSeries returns false when the series cannot have a reading.
func newSeries(r Rule, start time.Time) (*series, bool) {
	if r.freq == 0 || start.Year() < 1 {
		return nil, false
	}
	s := &series{Rule: r, start: start.Unix()}
	s.end = numberOf(lastYear+1, time.January, 1)*daySeconds - 1
	switch r.until.form {
	case untilUTC:
		s.end = min(s.end, r.until.last+utcMargin)
	case untilDate, untilLocal:
		s.end = min(s.end, r.until.last)
	}
	if s.start > s.end {
		return nil, false
	}
	s.supplyDay(dateOf(floorDiv(s.start, daySeconds)))
	s.supplyTime(start.UTC().Clock())
	s.origin = s.position(s.start)
	return s, true
}

// supplyDay takes the day from the start if the rule leaves it open. Rules below weekly do
// not: every day is in their series unless something excludes it.
func (s *series) supplyDay(start date) {
	by := &s.by
	if !by.weekday.empty() || !by.monthDay.empty() || !by.yearDay.empty() {
		return
	}
	switch {
	case s.freq == weekly || s.freq == yearly && !by.weekNo.empty():
		by.weekday.add(start.weekday(), 0)
	case s.freq == yearly && by.month.empty():
		by.month.add(int(start.month))
		by.monthDay.add(start.day)
	case s.freq == yearly || s.freq == monthly:
		by.monthDay.add(start.day)
	}
}

// supplyTime takes from the start the hour, minute and second that the rule leaves open. It
// separates the parts that select periods of a day from the parts that select times within
// a period. A rule has all periods of a day unless a part excludes them.
func (s *series) supplyTime(hour, minute, second int) {
	zero := []int{0}
	part := func(given *numbers, start, of int, period frequency) (outer, inner []int) {
		switch {
		case s.freq > period && given.empty():
			return zero, []int{start}
		case s.freq > period:
			return zero, given.values()
		case given.empty():
			return upTo(of), zero
		}
		return given.values(), zero
	}
	s.outer.hours, s.inner.hours = part(&s.by.hour, hour, 24, hourly)
	s.outer.minutes, s.inner.minutes = part(&s.by.minute, minute, 60, minutely)
	s.outer.seconds, s.inner.seconds = part(&s.by.second, second, 60, secondly)
	s.unit = [...]int64{secondly: 1, minutely: 60, hourly: 3600, daily: daySeconds, yearly: 0}[s.freq]
}

// position returns the number of the period that contains a second.
func (s *series) position(second int64) int64 {
	if s.unit != 0 {
		return floorDiv(second, s.unit)
	}
	d := dateOf(floorDiv(second, daySeconds))
	switch s.freq {
	case weekly:
		return floorDiv(weekStart(d.number, s.weekStart), 7)
	case monthly:
		return int64(d.year)*12 + int64(d.month) - 1
	}
	return int64(d.year)
}

// align returns the first period not before position that the interval reaches, without
// regard to the start.
func (s *series) align(position int64) int64 {
	return position + floorMod(s.origin-position, s.interval)
}

// selects reports whether nothing in the rule excludes the day.
func (s *series) selects(d *date) bool {
	by := &s.by
	if !by.month.empty() && !by.month.has(int(d.month)) ||
		!by.yearDay.empty() && !by.yearDay.counts(d.yearDay, d.yearLen) ||
		!by.monthDay.empty() && !by.monthDay.counts(d.day, d.monthLen) ||
		!s.onWeekday(d) {
		return false
	}
	return by.weekNo.empty() || by.weekNo.counts(d.week(s.weekStart))
}

// onWeekday reports whether BYDAY contains the day, or is not given. Its numbers count
// within the month, or within the year if the rule names no months.
func (s *series) onWeekday(d *date) bool {
	by := &s.by
	switch {
	case by.weekday.empty():
		return true
	case s.freq == yearly && by.month.empty():
		return by.weekday.has(d.weekday(), d.yearDay, d.yearLen)
	}
	return by.weekday.has(d.weekday(), d.day, d.monthLen)
}

// setPage sets page to the month of a day.
func (s *series) setPage(number int64) {
	if at := number - s.page.first; at >= 0 && at < s.page.len {
		return
	}
	d := dateOf(number)
	d.number, d.yearDay, d.day = d.number-int64(d.day)+1, d.yearDay-d.day+1, 1
	s.page = page{first: d.number, len: int64(d.monthLen)}
	if !s.by.month.empty() && !s.by.month.has(int(d.month)) {
		return
	}
	for range d.monthLen {
		if s.selects(&d) {
			s.page.days |= 1 << d.day
		}
		d.number, d.yearDay, d.day = d.number+1, d.yearDay+1, d.day+1
	}
}

// nextDay returns the first day not before number that nothing excludes. It examines a
// whole cycle of the calendar, so it returns false only if there is none.
func (s *series) nextDay(number int64) (int64, bool) {
	for range cycleMonths + 1 {
		if number*daySeconds > s.end {
			break
		}
		s.setPage(number)
		from := number - s.page.first + 1
		if rest := s.page.days >> from << from; rest != 0 {
			return s.page.first + int64(bits.TrailingZeros32(rest)) - 1, true
		}
		number = s.page.first + s.page.len
	}
	return 0, false
}

// emit yields the readings from the second from on, of a period or of the day d of a long
// period that begins at begin. It uses the times that d selected. It returns whether it
// found any reading, and whether the consumer wants more.
func (s *series) emit(d day, begin, from int64, yield func(Slot) bool) (found, more bool) {
	i, n := s.inner.search(from-begin), s.inner.len()
	if d.places != nil {
		i, n = 0, len(d.places)
	}
	for ; i < n; i++ {
		place := i
		if d.places != nil {
			place = d.places[i]
		}
		second := begin + s.inner.at(place)
		if second > s.end {
			break
		}
		if second < from {
			continue
		}
		if found = true; !yield(s.slot(second, d)) {
			return true, false
		}
	}
	return found, true
}

// slot returns the reading at a second of d.
func (s *series) slot(second int64, d day) Slot {
	slot := Slot{Wall: time.Unix(second, 0).UTC()}
	if d.lacking != 0 {
		named := dateOf(d.number)
		if s.skip == forward {
			named = dateOf(d.number - 1)
		}
		slot.Year, slot.Month, slot.Day = named.year, named.month, d.lacking
	}
	return slot
}
