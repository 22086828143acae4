// Package used decides which occurrences of a series are used, also after the rule of the series has
// changed and its keys name another unit. See docs/adr/0065-used-days.md.
//
// Planning and the repositories still compare the keys of all units as texts. The decision record lists
// the steps that are left.
package used

import (
	"slices"

	"github.com/almanac-go/almanac/calendar"
)

// Key is the last occurrence of a series that was used, among those whose keys have one
// unit. That occurrence and all earlier ones of the unit are used for ever.
type Key struct {
	Unit    calendar.Unit
	Key     string            // the greatest key that was used
	Nominal calendar.WallTime // of the occurrence; see calendar.Occurrence
	// Ended is when its event ended, or was last claimed, as clocks in the user's zone
	// showed then.
	Ended calendar.WallTime
}

// Keys says which occurrences of a series are used: the last one of each unit of keys. A
// series has several units only after its rule changed.
type Keys []Key

// With returns u together with another used occurrence. A lower key of the same unit does
// not replace a greater one.
func (u Keys) With(one Key) Keys {
	i := slices.IndexFunc(u, func(k Key) bool { return k.Unit == one.Unit })
	if i < 0 {
		return append(slices.Clone(u), one)
	}
	if one.Key <= u[i].Key {
		return u
	}
	u = slices.Clone(u)
	u[i] = one
	return u
}

// Has reports whether an occurrence is used. Keys of the same unit are compared. A rule that
// has become finer, with keys that are times, continues after the last occurrence, on the
// same day too. Between other units the day counts: no second event on the local day on
// which the last one ended, and none for an earlier day. If the keys of either rule are the
// host's own, that local day alone counts. See docs/adr/0065-used-days.md.
func (u Keys) Has(o calendar.Occurrence) bool {
	return slices.ContainsFunc(u, func(k Key) bool { return k.precludes(o) || k.sharesDay(o) })
}

// precludes reports whether o is used because of k, by a rule that holds for all earlier
// occurrences of the same recurrence, too.
func (k Key) precludes(o calendar.Occurrence) bool {
	nominal := nominalOf(o)
	switch {
	case k.Unit == o.Unit:
		return o.Key <= k.Key
	case k.Unit == calendar.UnitText || o.Unit == calendar.UnitText:
		return !k.Ended.Date.Before(nominal.Date)
	case o.Unit == calendar.UnitTime:
		return !k.Nominal.Before(nominal) && !k.Ended.Before(nominal)
	}
	return !k.Nominal.Date.Before(nominal.Date) && !k.Ended.Date.Before(nominal.Date)
}

// sharesDay reports whether o, by keys of another unit that are no times, is named for or
// shown on the day on which the event of k ended.
func (k Key) sharesDay(o calendar.Occurrence) bool {
	if k.Unit == o.Unit || k.Unit == calendar.UnitText || o.Unit == calendar.UnitText || o.Unit == calendar.UnitTime {
		return false
	}
	return nominalOf(o).Date == k.Ended.Date || o.Wall.Date == k.Ended.Date
}

// nominalOf returns the wall time of an occurrence before any wrapper moved it.
func nominalOf(o calendar.Occurrence) calendar.WallTime {
	if o.Nominal == (calendar.WallTime{}) {
		return o.Wall
	}
	return o.Nominal
}
