package ops

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// RehearseDifference is how one rehearsal differs from another.
type RehearseDifference struct {
	Types []RehearseTypeDifference `json:"types"` // in alphabetical order
	Days  []RehearseDayDifference  `json:"days"`  // the days that differ, in order, then by type
}

// RehearseTypeDifference is how many events of a type there are in two rehearsals.
type RehearseTypeDifference struct {
	Type  string `json:"type"`
	Was   int    `json:"was"`
	Is    int    `json:"is"`
	Moved int    `json:"moved"` // of the events that both have, at least so many are on another day
}

// RehearseDayDifference is a local day on which two rehearsals differ. If Was is Is, other events are delivered, or the
// same ones at another time of the day.
type RehearseDayDifference struct {
	Date calendar.Date `json:"date"`
	Type string        `json:"type"`
	Was  int           `json:"was"`
	Is   int           `json:"is"`
}

// IsEmpty reports whether the same events are delivered at the same times.
func (d RehearseDifference) IsEmpty() bool { return len(d.Days) == 0 }

// about says of which copy and time a rehearsal is.
func (r RehearseResult) about() string {
	text := fmt.Sprintf("one is of %d users from %s to %s", r.Users, r.From.UTC().Format(time.RFC3339Nano), r.Until.UTC().Format(time.RFC3339Nano))
	if r.Every > 1 {
		text += fmt.Sprintf(", a sample of one in %d", r.Every)
	}
	return text
}

// CompareRehearsals returns how a rehearsal differs from another one of the same copy. It is an error if they are not of the same
// users and the same time.
func CompareRehearsals(was, is RehearseResult) (RehearseDifference, error) {
	if !was.From.Equal(is.From) || !was.Until.Equal(is.Until) || was.Users != is.Users || was.Every != is.Every {
		return RehearseDifference{}, fmt.Errorf("ops: the rehearsals are not of the same copy and the same time, so they cannot be compared: %s, and %s", was.about(), is.about())
	}
	type key struct {
		date      calendar.Date
		eventType string
	}
	days := make(map[key][2]RehearseDay)
	for side, r := range []RehearseResult{was, is} {
		for _, d := range r.Days() {
			both := days[key{d.Date, d.Type}]
			both[side] = d
			days[key{d.Date, d.Type}] = both
		}
	}
	var diff RehearseDifference
	types, fewer := make(map[string]RehearseTypeDifference), make(map[string]int)
	for k, both := range days {
		one := types[k.eventType]
		one.Type, one.Was, one.Is = k.eventType, one.Was+both[0].Events, one.Is+both[1].Events
		one.Moved += max(0, both[1].Events-both[0].Events) // those on further days, for now
		fewer[k.eventType] += max(0, both[0].Events-both[1].Events)
		types[k.eventType] = one
		if both[0].Events != both[1].Events || both[0].digest != both[1].digest {
			diff.Days = append(diff.Days, RehearseDayDifference{k.date, k.eventType, both[0].Events, both[1].Events})
		}
	}
	for _, eventType := range slices.Sorted(maps.Keys(types)) {
		one := types[eventType]
		one.Moved = min(one.Moved, fewer[eventType])
		diff.Types = append(diff.Types, one)
	}
	slices.SortFunc(diff.Days, func(a, b RehearseDayDifference) int {
		return cmp.Or(compareDates(a.Date, b.Date), cmp.Compare(a.Type, b.Type))
	})
	return diff, nil
}
