package calendar

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// Recurrence is a rule that yields wall times, one after the other. It is [Once], [Yearly], [Monthly],
// [Weekly], [Daily], an [RRule], a [Cron] or a [RecurrenceSet]. By another calendar, it is a [YearlyBy]
// or a [Yahrzeit]. [Bounded], [Offset] and [Within] change the slots of another rule. A host can have
// rules of its own. A Recurrence knows no zone and no clock change; [Next] resolves its wall times in a zone.
// A Recurrence must be safe for concurrent use.
type Recurrence interface {
	// After returns the first slot strictly after w. The wall time w need not be a slot; the
	// zero WallTime comes before every other. Policies decide about days that a month or a
	// year does not have, unless the rule itself does. The error matches [ErrNoOccurrence]
	// when there is no further slot and [ErrInvalidRecurrence] when the rule is invalid.
	After(w WallTime, p Policies) (Slot, error)
}

// Slot is one wall time that a [Recurrence] yields.
type Slot struct {
	Key  string   // see Occurrence.Key
	Unit Unit     // what Key names; UnitText for keys of the host's own
	Wall WallTime // its date exists in the calendar
	// Nominal is the wall time of the slot before an [Offset] or a [Within] moved it. It
	// is the zero WallTime for all others.
	Nominal WallTime
	// Named is the day that the rule names where the calendar lacks it and a policy
	// moved the slot: 2027-02-29. It is the zero Date otherwise.
	Named Date
	// DayReason says in a few words of English why the slot of a [YearlyBy] or a [Yahrzeit] is on
	// another day than the rule names: "30 Kislev moved to 1 Tevet". It is empty otherwise.
	DayReason string
	// Missing has the policies by which a rule by another calendar found the day. It is zero for all other rules.
	Missing Missing
	// Announces is the wall time that the slot of an [Offset] announces. It is the zero
	// WallTime for all others.
	Announces WallTime
	// Move is how a [Within] moved the slot.
	Move Move
	// Consulted says which calendars decided where the slot is.
	Consulted Consulted

	open int // for how many seconds of the wall the interval of a Within still lasts; 0 without one
}

// keepNominal keeps the wall time from before the first move of a slot that is about to be moved.
func (s *Slot) keepNominal() {
	if s.Nominal == (WallTime{}) {
		s.Nominal = s.Wall
	}
}

// Occurrence is a wall time that a recurrence yields, in a zone and by policies. If [Next] returned
// it, its field Resolution has the instant. Resolution is out of date if Wall, Zone or Policies
// were changed since. [Occurrence.Resolve] returns the present resolution.
type Occurrence struct {
	// Key names the occurrence among those of its recurrence, for ever. It is a local name, such as
	// "2027" for a birthday or "2027-03-15" for a daily digest, never an instant: no change of
	// clocks, zone or rules changes it. Later occurrences have greater keys, compared byte by byte.
	Key string
	// Unit is what Key names. The zero Unit, UnitText, is for keys of the host's own.
	Unit Unit
	// Nominal is the wall time of the occurrence before an [Offset] or a [Within] moved
	// it; see [Slot]. The zero WallTime means that it is Wall.
	Nominal WallTime
	// Wall is when the occurrence happens on the clocks of Zone.
	Wall WallTime
	// Zone is the zone whose clocks show Wall. The zero Timezone leaves the choice to the caller.
	Zone Timezone
	// Policies say how Wall is resolved. The zero Policies are the defaults.
	Policies Policies
	// Named is the day that the rule names, if the month or year does not have it; see [Slot].
	Named Date
	// DayReason says why the occurrence is on another day than the rule names; see [Slot].
	DayReason string
	// Announces is the wall time that the occurrence of an [Offset] announces; see [Slot].
	Announces WallTime
	// Move is how a [Within] moved the occurrence.
	Move Move
	// Consulted says which calendars decided where the occurrence is.
	Consulted Consulted

	answer // has the field Resolution
}

