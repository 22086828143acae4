package calendar

import (
	"fmt"
	"iter"
	"strconv"
)

// Offset is a recurrence that announces the slots of another one: three days before each of
// them, at 09:00. It counts days on the wall, before any wall time is resolved. So a change of
// clocks in between makes no difference.
//
// A slot has the key, the Named and the DayReason of the slot that it announces, and the wall time
// of that slot as Announces. If several slots of the other recurrence would be announced on one
// day, only the first of them is. Under [GapSkip], [Next] announces no slot that clocks skip.
type Offset struct {
	Of Recurrence
	// Days is the distance from the day of the announced slot, -10,000 to 10,000 days: -3
	// is three days before, and zero is the same day.
	Days int
	At   Clock
	// WorkDays makes Days count working days. The day of the announced slot itself does not count:
	// see [WorkCalendar.Add]. So three working days before a Saturday are also three before the
	// Monday that follows. Zero Days is the day itself, even if it is a day off. Nil, the default,
	// counts all days.
	WorkDays *WorkCalendar

	zone Timezone // where Next looks for the slots; zero if unknown
}

// maxDays bounds an offset: it is longer than anything is announced before.
const maxDays = 10_000

// After returns the first slot strictly after w.
func (o Offset) After(w WallTime, p Policies) (Slot, error) {
	if counted(o.Of) {
		return firstOf(o.slots(w, p), w)
	}
	if err := o.check(); err != nil {
		return Slot{}, err
	}
	for at := o.before(w); ; {
		slot, err := o.Of.After(at, p)
		if err != nil {
			return Slot{}, err
		}
		if !at.Before(slot.Wall) {
			return Slot{}, noOccurrence(at) // a rule of the host's that does not get ahead
		}
		if at = slot.Wall; o.announce(&slot, w, p) {
			return slot, nil
		}
	}
}

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
			if !o.announce(&slot, last, p) {
				continue
			}
			last = slot.Wall
			if !yield(slot, nil) {
				return
			}
		}
		yield(Slot{}, noOccurrence(w))
	}
}

// announce moves a slot by the distance. It reports false for one that is on no calendar, was announced by the
// last wall time already, or does not happen.
func (o *Offset) announce(slot *Slot, last WallTime, p Policies) bool {
	announced := slot.Wall
	slot.keepNominal()
	if slot.Announces == (WallTime{}) {
		slot.Announces = announced
	}
	o.away(slot)
	return slot.Wall.Valid() && last.Before(slot.Wall) && !o.zone.skips(announced, p)
}

// away moves a slot by the distance.
func (o *Offset) away(slot *Slot) {
	day := dayNumber(slot.Wall.Date)
	to := day + o.Days
	if o.WorkDays != nil && o.Days != 0 {
		to = o.WorkDays.add(day, o.Days)
		slot.Consulted = slot.Consulted.and(o.WorkDays.consulted(min(day, to), max(day, to)))
		slot.Move = slot.Move.saying(count(o.Days, "working day") + " of " + o.WorkDays.name)
	}
	slot.Wall, slot.open = WallTime{dateOf(to), o.At}, 0
}

// before returns a wall time before all slots that are announced after w, and after most that
// are announced before.
func (o Offset) before(w WallTime) WallTime {
	if w.Date.Year < 1 {
		return w
	}
	day := dayNumber(w.Date)
	if !w.Clock.Before(o.At) {
		day++
	}
	switch {
	case o.WorkDays == nil || o.Days == 0:
		day -= o.Days
	case o.Days > 0:
		day = o.WorkDays.add(day, -o.Days) // from the day before, it is less than o.Days
	default:
		day = o.WorkDays.add(day, -o.Days-1)
	}
	return beginOf(day)
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

// distance says where a day lies as seen from another: "3 days before", "1 day after", "on".
func distance(day, from Date) string {
	switch days := from.DaysUntil(day); {
	case days < 0:
		return count(days, "day") + " before"
	case days > 0:
		return count(days, "day") + " after"
	}
	return "on"
}

// count says how many things there are, without the sign of the number. It uses no fmt, because an Offset has
// such a text for each slot.
func count(n int, thing string) string {
	if n == 1 || n == -1 {
		return "1 " + thing
	}
	return strconv.Itoa(max(n, -n)) + " " + thing + "s"
}
