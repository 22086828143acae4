package world

import (
	"cmp"
	"slices"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// Group is the zones whose clocks agree at an instant.
type Group struct {
	Offset time.Duration // from UTC, east positive
	Zones  []string      // canonical names, in alphabetical order
}

// ByOffset sorts the zones of [CanonicalPlaces] by the offset from UTC that their clocks have at
// t, from west to east. Zones without data in this process are left out.
func ByOffset(t time.Time) []Group {
	zones := make(map[time.Duration][]string)
	for _, place := range loaded().canonical {
		z := calendar.StoredTimezone(place.Zone)
		if offset, ok := offsetAt(z, t); ok {
			zones[offset] = append(zones[offset], place.Zone)
		}
	}
	groups := make([]Group, 0, len(zones))
	for offset, names := range zones {
		groups = append(groups, Group{offset, names})
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Offset, b.Offset) })
	return groups
}

// Lit reports whether clocks in z show the hour from at on, at the instant t: at itself or up to,
// but not including, an hour later. The hour may end after midnight. The offset is the one that
// clocks in z really have at t, so the answer follows summer time. Lit is false for a zone without
// data, for the zero Timezone and for an invalid reading.
func Lit(z calendar.Timezone, t time.Time, at calendar.Clock) bool {
	offset, ok := offsetAt(z, t)
	return ok && lit(offset, t, at)
}

// Front returns the offsets from UTC, from west to east, of the zones of [CanonicalPlaces] whose
// clocks show the hour from at on, at the instant t: see [Lit]. Clocks of different dates can
// show one hour: when it is 09:00 at UTC-10, it is 09:00 at UTC+14 on the next day.
func Front(t time.Time, at calendar.Clock) []time.Duration {
	var offsets []time.Duration
	for _, group := range ByOffset(t) {
		if lit(group.Offset, t, at) {
			offsets = append(offsets, group.Offset)
		}
	}
	return offsets
}

// lit reports whether clocks with an offset from UTC show the hour from at on.
func lit(offset time.Duration, t time.Time, at calendar.Clock) bool {
	if !at.Valid() {
		return false
	}
	from := int64(at.Hour*3600 + at.Minute*60 + at.Second)
	since := (t.Unix() + int64(offset/time.Second) - from) % secondsOfDay
	if since < 0 {
		since += secondsOfDay
	}
	return since < 3600
}

// offsetAt returns how far clocks in z stand east of UTC at t, and whether this process has data for z.
func offsetAt(z calendar.Timezone, t time.Time) (time.Duration, bool) {
	wall := z.WallTime(t)
	// WallTime answers in UTC for a zone without data; Resolve fails.
	if _, err := z.Resolve(wall, calendar.Policies{}); err != nil {
		return 0, false
	}
	return time.Duration(wall.Labelled().Unix()-t.Unix()) * time.Second, true
}
