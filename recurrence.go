package almanac

import (
	"errors"
	"fmt"
	"iter"
	"sort"
	"strings"
	"time"
)

// Recurrence is a rule that yields wall times, one after the other: [Once],
// [Yearly], [Monthly], [Weekly], [Daily], an [RRule], a [Cron], any of them
// [Bounded], or one of the host's own. It knows no zone and no clock change; [Next]
// brings it together with them. A Recurrence must be safe for concurrent use.
type Recurrence interface {
	// After returns the first slot strictly after w, which need not be one itself;
	// the zero WallTime comes before every other. Policies decide on days that a
	// month or a year does not have, where the rule itself does not. The error
	// matches [ErrNoOccurrence] when there is no further slot and
	// [ErrInvalidRecurrence] when the rule makes no sense.
	After(w WallTime, p Policies) (Slot, error)
}

// Slot is one place in the series of a [Recurrence].
type Slot struct {
	Key  string   // see Occurrence.Key
	Wall WallTime // a day that the calendar has
	// Named is the day that the rule names where the calendar lacks it and a policy
	// moved Wall: 2027-02-29. It is the zero Date otherwise.
	Named Date
}

// Occurrence is one wall time that a recurrence yields for somebody, before it is
// resolved.
type Occurrence struct {
	// Key names the occurrence among those of its user and event type, for ever: it
	// is what keeps a person from being greeted twice. It is nominal and local, such
	// as "2027" for a birthday or "2027-03-15" for a daily digest, never an instant.
	// Later occurrences have greater keys, compared byte by byte. 1 to 100 bytes,
	// not beginning with a tilde.
	Key string
	// Wall is when the occurrence happens on the clocks of Zone.
	Wall WallTime
	// Zone is where. The zero Timezone means the user's own.
	Zone Timezone
	// Policies say how Wall is resolved. The zero Policies are the defaults.
	Policies Policies
	// Named is the day that was meant where no calendar has it; see [Slot].
	Named Date
	// Series names one of several series that a handler runs side by side for a user;
	// see [MultiSeries]. Empty for most.
	Series string
}

// maxSlots bounds how many slots Next passes over. It needs a handful, for it jumps
// over what a change of clocks took; the rest is for rules of the host's that do
// not get ahead.
const maxSlots = 1000

// fewSlots is after how many of them Next has a counted rule written out. A rule for
// half past two on the day on which clocks change has all its slots in gaps, and
// would otherwise count from its start for each that GapSkip passes over.
const fewSlots = 8

// Next returns the first occurrence of a recurrence in a zone whose instant is
// strictly after the given one. Its cost does not depend on how long the
// recurrence has been running, unless it is counted, and it always comes to an end.
//
// Where clocks skip a wall time and a policy moves it, it gives way to another of
// the same recurrence that it would meet or pass: every hour on the hour is once an
// hour also in the night in which 02:00 moves to 03:00. So instants come in the
// order of keys, and none comes twice.
//
// The error matches [ErrNoOccurrence] when there is none before the year 10000,
// [ErrInvalidRecurrence] when the rule makes no sense, and is otherwise that of
// [Timezone.Resolve].
func Next(r Recurrence, z Timezone, p Policies, after time.Time) (Occurrence, error) {
	next, err := upcoming(r, z, p, after)
	return next.Occurrence, err
}

// Upcoming is an occurrence together with its instant and the reasons for it.
type Upcoming struct {
	Occurrence Occurrence
	Resolution Resolution
}

// Reason says in a few words of English how the day and the instant were found:
// "29 February moved to 28 February", "moved forward 60 min because clocks skip
// 02:00–03:00", or "exact".
func (u Upcoming) Reason() string {
	o := u.Occurrence
	if o.Named == (Date{}) {
		return u.Resolution.Reason()
	}
	day := func(d Date) string { return fmt.Sprintf("%d %s", d.Day, d.Month) }
	moved := fmt.Sprintf("%s moved to %s", day(o.Named), day(o.Wall.Date))
	if u.Resolution.Reading == ShownOnce {
		return moved
	}
	return moved + "; " + u.Resolution.Reason()
}

// Occurrences returns the occurrences that [Next] would find one after the other.
// The sequence ends after the last one, or with an error, which is never
// [ErrNoOccurrence]. It can be endless: break off when you have enough.
func Occurrences(r Recurrence, z Timezone, p Policies, after time.Time) iter.Seq2[Upcoming, error] {
	return func(yield func(Upcoming, error) bool) {
		for {
			next, err := upcoming(r, z, p, after)
			if errors.Is(err, ErrNoOccurrence) || !yield(next, err) || err != nil {
				return
			}
			after = next.Resolution.Instant
		}
	}
}

