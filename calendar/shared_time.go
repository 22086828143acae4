package calendar

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// SharedTime is a time of day for users of whom only a list of zones is known. It can be the zone
// and the wall time of an event. SharedTimes are values.
type SharedTime struct {
	Zone    Timezone  // one of the list
	Wall    WallTime  // what clocks in Zone show at Instant
	Instant time.Time // UTC
	Open    bool      // whether the window is open in all zones
	// Outside is how long before or after the hours of the window Instant is, in the zone where it
	// is furthest outside. It is zero if Open is true. It is also zero if the clocks of each zone
	// skip the hours.
	Outside time.Duration
}

// InAllZones returns a time at which a window is open in all zones, such as those of a country (see
// [ZonesOf]). It looks at the hours of one day: the intervals of the window that begin on the date
// of wanted. In two cases, they are those of another day:
//
//   - If wanted is in an interval that began on the day before, that day. The result can then be
//     before the wanted time.
//   - If no interval begins on the date, the next day on which one does. The wanted time moves to
//     that day, too: with the window Mo-Fr 09:00-18:00, from Saturday 10:00 to Monday 10:00.
//
// The first of these is returned:
//
//   - The wanted time, in the zone that is the last to show it, if the window is then open in all
//     zones, also by hours of the next day. So no user gets an event before the wanted time of day.
//   - The first instant at which the hours are open in all zones.
//   - If there is none, the instant that is outside of the hours by the least time, in the zone
//     where it is furthest outside. It is half-way between an end and an opening. For all of Russia
//     from 09:00 until 18:00 that is half an hour, at both ends of the country.
//
// If clocks skip an opening, the hours open after the gap. If clocks show a time in the hours twice,
// the hours are open both times.
//
// The error is an [*InputError] if there are no zones, if wanted is out of range, or if the window
// does not open for 400 days. It is an [*InvalidTimezoneError] for a zone without data.
func InAllZones(zones []Timezone, wanted WallTime, window Window) (SharedTime, error) {
	if len(zones) == 0 {
		return SharedTime{}, &InputError{[]InputProblem{{"zones", "are none"}}}
	}
	h := sharedHours{zones: zones}
	wanted, err := h.choose(window.schedule(), wanted)
	if err != nil {
		return SharedTime{}, err
	}
	showing, err := h.resolved(wanted)
	if err != nil {
		return SharedTime{}, err
	}
	last := showing[0].at
	if h.open(last) || !slices.ContainsFunc(zones, func(z Timezone) bool { return !window.Includes(z.WallTime(last)) }) {
		return showing.share(last, 0, true), nil
	}
	each, err := h.inEach()
	if err != nil {
		return SharedTime{}, err
	}
	for _, at := range h.openings(each) {
		if h.open(at) {
			return showing.share(at, 0, true), nil
		}
	}
	at, outside := leastOutside(each)
	return showing.share(at, outside, false), nil
}

// sharedHours are hours of a day in several zones.
type sharedHours struct {
	zones []Timezone
	hours []wallHours
}

// wallHours are from a wall time until another one, without that.
type wallHours struct{ from, until WallTime }

// choose sets the hours, and returns the wanted time on their day.
func (h *sharedHours) choose(s schedule, wanted WallTime) (WallTime, error) {
	if !wanted.Valid() {
		return wanted, cannotResolve(wanted, Policies{})
	}
	day, second := dayNumber(wanted.Date), wanted.Clock.seconds()
	switch {
	case s.opensOn(day, second):
	case s.opensOn(day-1, second+secondsPerDay):
		day--
	case len(s.on(day)) == 0:
		next, ok := s.openDay(day, 1)
		if !ok {
			return wanted, &InputError{[]InputProblem{{"window", fmt.Sprintf("does not open in the %d days after %s", daysSearched, wanted.Date)}}}
		}
		day, wanted.Date = next, dateOf(next)
	}
	for _, interval := range s.on(day) {
		h.hours = append(h.hours, wallHours{wallAt(day, interval.from), wallAt(day, interval.until)})
	}
	return wanted, nil
}