// answer is the part of an Occurrence that [Next] found.
type answer struct {
	// Resolution is the instant that [Next] found. It is zero in an Occurrence that Next did
	// not make, and out of date if Wall, Zone or Policies were changed since.
	// [Occurrence.Resolve] returns the present resolution.
	Resolution Resolution

	resolved question // what Resolution is the answer to
	open     int      // as in Slot
}

// question is what a resolution answers.
type question struct {
	wall     WallTime
	zone     Timezone
	policies Policies
}

func (o Occurrence) question() question { return question{o.Wall, o.Zone, o.Policies} }

// Resolve returns how the occurrence resolves. It returns the field Resolution if that is up
// to date for Wall, Zone and Policies, and otherwise the result of [Timezone.Resolve].
func (o Occurrence) Resolve() (Resolution, error) {
	if !o.Zone.IsZero() && o.resolved == o.question() {
		return o.Resolution, nil
	}
	return o.Zone.Resolve(o.Wall, o.Policies)
}

// OpenFor returns for how long the interval of a [Window] stays open after the occurrence, if a [Within]
// keeps the occurrence in one. Without a window, the interval is a working day. OpenFor reports false for
// all other occurrences, and if Wall, Zone or Policies were changed since [Next] found the occurrence.
func (o Occurrence) OpenFor() (time.Duration, bool) {
	if o.open == 0 || o.resolved != o.question() {
		return 0, false
	}
	closing, err := o.Zone.resolve(wallAt(dayNumber(o.Wall.Date), o.Wall.Clock.seconds()+o.open), Policies{Gap: GapBoundary})
	return max(0, closing.Instant.Sub(o.Resolution.Instant)), err == nil
}

// maxSlots bounds how many slots Next passes over. It needs a handful, for it jumps over what a
// change of clocks took; the rest is for rules of the host's that do not get ahead.
const maxSlots = 1000

// fewSlots is after how many of them Next has a counted rule written out. A rule for
// half past two on the day on which clocks change has all its slots in gaps, and
// would otherwise count from its start for each that GapSkip passes over.
const fewSlots = 8

// Next returns the first occurrence of a recurrence in a zone whose instant is strictly after
// the given one. Its cost does not depend on how long the recurrence has been running, unless
// it is counted, and it always terminates.
//
// If a policy moves a skipped wall time onto or past another wall time of the same recurrence, the moved
// one gives way: it is left out. So a rule of every hour on the hour runs once an hour, also in the
// night in which 02:00 moves to 03:00. Instants come in the order of keys, and none comes twice.
//
// The error matches [ErrNoOccurrence] when there is no occurrence before the year 10000 in UTC, and
// [ErrInvalidRecurrence] when the rule is invalid. Otherwise it is that of [Timezone.Resolve]. So a
// recurrence ends without another error before a slot whose instant Resolve refuses, such as
// 9999-12-31T23:30:00 in New York. The text of ErrNoOccurrence then names the slot.
func Next(r Recurrence, z Timezone, p Policies, after time.Time) (Occurrence, error) {
	return upcoming(r, z, p, after)
}

// Reason says in a few words of English how the day and the instant were found, such as "3 days before
// 15 March" or "moved forward 60 min because clocks skip 02:00–03:00". It is "exact" if nothing moved.
//
// If the occurrence is provisional, it says so: see [Consulted].
func (o Occurrence) Reason() string {
	is := o.Wall.Date
	day := func(d Date) string { return fmt.Sprintf("%d %s", d.Day, d.Month) }
	var reasons []string
	if o.Announces != (WallTime{}) {
		is = o.Announces.Date
		reasons = append(reasons, distance(o.Wall.Date, is)+" "+day(is))
	}
	if o.Named != (Date{}) {
		if o.Announces == (WallTime{}) && o.Nominal != (WallTime{}) {
			is = o.Nominal.Date // to where the calendar moved it; the rest did a Within
		}
		reasons = append(reasons, fmt.Sprintf("%s moved to %s", day(o.Named), day(is)))
	}
	if o.DayReason != "" {
		reasons = append(reasons, o.DayReason)
	}
	if o.Move != (Move{}) {
		reasons = append(reasons, o.Move.Reason())
	}
	if o.Resolution.Reading != ShownOnce || len(reasons) == 0 {
		reasons = append(reasons, o.Resolution.Reason())
	}
	if o.Consulted.Provisional {
		reasons = append(reasons, "provisional, because not all days of the calendar are known yet")
	}
	return strings.Join(reasons, "; ")
}

