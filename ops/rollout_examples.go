package ops

import (
	"slices"

	"github.com/almanac-go/almanac"
)

// RollOutExample is an event that a roll-out moves, adds, removes or cancels.
type RollOutExample struct {
	Was almanac.Event // zero if the event is added
	Is  almanac.Event // zero if the event is removed or cancelled
}

const maxExamples = 10

// The kinds of examples, in the order of RollOutResult.Examples.
const (
	movedEarlier = iota
	movedLater
	dueNow
	added
	removed
	removedAsPassed
	cancelled
	kindsOfExamples
)

// keepExamples keeps the events of a user as examples, unless there are enough of their kinds.
func (r *rollOut) keepExamples(u almanac.UpdateUserResult) {
	keep := func(kind int, one RollOutExample) {
		if one.Was.Payload, one.Is.Payload = nil, nil; len(r.examples[kind]) < maxExamples {
			r.examples[kind] = append(r.examples[kind], one)
		}
	}
	for i, e := range u.Moved {
		kind := movedLater
		switch {
		case slices.Contains(u.Passed, e.ID):
			kind = dueNow
		case e.Due.Before(u.Was[i].Due):
			kind = movedEarlier
		}
		keep(kind, RollOutExample{u.Was[i], e})
	}
	for _, e := range u.Added {
		keep(added, RollOutExample{Is: e})
	}
	for _, e := range u.Removed {
		kind := removed
		if slices.Contains(u.Passed, e.ID) {
			kind = removedAsPassed
		}
		keep(kind, RollOutExample{Was: e})
	}
	for _, e := range u.Cancelled {
		keep(cancelled, RollOutExample{Was: e})
	}
}

// spread returns ten examples: one of each kind after the other, until there are enough.
func spread(kinds [kindsOfExamples][]RollOutExample) (list []RollOutExample) {
	var take [kindsOfExamples]int
	for left, round := maxExamples, 0; round < maxExamples; round++ {
		for kind, all := range kinds {
			if left > 0 && round < len(all) {
				take[kind]++
				left--
			}
		}
	}
	for kind, all := range kinds {
		list = append(list, all[:take[kind]]...)
	}
	return list
}
