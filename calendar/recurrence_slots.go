package calendar

import (
	"errors"
	"iter"
	"sort"
)

// inZone returns r as [Next] asks it: in a zone, an UNTIL that is an instant ends the rule
// there, and a count leaves out what clocks skip there. A recurrence for which that makes no
// difference, and one of the host's own, is returned as it is.
func inZone(r Recurrence, z Timezone, p Policies) Recurrence {
	switch r := r.(type) {
	case RRule:
		if _, utc, ok := r.rule.Until(); ok && utc || r.rule.Count() > 0 && p.Gap == GapSkip {
			r.zone = z
			return r
		}
	case *RRule:
		return inZone(*r, z, p)
	case Bounded:
		r.Rule, r.zone = inZone(r.Rule, z, p), z
		return r
	case *Bounded:
		return inZone(*r, z, p)
	case RecurrenceSet:
		r.in, r.rule.zone = z, z
		return r
	case *RecurrenceSet:
		return inZone(*r, z, p)
	case Offset:
		r.Of, r.zone = inZone(r.Of, z, p), z
		return r
	case *Offset:
		return inZone(*r, z, p)
	case Within:
		r.Of, r.zone = inZone(r.Of, z, p), z
		return r
	case *Within:
		return inZone(*r, z, p)
	}
	return r
}

// maxSkipped bounds how many slots a count passes over because clocks skip them: more than a day
// has seconds, for clocks have skipped whole days. A rule can have all its slots in gaps.
const maxSkipped = 100_000

// skips reports whether clocks in z skip a slot, and the policy lets it go by. The zero
// Timezone skips none.
func (z Timezone) skips(w WallTime, p Policies) bool {
	if p.Gap != GapSkip || z.IsZero() {
		return false
	}
	_, err := z.Resolve(w, p)
	gone := (*WallTimeError)(nil)
	return errors.As(err, &gone) && !gone.Rejected
}

// firstOf returns the first of the slots after w, or the error that comes instead.
func firstOf(slots iter.Seq2[Slot, error], w WallTime) (Slot, error) {
	for slot, err := range slots {
		return slot, err
	}
	return Slot{}, noOccurrence(w)
}

// slots yields the slots of a rule strictly after w, one after the other, and at
// last the error that After returns then. A rule that counts from its start counts
// once, where After would count again for each slot.
//
// It looks for types, not for a method: a type of the host's that embeds an [RRule]
// would have the method from it, and its own After would never be asked.
func slots(r Recurrence, w WallTime, p Policies) iter.Seq2[Slot, error] {
	switch r.(type) {
	case Bounded, *Bounded, RRule, *RRule, RecurrenceSet, *RecurrenceSet, Offset, *Offset, Within, *Within:
		return r.(interface {
			slots(WallTime, Policies) iter.Seq2[Slot, error]
		}).slots(w, p)
	}
	return func(yield func(Slot, error) bool) {
		for {
			slot, err := r.After(w, p)
			if err == nil && !w.Before(slot.Wall) {
				err = noOccurrence(w) // a rule of the host's that does not get ahead
			}
			if !yield(slot, err) || err != nil {
				return
			}
			w = slot.Wall
		}
	}
}

// writtenOut returns the slots of a rule after w, if they are counted; of others
// there is no end, and each is found without the ones before it.
func writtenOut(r Recurrence, w WallTime, p Policies) Recurrence {
	if !counted(r) {
		return r
	}
	var l list
	for slot, err := range slots(r, w, p) {
		if err != nil {
			l.end = err
			break
		}
		l.slots = append(l.slots, slot)
	}
	return l
}

func counted(r Recurrence) bool {
	switch r := r.(type) {
	case Bounded:
		return r.Count > 0 || counted(r.Rule)
	case *Bounded:
		return counted(*r)
	case RRule:
		return r.rule.Count() > 0
	case *RRule:
		return counted(*r)
	case RecurrenceSet:
		return r.rule.rule.Count() > 0
	case *RecurrenceSet:
		return counted(*r)
	case Offset:
		return counted(r.Of)
	case *Offset:
		return counted(*r)
	case Within:
		return counted(r.Of)
	case *Within:
		return counted(*r)
	}
	return false
}

// list is a recurrence of a few slots, in order, and what After returns behind them.
type list struct {
	slots []Slot
	end   error
}

func (l list) After(w WallTime, _ Policies) (Slot, error) {
	i := sort.Search(len(l.slots), func(i int) bool { return w.Before(l.slots[i].Wall) })
	if i == len(l.slots) {
		return Slot{}, l.end
	}
	return l.slots[i], nil
}
