package calendar

import (
	"fmt"
	"iter"
	"time"
)

// Offset is a recurrence that announces the slots of another one: three days before each of
// them, at 09:00. It counts calendar days on the wall, before any wall time is resolved. So a
// change of clocks in between makes no difference.
//
// A slot has the key and the Named of the slot that it announces, and the wall time of that
// slot as Announces. Where the other recurrence has several slots on one day, the first of them
// is announced, once. Under [GapSkip], [Next] announces no slot that clocks skip.
type Offset struct {
	Of Recurrence
	// Days is the distance from the day of the announced slot, -10,000 to 10,000 days: -3
	// is three days before, and zero is the same day.
	Days int
	At   Clock

	zone Timezone // where Next looks for the slots; zero if unknown
}

// maxDays bounds an offset: it is longer than anything is announced before.
const maxDays = 10_000

// After returns the first slot strictly after w.
func (o Offset) After(w WallTime, p Policies) (Slot, error) { return firstOf(o.slots(w, p), w) }

// slots yields what After would return one after the other.
func (o Offset) slots(w WallTime, p Policies) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		if err := o.check(); err != nil {
			yield(Slot{}, err)
			return
		}
		last := w
		for slot, err := range slots(o.Of, o.before(w), p) {
			if err != nil {
				yield(Slot{}, err)
				return
			}
			announced := slot
			slot = slot.keepingNominal()
			if slot.Announces == (WallTime{}) {
				slot.Announces = announced.Wall
			}
			slot.Wall = WallTime{addDays(slot.Wall.Date, o.Days), o.At}
			if !slot.Wall.Valid() || !last.Before(slot.Wall) || o.zone.skips(announced.Wall, p) {
				continue // on no calendar, announced already, or not happening
			}
			last = slot.Wall
			if !yield(slot, nil) {
				return
			}
		}
		yield(Slot{}, noOccurrence(w))
	}
}

// before returns a wall time before all slots that are announced after w, and after most that
// are announced before.
func (o Offset) before(w WallTime) WallTime {
	if w == (WallTime{}) {
		return w
	}
	day := addDays(w.Date, -o.Days)
	if !w.Clock.Before(o.At) {
		day = addDays(day, 1)
	}
	if day.Year < 1 {
		return WallTime{}
	}
	return justBefore(WallTime{Date: day})
}

func (o Offset) check() error {
	var problems []string
	if o.Of == nil {
		problems = append(problems, "there is no recurrence to announce")
	}
	if o.Days < -maxDays || o.Days > maxDays {
		problems = append(problems, fmt.Sprintf("%d days are not between -%d and %[2]d", o.Days, maxDays))
	}
	if !o.At.Valid() {
		problems = append(problems, fmt.Sprintf("no clock shows %s", o.At))
	}
	return invalidRecurrence("offset", problems)
}

// addDays returns the day so many days after d. It may lie outside of the years 1 to 9999.
func addDays(d Date, days int) Date {
	return DateOf(time.Date(d.Year, d.Month, d.Day+days, 0, 0, 0, 0, time.UTC))
}

// distance says where a day lies as seen from another: "3 days before", "1 day after", "on".
func distance(day, from Date) string {
	days := dayNumber(day) - dayNumber(from)
	name := "days"
	if days == 1 || days == -1 {
		name = "day"
	}
	switch {
	case days < 0:
		return fmt.Sprintf("%d %s before", -days, name)
	case days > 0:
		return fmt.Sprintf("%d %s after", days, name)
	}
	return "on"
}