func upcoming(r Recurrence, z Timezone, p Policies, after time.Time) (Upcoming, error) {
	if err := z.check(); err != nil {
		return Upcoming{}, err
	}
	if r == nil {
		return Upcoming{}, invalidRecurrence("none", []string{"there is no rule"})
	}
	shown := z.WallTime(after)
	w := z.beforeAll(after, p)
	rule := r
	for passed := range maxSlots {
		if passed == fewSlots {
			rule = writtenOut(r, w, p)
		}
		slot, err := rule.After(w, p)
		if err != nil {
			return Upcoming{}, err
		}
		w = slot.Wall
		next := Upcoming{Occurrence: Occurrence{Key: slot.Key, Wall: w, Zone: z, Policies: p, Named: slot.Named}}
		if next.Resolution, err = z.Resolve(w, p); err != nil {
			if gone := (*WallTimeError)(nil); errors.As(err, &gone) && !gone.Rejected {
				w = justBefore(gone.Change.To()) // with all others that the gap swallows
				continue
			}
			return refused(r, next, err)
		}
		switch change := next.Resolution.Change; {
		case next.Resolution.Instant.After(after) && next.Resolution.Moved > 0 && givesWay(r, next):
			w = justBefore(change.To()) // so do all that follow it in the gap
			continue
		case next.Resolution.Instant.After(after):
			if last, ok := lastInstant(r); ok && next.Resolution.Instant.After(last) {
				return Upcoming{}, noOccurrence(shown)
			}
			return next, nil
		case next.Resolution.Reading == ShownTwice:
			w = laterOf(w, justBefore(change.From())) // the fold has passed, as far as it counts
		default:
			w = laterOf(w, shown)
		}
	}
	return Upcoming{}, noOccurrence(shown)
}

// refused returns the error about an occurrence that a policy rejects, unless the
// recurrence has ended before it by whichever reading.
func refused(r Recurrence, o Upcoming, err error) (Upcoming, error) {
	z, w := o.Occurrence.Zone, o.Occurrence.Wall
	if last, ok := lastInstant(r); ok {
		if read, _ := z.Resolve(w, Policies{}); read.Instant.After(last) {
			return Upcoming{}, noOccurrence(w)
		}
	}
	return o, err
}

func noOccurrence(after WallTime) error { return fmt.Errorf("%w after %s", ErrNoOccurrence, after) }

// beforeAll returns a wall time that comes before every one whose instant can be
// after the given one: mostly what clocks show then. After a gap it is further
// back, where a wall time that was moved forward can still lie ahead; in a fold's
// first showing it is the fold's beginning, if the second showing counts.
func (z Timezone) beforeAll(after time.Time, p Policies) WallTime {
	const near = 25 * 60 * 60 // further than any change moves clocks
	shown, r, sec := z.WallTime(after), z.rules(), after.Unix()
	if r.offset(sec-near) == r.offset(sec+near) {
		return shown
	}
	change := r.changeBetween(sec-near, sec+near)
	width, since := change.Width(), after.Sub(change.At)
	switch {
	case width > 0 && since >= 0 && since < width:
		return WallTimeOf(shown.Labelled().Add(-width))
	case width < 0 && since < 0 && since >= width && p.Fold == FoldSecond:
		return justBefore(change.To())
	}
	return shown
}

// givesWay reports whether a slot that a gap moved forward would meet or pass
// another one of its series.
func givesWay(r Recurrence, moved Upcoming) bool {
	other, err := r.After(justBefore(moved.Resolution.Change.To()), moved.Occurrence.Policies)
	return err == nil && !moved.Resolution.Shown().Before(other.Wall)
}

func justBefore(w WallTime) WallTime { return WallTimeOf(w.Labelled().Add(-time.Second)) }

func laterOf(a, b WallTime) WallTime {
	if a.Before(b) {
		return b
	}
	return a
}

// lastInstant returns the instant after which a recurrence ends, if it ends by an
// instant rather than by a wall time.
func lastInstant(r Recurrence) (time.Time, bool) {
	if r, ok := r.(interface{ lastInstant() (time.Time, bool) }); ok {
		return r.lastInstant()
	}
	return time.Time{}, false
}

// slots yields the slots of a rule strictly after w, one after the other, and at
// last the error that After returns then. A rule that counts from its start counts
// once, where After would count again for each slot.
//
// It looks for types, not for a method: a type of the host's that embeds an [RRule]
// would have the method from it, and its own After would never be asked.
func slots(r Recurrence, w WallTime, p Policies) iter.Seq2[Slot, error] {
	switch r := r.(type) {
	case Bounded:
		return r.slots(w, p)
	case *Bounded:
		return r.slots(w, p)
	case RRule:
		return r.slots(w)
	case *RRule:
		return r.slots(w)
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
		return r.rule.Counted()
	case *RRule:
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

// Bounded is a recurrence with a beginning, an end and exceptions. A zero field
// bounds nothing.
type Bounded struct {
	Rule  Recurrence
	Start WallTime // no slot before it; one at it counts
	End   WallTime // no slot after it; one at it counts
	// Count is how many slots there are from Start on, 1 to 10,000, those in Except
	// included. It needs a Start. Each call counts from there, and asks a Rule of the
	// host's own once for each slot that it counts.
	Count  int
	Except []WallTime // slots that are left out
}

// maxCount bounds the work of counting from the start each time.
const maxCount = 10_000

// After returns the first slot of b.Rule strictly after w that b lets through.
func (b Bounded) After(w WallTime, p Policies) (Slot, error) {
	for slot, err := range b.slots(w, p) {
		return slot, err
	}
	return Slot{}, noOccurrence(w)
}

// slots yields what After would return one after the other.
func (b Bounded) slots(w WallTime, p Policies) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		if err := b.check(); err != nil {
			yield(Slot{}, err)
			return
		}
		at, counted, except := w, 0, b.exceptions()
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
			if w.Before(slot.Wall) && !except[slot.Wall] && !yield(slot, nil) {
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

func (b Bounded) lastInstant() (time.Time, bool) { return lastInstant(b.Rule) }

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

// invalidRecurrence returns the error that names every problem, or nil.
func invalidRecurrence(rule string, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return &InvalidRecurrenceError{Rule: strings.TrimSpace(clip(rule, maxQuoted)), Problems: problems}
}
