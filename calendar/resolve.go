package calendar

import (
	"fmt"
	"time"
)

// Reading says how often the clocks of a zone show a wall time.
type Reading string

// The readings of a wall time.
const (
	ShownOnce  Reading = "once"  // on all but a few hours of the year
	ShownNever Reading = "never" // in a gap: clocks were put forward over it
	ShownTwice Reading = "twice" // in a fold: clocks were put back over it
)

// Resolution is the instant of a wall time in a zone, and how it was found. Resolutions are values.
type Resolution struct {
	Instant time.Time     // UTC
	Reading Reading       // how often clocks show the wall time that was asked for
	Offset  time.Duration // the offset from UTC at Instant, east positive
	// Moved is how much later than the requested wall time clocks show Instant. It is
	// negative under [GapBackward], and zero unless the reading is never.
	Moved time.Duration
	// Change is the change of clocks that makes the reading never or twice; zero when it is once.
	Change Change
}

// Shown returns the wall time that clocks show at the instant: the requested wall time,
// unless clocks skip that.
func (r Resolution) Shown() WallTime { return WallTimeOf(r.Instant.Add(r.Offset)) }

// Reason says in a few words of English how the instant was found: "exact", "moved forward 60 min
// because clocks skip 02:00–03:00", "first of two showings: clocks go back from 02:00 to 01:00".
func (r Resolution) Reason() string {
	switch {
	case r.Reading == ShownNever && r.Moved < 0:
		return fmt.Sprintf("moved back %s because %s", minutes(-r.Moved), r.Change)
	case r.Reading == ShownNever:
		return fmt.Sprintf("moved forward %s because %s", minutes(r.Moved), r.Change)
	case r.Reading == ShownTwice && r.Instant.Before(r.Change.At):
		return "first of two showings: " + r.Change.String()
	case r.Reading == ShownTwice:
		return "second of two showings: " + r.Change.String()
	}
	return "exact"
}

// minutes writes a duration as users write the width of a gap: in minutes, unless
// it is two whole hours or more.
func minutes(d time.Duration) string {
	if d%time.Hour == 0 && d >= 2*time.Hour {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	if d%time.Minute == 0 && d < 24*time.Hour {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return d.String()
}

// The window around a wall time in which both offsets that could matter are in
// force. No zone stands further than 16 hours from UTC, no change skips more than
// a day, and two changes are never as near to each other as the window is wide.
const (
	windowBefore = 38 * 60 * 60
	windowAfter  = 36 * 60 * 60
)

// Resolve returns the instant at which clocks in z show w.
//
// This is the only place where a wall time becomes an instant. [time.Date] is no substitute: in a
// gap or a fold it takes the earlier side in some zones and the later in others.
//
// With the default policies every valid wall time has an answer, but for a few hours at both ends of the
// calendar. The error is a [*WallTimeError], which matches [ErrSkippedWallTime] or
// [ErrRejectedWallTime], under the policies skip and reject, and an [*InvalidTimezoneError] for a zone
// without data. It is an [*InputError] for an invalid wall time (30 February) or policy, and for a wall
// time whose instant is outside of the years 1 to 9999 in UTC, such as 9999-12-31T23:30:00 in New York.
func (z Timezone) Resolve(w WallTime, p Policies) (Resolution, error) {
	r, err := z.resolve(w, p)
	if err == nil && !r.inCalendar() {
		return Resolution{}, &InputError{[]InputProblem{{"wall time", r.beyond(w, z)}}}
	}
	return r, err
}

// inCalendar reports whether both the instant and the wall time that clocks show then are in
// the years 1 to 9999.
func (r Resolution) inCalendar() bool {
	instant := r.Instant.Unix()
	shown := instant + int64(r.Offset/time.Second)
	return min(instant, shown) >= beginning && max(instant, shown) < beginning+daysOfCalendar*secondsPerDay
}

// beyond says, as a clause, that the instant of w in z is not in the calendar.
func (r Resolution) beyond(w WallTime, z Timezone) string {
	return fmt.Sprintf("is %s, which in %s is %s in UTC: years are 1 to 9999", w, z, WallTimeOf(r.Instant))
}

// resolve is [Timezone.Resolve] without the bounds of the calendar.
func (z Timezone) resolve(w WallTime, p Policies) (Resolution, error) {
	r := z.rules()
	if r == nil {
		return Resolution{}, z.check()
	}
	if !w.Valid() || !p.Valid() {
		return Resolution{}, cannotResolve(w, p)
	}
	label := w.Labelled().Unix()
	before, after := r.offset(label-windowBefore), r.offset(label+windowAfter)
	if before == after {
		return resolved(label-before, before, ShownOnce), nil
	}
	early, late := label-max(before, after), label-min(before, after)
	shownEarly, shownLate := r.offset(early) == label-early, r.offset(late) == label-late

	switch {
	case shownEarly && shownLate:
		return fold(z, w, p.Fold, r.changeBetween(early, late))
	case shownEarly:
		return resolved(early, label-early, ShownOnce), nil
	case shownLate:
		return resolved(late, label-late, ShownOnce), nil
	}
	return gap(z, w, p.Gap, r.changeBetween(early, late))
}

func cannotResolve(w WallTime, p Policies) error {
	bad := p.problems()
	if !w.Valid() {
		bad = append(bad, InputProblem{"wall time", fmt.Sprintf("is %s, which no calendar holds", w)})
	}
	return &InputError{bad}
}

// fold chooses between the two instants at which clocks show w.
func fold(z Timezone, w WallTime, p FoldPolicy, c Change) (Resolution, error) {
	offset := c.Before
	switch p {
	case FoldSecond:
		offset = c.After
	case FoldReject:
		return Resolution{}, &WallTimeError{w, z, ShownTwice, c, true}
	}
	r := readWith(w, offset, ShownTwice)
	r.Change = c
	return r, nil
}

// gap chooses an instant for w, which clocks never show. Read with the offset
// before the change, w is an instant after it, and the other way round.
func gap(z Timezone, w WallTime, p GapPolicy, c Change) (Resolution, error) {
	r := readWith(w, c.Before, ShownNever)
	r.Offset = c.After
	switch p {
	case GapBackward:
		r = readWith(w, c.After, ShownNever)
		r.Offset = c.Before
	case GapBoundary:
		r.Instant = c.At
	case GapSkip, GapReject:
		return Resolution{}, &WallTimeError{w, z, ShownNever, c, p == GapReject}
	}
	r.Change = c
	r.Moved = r.Shown().Labelled().Sub(w.Labelled())
	return r, nil
}

// readWith is w as clocks show it that stand at an offset.
func readWith(w WallTime, offset time.Duration, reading Reading) Resolution {
	return Resolution{Instant: w.Labelled().Add(-offset), Reading: reading, Offset: offset}
}

func resolved(sec, offset int64, reading Reading) Resolution {
	return Resolution{Instant: time.Unix(sec, 0).UTC(), Reading: reading, Offset: time.Duration(offset) * time.Second}
}