// open reports whether the hours are open in all zones.
func (h *sharedHours) open(at time.Time) bool {
	return !slices.ContainsFunc(h.zones, func(z Timezone) bool {
		wall := z.WallTime(at)
		return !slices.ContainsFunc(h.hours, func(on wallHours) bool { return !wall.Before(on.from) && wall.Before(on.until) })
	})
}

// instants are from the first opening of hours in a zone until their last end.
type instants struct{ opens, closes time.Time }

// inEach returns the instants of the hours, for each zone.
func (h *sharedHours) inEach() (each [][]instants, err error) {
	for _, z := range h.zones {
		var all []instants
		for _, on := range h.hours {
			opens, err := z.Resolve(on.from, Policies{Gap: GapBoundary})
			if err != nil {
				return nil, err
			}
			closes, err := z.Resolve(on.until, Policies{Gap: GapBoundary, Fold: FoldSecond})
			if err != nil {
				return nil, err
			}
			all = append(all, instants{opens.Instant, closes.Instant})
		}
		each = append(each, all)
	}
	return each, nil
}

// openings returns the instants at which hours may become open in a zone, in order. Besides the first
// showings of the openings, these are their second showings, and the changes at which clocks are put
// back over the end of hours.
func (h *sharedHours) openings(each [][]instants) []time.Time {
	var all []time.Time
	for i, z := range h.zones {
		for k, on := range h.hours {
			all = append(all, each[i][k].opens)
			if second, err := z.Resolve(on.from, Policies{Gap: GapBoundary, Fold: FoldSecond}); err == nil {
				all = append(all, second.Instant)
			}
			if end, err := z.Resolve(on.until, Policies{}); err == nil && end.Reading == ShownTwice {
				all = append(all, end.Change.At)
			}
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// leastOutside returns the instant that is outside of the hours by the least time, in the zone where it
// is furthest outside. On the way from an end in one zone to an opening in another, that is half-way.
func leastOutside(each [][]instants) (best time.Time, least time.Duration) {
	least = math.MaxInt64
	all := slices.Concat(each...)
	slices.SortFunc(all, func(a, b instants) int { return cmp.Or(a.opens.Compare(b.opens), a.closes.Compare(b.closes)) })
	all = slices.CompactFunc(all, func(a, b instants) bool { return a.opens.Equal(b.opens) && a.closes.Equal(b.closes) }) // zones with the same clocks
	for _, next := range all {
		for _, last := range all {
			at := next.opens.Add(-max(next.opens.Sub(last.closes)/2, 0).Round(time.Second))
			if outside := furthest(each, at); outside < least || outside == least && at.Before(best) {
				best, least = at, outside
			}
		}
	}
	return best, least
}

// furthest returns how long before or after the hours an instant is, in the zone where it is furthest.
func furthest(each [][]instants, at time.Time) (outside time.Duration) {
	for _, all := range each {
		nearest := time.Duration(math.MaxInt64)
		for _, one := range all {
			nearest = min(nearest, max(one.opens.Sub(at), at.Sub(one.closes), 0))
		}
		outside = max(outside, nearest)
	}
	return outside
}

// showings are the instants of a wall time in several zones, the last one first.
type showings []showing

type showing struct {
	zone Timezone
	at   time.Time
}

func (h *sharedHours) resolved(w WallTime) (all showings, err error) {
	for _, z := range h.zones {
		r, err := z.Resolve(w, Policies{})
		if err != nil {
			return nil, err
		}
		all = append(all, showing{z, r.Instant})
	}
	slices.SortStableFunc(all, func(a, b showing) int { return b.at.Compare(a.at) })
	return all, nil
}

// share returns the time of an instant in the first of the zones in which the default policies resolve
// the wall time to that instant. So the time is not the second showing of a wall time, if another zone
// has a wall time that is shown once.
func (s showings) share(at time.Time, outside time.Duration, open bool) SharedTime {
	i := slices.IndexFunc(s, func(one showing) bool {
		r, err := one.zone.Resolve(one.zone.WallTime(at), Policies{})
		return err == nil && r.Instant.Equal(at)
	})
	z := s[max(i, 0)].zone
	return SharedTime{z, z.WallTime(at), at, open, outside}
}
