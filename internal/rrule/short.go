package rrule

import "iter"

// inShortPeriods yields the readings from a second on, for periods of days, hours, minutes or seconds.
// Most parts of such a rule exclude periods. The search alternates between the next day and time of day
// that nothing excludes and the next period that the interval reaches, until both are the same.
func (s *series) inShortPeriods(from int64) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		var d day
		if !s.by.setPos.empty() {
			if d.places = s.by.setPos.picks(s.inner.len()); len(d.places) == 0 {
				return
			}
		}
		perDay := daySeconds / s.unit
		common := gcd(s.interval, perDay)
		if _, ever := s.allowed(floorMod(s.origin, common), common); !ever {
			return // on every day, the interval skips the times
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

// horizon returns the number of fruitless periods after which the search ends.
//
// The interval and the calendar's cycle coincide again after a number of days that both
// divide. A reading that did not occur until then never occurs. With times of day that
// number is too large to search. The limit is then one cycle, 400 years, or if the interval
// is longer than a day, as many intervals as a cycle has days.
func (s *series) horizon() int64 {
	perDay := daySeconds / s.unit
	if s.interval < perDay {
		return cycleDays * perDay
	}
	leaps := cycleDays * perDay / gcd(s.interval, cycleDays*perDay)
	return min(leaps, cycleDays) * s.interval
}

// sameDay returns the first period from p on, on p's day, that the interval reaches and no
// hour, minute or second excludes. Without one, it returns false and the first period that
// the interval reaches on a later day.
//
// The first period of a day determines all further ones on that day. First periods without
// a result are stored in barren. All fruitless steps of a search together are therefore at
// most the periods of one day: shorter steps have fewer different first periods.
func (s *series) sameDay(p int64, barren map[int64]bool) (int64, bool) {
	perDay := daySeconds / s.unit
	begin := floorMod(p, perDay)
	morning := p - begin
	if !barren[begin] {
		if t, ok := s.allowed(begin, s.interval); ok {
			return morning + t, true
		}
		if s.interval < perDay { // nothing to save if the interval is longer than a day
			barren[begin] = true
		}
	}
	return s.align(morning + perDay), false
}

// allowed returns the first of the periods t, t+step, t+2*step and so on of a day that no
// hour, minute or second excludes.
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
