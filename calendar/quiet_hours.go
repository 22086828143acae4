package calendar

import (
	"iter"
	"strings"
	"time"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// QuietHours are the hours of a day in which a user is not to be disturbed: the time from
// From up to Until, without Until itself. If Until is before From, they include midnight.
// If both are equal, as in the zero QuietHours, there are no quiet hours.
type QuietHours struct{ From, Until Clock }

// ParseQuietHours reads quiet hours of the form HH:MM-HH:MM, with or without seconds, such as
// 22:00-08:00. The times must differ. The error is a [*FormatError].
func ParseQuietHours(s string) (q QuietHours, err error) {
	from, until, _ := strings.Cut(s, "-")
	q.From, err = ParseClock(from)
	if err == nil {
		q.Until, err = ParseClock(until)
	}
	if err != nil || q.From == q.Until {
		return QuietHours{}, &FormatError{excerpt.Of(s, maxQuoted), "is not two different times of day, such as 22:00-08:00"}
	}
	return q, nil
}

// End returns when the quiet hours end, if clocks in z show a time in them at now.
// Otherwise, and in a zone without data, it reports false. If clocks skip the end, the quiet
// hours end later by what is skipped. If clocks show the end twice, they end the first time.
func (q QuietHours) End(z Timezone, now time.Time) (end time.Time, quiet bool) {
	end = now
	for wall := z.WallTime(end); q.include(wall.Clock); wall = z.WallTime(end) {
		if !wall.Clock.Before(q.Until) {
			wall.Date = WallTimeOf(wall.Labelled().AddDate(0, 0, 1)).Date
		}
		wall.Clock = q.Until
		at, err := z.Resolve(wall, Policies{})
		if err == nil && !at.Instant.After(end) { // the first of two, and it has passed
			at, err = z.Resolve(wall, Policies{Fold: FoldSecond})
		}
		if err != nil || !at.Instant.After(end) {
			return now, false
		}
		end, quiet = at.Instant, true
	}
	return end, quiet
}

func (q QuietHours) include(c Clock) bool {
	if q.Until.Before(q.From) {
		return !c.Before(q.From) || c.Before(q.Until)
	}
	return !c.Before(q.From) && c.Before(q.Until)
}

// Outside is a recurrence that keeps the slots of another one out of [QuietHours]. A slot in
// the quiet hours moves to their end, which is on the next day for a slot in the evening.
//
// A slot keeps its key, its Named and its Announces, and has the wall time that it had as
// MovedFrom. A slot that does not come later than the slot before it is left out. So of the
// many slots that an hourly rule has in a night, the first one moves to the morning.
type Outside struct {
	Of    Recurrence
	Quiet QuietHours
	// KeepDay moves a slot in the evening to the end of the quiet hours on its own day, which
	// is earlier. It is for what is right on one day only, such as a birthday.
	KeepDay bool
}

// After returns the first slot strictly after w.
func (o Outside) After(w WallTime, p Policies) (Slot, error) { return firstOf(o.slots(w, p), w) }

// slots yields what After would return one after the other.
func (o Outside) slots(w WallTime, p Policies) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		if err := o.check(); err != nil {
			yield(Slot{}, err)
			return
		}
		last := w
		for slot, err := range slots(o.Of, dayBefore(w), p) {
			if err != nil {
				yield(Slot{}, err)
				return
			}
			if o.Quiet.include(slot.Wall.Clock) {
				slot = o.moved(slot)
			}
			if !slot.Wall.Valid() || !last.Before(slot.Wall) {
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

// moved returns a slot in the quiet hours at their end.
func (o Outside) moved(slot Slot) Slot {
	slot = slot.keepingNominal()
	if slot.MovedFrom == (WallTime{}) {
		slot.MovedFrom = slot.Wall
	}
	if !slot.Wall.Clock.Before(o.Quiet.Until) && !o.KeepDay {
		slot.Wall.Date = addDays(slot.Wall.Date, 1)
	}
	slot.Wall.Clock = o.Quiet.Until
	return slot
}

func (o Outside) check() error {
	var problems []string
	if o.Of == nil {
		problems = append(problems, "there is no recurrence to keep out of quiet hours")
	}
	for _, c := range []Clock{o.Quiet.From, o.Quiet.Until} {
		if !c.Valid() {
			problems = append(problems, "no clock shows "+c.String())
		}
	}
	return invalidRecurrence("outside", problems)
}

// dayBefore returns the wall time a day before w: no slot moves by more than a day.
func dayBefore(w WallTime) WallTime {
	if w.Date.Year < 1 || w.Date == (Date{Year: 1, Month: time.January, Day: 1}) {
		return WallTime{}
	}
	return WallTimeOf(w.Labelled().AddDate(0, 0, -1))
}
