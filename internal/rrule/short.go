package rrule

import "iter"

// inShortPeriods yields the readings from a second on where periods are days,
// hours, minutes or seconds. Most parts of such a rule exclude periods, so the
// search leaps to and fro: to the next day and time of day that nothing excludes,
// then to the next period that the interval reaches, until they are the same.
func (s *series) inShortPeriods(from int64) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		var d day
		if !s.by.setPos.empty() {
			if d.places = s.picks(s.inner.len()); len(d.places) == 0 {
				return
			}
		}
		perDay := daySeconds / s.unit
		common := gcd(s.interval, perDay)
		if _, ever := s.allowed(floorMod(s.origin, common), common); !ever {
			return // whatever the day, the interval leaps over the times
		}
		barren := map[int64]bool{}
		p := s.align(s.position(from))
		for limit := p + s.horizon(); p <= limit && p*s.unit <= s.end; {
			today, ok := s.nextDay(floorDiv(p, perDay))
			if !ok {
				return
			}
			if p = max(p, s.align(today*perDay)); p >= (today+1)*perDay {
				continue
			}
			if p, ok = s.sameDay(p, barren); !ok {
				continue
			}
			found, more := s.emit(d, p*s.unit, from, yield)
			if !more {
				return
			}
			p += s.interval
			if found {
				limit = p + s.horizon()
			}
		}
	}
}

// horizon returns after how many fruitless periods the search ends.
//
// Days and the calendar meet again in the same way after as many days as both the
// interval and the calendar's cycle divide; what did not recur until then never
// will. With times of day that would be too long to search. There it is one cycle,
// 400 years, or where the interval leaps over days, as many leaps as that has days.
func (s *series) horizon() int64 {
	perDay := daySeconds / s.unit
	if s.interval < perDay {
		return cycleDays * perDay
	}
	leaps := cycleDays * perDay / gcd(s.interval, cycleDays*perDay)
	return min(leaps, cycleDays) * s.interval
}

// sameDay returns the first period from p on, on p's day, that the interval reaches
// and no hour, minute or second excludes; or false and the first that the interval
// reaches on a later day.
//
// What the interval reaches on a day is told by how long after midnight that begins.
// Beginnings after which nothing was found are remembered as barren. All fruitless
// walks of a search together are then no longer than a day of steps of one period:
// the shorter the steps, the fewer are the beginnings.
func (s *series) sameDay(p int64, barren map[int64]bool) (int64, bool) {
	perDay := daySeconds / s.unit
	begin := floorMod(p, perDay)
	morning := p - begin
	if !barren[begin] {
		if t, ok := s.allowed(begin, s.interval); ok {
			return morning + t, true
		}
		if s.interval < perDay { // there is no walk to save where it leaps over days
			barren[begin] = true
		}
	}
	return s.align(morning + perDay), false
}

// allowed returns the first of the periods of a day that are t, t+step, t+2*step and
// so on, which no hour, minute or second excludes.
func (s *series) allowed(t, step int64) (int64, bool) {
	for t < daySeconds/s.unit {
		i := s.outer.search(t * s.unit)
		if i == s.outer.len() {
			break
		}
		next := s.outer.at(i) / s.unit
		if next == t {
			return t, true
		}
		t = next + floorMod(t-next, step)
	}
	return 0, false
}
