package calendar

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// SharedTime is a time of day for users of whom only a list of zones is known. It can be the zone
// and the wall time of an event. SharedTimes are values.
type SharedTime struct {
	Zone    Timezone  // one of the list
	Wall    WallTime  // what clocks in Zone show at Instant
	Instant time.Time // UTC
	Open    bool      // whether the hours are open in all zones
	// Outside is how long before or after the hours Instant is, in the zone where it is furthest
	// outside. It is zero if Open is true. It is also zero if the clocks of each zone skip the
	// hours.
	Outside time.Duration
}

// InAllZones returns a time at which hours of the day are open in all zones, such as those of a
// country (see [ZonesOf]). The hours are open in a zone while its clocks show a time from from up
// to until, without until itself, on the date of wanted. If until is not after from, the hours end
// on the next day.
//
// The first of these is returned:
//
//   - The wanted time, in the zone that is the last to show it, if the hours are then open in all
//     zones. So no user gets an event before the wanted time of day.
//   - The first instant at which the hours are open in all zones.
//   - If there is none, the instant that is outside of the hours by the least time, in the zone
//     where it is furthest outside. It is half-way between the first end and the last opening. For
//     all of Russia from 09:00 until 18:00 that is half an hour, at both ends of the country.
//
// If clocks skip the opening, the hours open after the gap. If clocks show a time in the hours twice,
// the hours are open both times.
//
// The error is an [*InputError] if there are no zones, or if wanted, from or until is out of range. It is
// an [*InvalidTimezoneError] for a zone without data.
func InAllZones(zones []Timezone, wanted WallTime, from, until Clock) (SharedTime, error) {
	h := sharedHours{zones: zones, from: WallTime{wanted.Date, from}, until: WallTime{wanted.Date, until}}
	if err := h.check(); err != nil {
		return SharedTime{}, err
	}
	if !from.Before(until) {
		h.until.Date = wanted.Date.AddDays(1)
	}
	showing, err := h.resolved(wanted, Policies{})
	if err != nil {
		return SharedTime{}, err
	}
	if h.open(showing[0].at) {
		return showing.share(showing[0].at, 0, true), nil
	}
	opening, err := h.resolved(h.from, Policies{Gap: GapBoundary})
	if err != nil {
		return SharedTime{}, err
	}
	ending, err := h.resolved(h.until, Policies{Gap: GapBoundary, Fold: FoldSecond})
	if err != nil {
		return SharedTime{}, err
	}
	for _, at := range h.openings(opening) {
		if h.open(at) {
			return opening.share(at, 0, true), nil
		}
	}
	last := opening[0].at
	outside := max(last.Sub(ending[len(ending)-1].at)/2, 0).Round(time.Second)
	return opening.share(last.Add(-outside), outside, false), nil
}

// sharedHours are hours of a day in several zones.
type sharedHours struct {
	zones       []Timezone
	from, until WallTime
}

func (h sharedHours) check() error {
	var bad []InputProblem
	if len(h.zones) == 0 {
		bad = append(bad, InputProblem{"zones", "are none"})
	}
	for field, c := range map[string]Clock{"from": h.from.Clock, "until": h.until.Clock} {
		if !c.Valid() {
			bad = append(bad, InputProblem{field, fmt.Sprintf("is %s, which no clock shows", c)})
		}
	}
	if bad == nil {
		return nil
	}
	slices.SortFunc(bad, func(a, b InputProblem) int { return strings.Compare(a.Field, b.Field) })
	return &InputError{bad}
}

// open reports whether the hours are open in all zones.
func (h sharedHours) open(at time.Time) bool {
	return !slices.ContainsFunc(h.zones, func(z Timezone) bool {
		wall := z.WallTime(at)
		return wall.Before(h.from) || !wall.Before(h.until)
	})
}

// showings are the instants of a wall time in several zones, the last one first.
type showings []showing

type showing struct {
	zone Timezone
	at   time.Time
}

func (h sharedHours) resolved(w WallTime, p Policies) (all showings, err error) {
	for _, z := range h.zones {
		r, err := z.Resolve(w, p)
		if err != nil {
			return nil, err
		}
		all = append(all, showing{z, r.Instant})
	}
	slices.SortStableFunc(all, func(a, b showing) int { return b.at.Compare(a.at) })
	return all, nil
}

// openings returns the instants at which the hours may become open in a zone, in order. Besides the
// first showings of the opening, these are its second showings, and the changes at which clocks are put
// back over the end of the hours.
func (h sharedHours) openings(first showings) []time.Time {
	var all []time.Time
	for _, one := range first {
		all = append(all, one.at)
		if second, err := one.zone.Resolve(h.from, Policies{Gap: GapBoundary, Fold: FoldSecond}); err == nil {
			all = append(all, second.Instant)
		}
		if end, err := one.zone.Resolve(h.until, Policies{}); err == nil && end.Reading == ShownTwice {
			all = append(all, end.Change.At)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
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
