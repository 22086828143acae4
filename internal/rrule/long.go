package rrule

import (
	"iter"
	"slices"
	"time"
)

// day is a day of a period on which the series has readings.
type day struct {
	number  int64
	lacking int   // the day of the month that the rule names and the month lacks; otherwise 0
	places  []int // the indexes of the times of day that BYSETPOS selected; nil means all
}

// inLongPeriods yields the readings from a second on, for periods of weeks, months or
// years. It expands the days of each period and skips past ones.
func (s *series) inLongPeriods(from int64) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		p := s.align(s.position(from))
		if s.freq == monthly && s.skip == forward {
			p = max(s.origin, p-s.interval) // its last day may be the first of this month
		}
		atMost := [...]int{weekly: cycleWeeks, monthly: cycleMonths, yearly: cycleYears}[s.freq]
		var days, later []day
		for fruitless := -2; fruitless < atMost; fruitless++ { // the first two are not complete
			if s.firstDay(p)*daySeconds > s.end {
				return
			}
			days, later = s.part(join(later, s.choose(s.days(p))), s.firstDay(p+s.interval))
			for _, d := range days {
				found, more := s.emit(d, d.number*daySeconds, from, yield)
				if !more {
					return
				}
				if found {
					fruitless = 0
				}
			}
			p += s.interval
		}
	}
}

// part splits a list of days at next, the first day of the next period. At most one day is later:
// the first of a month, which replaces days that the previous month lacks.
func (s *series) part(days []day, next int64) (now, later []day) {
	last := len(days) - 1
	if last < 0 || days[last].number < next {
		return days, nil
	}
	return days[:last], slices.Clone(days[last:]) // the next period reuses the list
}

// join merges the days left from an earlier period with the days of a later one.
func join(left, days []day) []day {
	if len(left) == 0 {
		return days
	}
	if len(days) == 0 || days[0].number != left[0].number {
		return append(left, days...)
	}
	if days[0].places != nil {
		days[0].places = append(days[0].places, left[0].places...)
		slices.Sort(days[0].places)
		days[0].places = slices.Compact(days[0].places)
	}
	return days
}

// firstDay returns the number of the first day of a period.
func (s *series) firstDay(p int64) int64 {
	year, month := p, time.January
	switch s.freq {
	case weekly:
		return p*7 + floorMod(int64(s.weekStart-time.Thursday), 7)
	case monthly:
		year, month = p/12, time.Month(p%12+1)
	}
	// With a large interval the year may exceed the range of a small int.
	return numberOf(int(min(year, lastYear+1)), month, 1)
}

// days returns the days of a period in order. The next call reuses the slice.
func (s *series) days(p int64) []day {
	first := s.firstDay(p)
	days := s.listed[:0]
	switch s.freq {
	case weekly:
		for number := first; number < first+7; number++ {
			if s.setPage(number); s.page.days>>(number-s.page.first+1)&1 == 1 {
				days = append(days, day{number: number})
			}
		}
	case monthly:
		days = s.month(days, first)
	case yearly:
		for range 12 {
			days = s.month(days, first)
			first = s.page.first + s.page.len
		}
	}
	s.listed = days
	return days
}

// month appends the days of the month that begins at first.
func (s *series) month(days []day, first int64) []day {
	s.setPage(first)
	for i := range s.page.len {
		if s.page.days>>(i+1)&1 == 0 {
			continue
		}
		if last := len(days) - 1; last >= 0 && days[last].number == first+i {
			days = days[:last] // it replaced another day, and is also named itself
		}
		days = append(days, day{number: first + i})
	}
	if s.skip == omit || !s.by.yearDay.empty() || !s.by.weekNo.empty() {
		return days
	}
	for lacking := int(s.page.len) + 1; lacking <= 31; lacking++ {
		if d, ok := s.instead(lacking); ok && (len(days) == 0 || days[len(days)-1].number != d.number) {
			days = append(days, d)
		}
	}
	return days
}

// instead returns the day that replaces a day of the rule that the month of page lacks.
func (s *series) instead(lacking int) (day, bool) {
	if !s.by.monthDay.has(lacking) {
		return day{}, false
	}
	end := dateOf(s.page.first + s.page.len - 1)
	if !s.by.month.empty() && !s.by.month.has(int(end.month)) {
		return day{}, false
	}
	if s.skip == forward {
		end = dateOf(end.number + 1)
	}
	return day{number: end.number, lacking: lacking}, s.onWeekday(&end)
}

// choose applies BYSETPOS to the days of a period.
func (s *series) choose(days []day) []day {
	if s.by.setPos.empty() {
		return days
	}
	perDay := s.inner.len()
	var chosen []day
	for _, place := range s.by.setPos.picks(len(days) * perDay) {
		d := days[place/perDay]
		if len(chosen) == 0 || chosen[len(chosen)-1].number != d.number {
			chosen = append(chosen, d)
		}
		last := &chosen[len(chosen)-1]
		last.places = append(last.places, place%perDay)
	}
	return chosen
}
