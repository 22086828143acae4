package calendar

import (
	"fmt"
	"iter"
)

// Bounded is a recurrence with a beginning, an end and exceptions. A zero field bounds nothing.
type Bounded struct {
	Rule  Recurrence
	Start WallTime // no slot is before it; a slot at it counts
	End   WallTime // no slot is after it; a slot at it counts
	// Count limits the number of slots from Start on, 1 to 10,000. Zero means no limit. Slots
	// in Except are counted. Under [GapSkip], [Next] does not count slots that clocks skip.
	// Count requires a Start. Each call counts from Start again, and calls a Rule of the
	// host's own once for each slot that it counts.
	Count  int
	Except []WallTime // slots that are left out, by their wall time or their Nominal

	zone Timezone // where Next looks for the slots; zero if unknown
}

// maxCount bounds the work of counting from the start each time.
const maxCount = 10_000

// After returns the first slot of b.Rule strictly after w that b allows.
func (b Bounded) After(w WallTime, p Policies) (Slot, error) { return firstOf(b.slots(w, p), w) }

// slots yields what After would return one after the other.
func (b Bounded) slots(w WallTime, p Policies) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		if err := b.check(); err != nil {
			yield(Slot{}, err)
			return
		}
		at, counted, skipped, except := w, 0, 0, b.exceptions()
		if b.Start != (WallTime{}) && (b.Count > 0 || w.Before(b.Start)) {
			at = justBefore(b.Start)
		}
		for slot, err := range slots(b.Rule, at, p) {
			if err != nil {
				yield(Slot{}, err)
				return
			}
			if b.End != (WallTime{}) && b.End.Before(slot.Wall) {
				break
			}
			if b.Count > 0 && b.zone.skips(slot.Wall, p) {
				if skipped++; skipped > maxSkipped {
					break
				}
				continue
			}
			if w.Before(slot.Wall) && !except[slot.Wall] && !except[slot.Nominal] && !yield(slot, nil) {
				return
			}
			if counted++; counted == b.Count {
				break
			}
		}
		yield(Slot{}, noOccurrence(w))
	}
}

// exceptions is a set, for there can be as many exceptions as slots.
func (b Bounded) exceptions() map[WallTime]bool {
	set := make(map[WallTime]bool, len(b.Except))
	for _, exception := range b.Except {
		set[exception] = true
	}
	return set
}

func (b Bounded) check() error {
	var problems []string
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	refuse(b.Rule == nil, "there is no rule to bound")
	refuse(b.Start != (WallTime{}) && !b.Start.Valid(), "the start %s is on no calendar", b.Start)
	refuse(b.End != (WallTime{}) && !b.End.Valid(), "the end %s is on no calendar", b.End)
	refuse(b.Count < 0 || b.Count > maxCount, "a count of %d is not between 1 and %d", b.Count, maxCount)
	refuse(b.Count > 0 && b.Start == (WallTime{}), "a count needs a start to count from")
	return invalidRecurrence("bounded", problems)
}