// Occurrences returns the occurrences that [Next] would find one after the other. The
// sequence ends after the last one, or with an error, which is never [ErrNoOccurrence]. It
// can be endless: stop the loop when you have enough.
func Occurrences(r Recurrence, z Timezone, p Policies, after time.Time) iter.Seq2[Occurrence, error] {
	return func(yield func(Occurrence, error) bool) {
		for {
			next, err := upcoming(r, z, p, after)
			if errors.Is(err, ErrNoOccurrence) || !yield(next, err) || err != nil {
				return
			}
			after = next.Resolution.Instant
		}
	}
}

// firstInstant is the first instant of the calendar. An earlier instant counts as the one before
// it: a zone in the east has wall times of the year 1 before firstInstant, and Resolve refuses them.
var firstInstant = time.Unix(beginning, 0).UTC()

func upcoming(r Recurrence, z Timezone, p Policies, after time.Time) (Occurrence, error) {
	if err := z.check(); err != nil {
		return Occurrence{}, err
	}
	if r == nil {
		return Occurrence{}, invalidRecurrence("none", []string{"there is no rule"})
	}
	if after.Before(firstInstant) {
		after = firstInstant.Add(-time.Second)
	}
	shown := z.WallTime(after)
	w := z.beforeAll(after, p)
	r = inZone(r, z, p)
	rule := r
	for passed := range maxSlots {
		if passed == fewSlots {
			rule = writtenOut(r, w, p)
		}
		slot, err := rule.After(w, p)
		if err != nil {
			return Occurrence{}, err
		}
		w = slot.Wall
		next := Occurrence{
			Key: slot.Key, Unit: slot.Unit, Nominal: slot.Nominal, Wall: w, Zone: z, Policies: p,
			Named: slot.Named, DayReason: slot.DayReason,
			Announces: slot.Announces, Move: slot.Move, Consulted: slot.Consulted.Since(shown.Date),
		}
		next.Policies.Missing = slot.Missing
		if next.Resolution, err = z.resolve(w, p); err != nil {
			if gone, ok := errors.AsType[*WallTimeError](err); ok && !gone.Rejected {
				w = justBefore(gone.Change.To()) // with all others that the gap swallows
				continue
			}
			return next, err
		}
		if !next.Resolution.inCalendar() {
			return Occurrence{}, fmt.Errorf("%w: the next wall time %s", ErrNoOccurrence, next.Resolution.beyond(w, z))
		}
		next.resolved, next.open = next.question(), slot.open
		switch change := next.Resolution.Change; {
		case next.Resolution.Instant.After(after) && next.Resolution.Moved > 0 && givesWay(r, next):
			w = justBefore(change.To()) // so do all that follow it in the gap
			continue
		case next.Resolution.Instant.After(after):
			return next, nil
		case next.Resolution.Reading == ShownTwice:
			w = laterOf(w, justBefore(change.From())) // the fold has passed, as far as it counts
		default:
			w = laterOf(w, shown)
		}
	}
	return Occurrence{}, noOccurrence(shown)
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

// givesWay reports whether a slot that a gap moved forward would meet or pass another one of its series.
func givesWay(r Recurrence, moved Occurrence) bool {
	other, err := r.After(justBefore(moved.Resolution.Change.To()), moved.Policies)
	return err == nil && !moved.Resolution.Shown().Before(other.Wall)
}

func justBefore(w WallTime) WallTime { return WallTimeOf(w.Labelled().Add(-time.Second)) }

func laterOf(a, b WallTime) WallTime {
	if a.Before(b) {
		return b
	}
	return a
}

// invalidRecurrence returns the error that names every problem, or nil.
func invalidRecurrence(rule string, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return &InvalidRecurrenceError{Rule: strings.TrimSpace(excerpt.Of(rule, maxQuoted)), Problems: problems}
}
