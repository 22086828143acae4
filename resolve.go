package almanac

import (
	"fmt"
	"sort"
	"time"
)

// Reading says how often the clocks of a zone show a wall time.
type Reading string

// The readings of a wall time.
const (
	Once  Reading = "once"  // on all but a few hours of the year
	Never Reading = "never" // in a gap: clocks were put forward over it
	Twice Reading = "twice" // in a fold: clocks were put back over it
)

// GapPolicy says what becomes of a wall time that clocks skip. The empty policy
// is [GapForward].
type GapPolicy string

// The gap policies. In New York clocks went from 02:00 to 03:00 on 2026-03-08, so
// nobody's clock showed 02:30 that day.
const (
	// GapForward moves it later by the width of the gap: 02:30 runs at 03:30. It is
	// the rule of RFC 5545 section 3.3.5 and of Temporal's "compatible".
	GapForward GapPolicy = "forward"
	// GapBackward moves it earlier by the width of the gap: 02:30 runs at 01:30.
	GapBackward GapPolicy = "backward"
	// GapBoundary takes the first instant after the gap: 02:30 runs at 03:00.
	GapBoundary GapPolicy = "boundary"
	// GapSkip lets the occurrence go by: the next one is due instead.
	GapSkip GapPolicy = "skip"
	// GapReject makes it an error that matches [ErrRejectedWallTime].
	GapReject GapPolicy = "reject"
)

// FoldPolicy says which showing of a wall time counts when clocks show it twice.
// Whichever it is, the event runs once. The empty policy is [FoldFirst].
type FoldPolicy string

// The fold policies.
const (
	FoldFirst  FoldPolicy = "first"  // the earlier instant, the rule of RFC 5545 section 3.3.5
	FoldSecond FoldPolicy = "second" // the later instant
	FoldReject FoldPolicy = "reject" // an error that matches ErrRejectedWallTime
)

// LeapDayPolicy says when a yearly 29 February happens in a year that has none.
// The empty policy is [LeapDayFeb28].
type LeapDayPolicy string

// The leap day policies; RFC 7529 calls them SKIP=BACKWARD, FORWARD and OMIT.
const (
	LeapDayFeb28 LeapDayPolicy = "feb28" // on 28 February
	LeapDayMar1  LeapDayPolicy = "mar1"  // on 1 March
	LeapDaySkip  LeapDayPolicy = "skip"  // not at all: in leap years only
)

// Policies are the answers to the questions that a calendar leaves open. They are
// stored with each event. The zero Policies are the defaults: forward, first,
// feb28.
type Policies struct {
	Gap     GapPolicy
	Fold    FoldPolicy
	LeapDay LeapDayPolicy
}

// WithDefaults returns p with each empty policy replaced by its default.
func (p Policies) WithDefaults() Policies {
	if p.Gap == "" {
		p.Gap = GapForward
	}
	if p.Fold == "" {
		p.Fold = FoldFirst
	}
	if p.LeapDay == "" {
		p.LeapDay = LeapDayFeb28
	}
	return p
}

// Valid reports whether every policy of p is empty or one of those defined here.
func (p Policies) Valid() bool {
	p = p.WithDefaults()
	switch p.Gap {
	case GapForward, GapBackward, GapBoundary, GapSkip, GapReject:
	default:
		return false
	}
	return (p.Fold == FoldFirst || p.Fold == FoldSecond || p.Fold == FoldReject) &&
		(p.LeapDay == LeapDayFeb28 || p.LeapDay == LeapDayMar1 || p.LeapDay == LeapDaySkip)
}

// Resolution is the answer to "when do clocks there show this?".
type Resolution struct {
	Instant time.Time // UTC
	Reading Reading   // how often clocks show the wall time that was asked for
}

// The window around a wall time in which both offsets that could matter are in
// force. No zone stands further than 15 hours from UTC, no change skips more than
// a day, and two changes are never as near to each other as the window is wide.
const (
	windowBefore = 38 * 60 * 60
	windowAfter  = 36 * 60 * 60
)

// Resolve returns the instant at which clocks in z show w.
//
// This is the only place where a wall time becomes an instant. [time.Date] is no
// substitute: in a gap or a fold it takes the earlier side in some zones and the
// later in others.
//
// With the default policies every valid wall time has an answer. The error
// matches [ErrSkippedWallTime] or [ErrRejectedWallTime] under the policies skip and
// reject, and is an [*InvalidTimezoneError] for a zone without data. A wall time
// that no calendar holds (30 February) is refused.
func (z Timezone) Resolve(w WallTime, p Policies) (Resolution, error) {
	if err := z.check(); err != nil {
		return Resolution{}, err
	}
	if !w.Valid() || !p.Valid() {
		return Resolution{}, fmt.Errorf("almanac: cannot resolve %s under %+v: no such wall time or policy", w, p)
	}
	label := w.Labelled().Unix()
	before, after := z.offset(label-windowBefore), z.offset(label+windowAfter)
	early, late := label-max(before, after), label-min(before, after)
	shownEarly, shownLate := z.offset(early) == label-early, z.offset(late) == label-late

	switch {
	case shownEarly && shownLate && early != late:
		return p.fold(z, w, early, late)
	case shownEarly:
		return resolved(early, Once), nil
	case shownLate:
		return resolved(late, Once), nil
	}
	return p.gap(z, w, early, late)
}

// fold chooses between the two instants at which clocks show w.
func (p Policies) fold(z Timezone, w WallTime, first, second int64) (Resolution, error) {
	switch p.Fold {
	case FoldSecond:
		return resolved(second, Twice), nil
	case FoldReject:
		return Resolution{}, &WallTimeError{Wall: w, Zone: z, Reading: Twice, Rejected: true}
	}
	return resolved(first, Twice), nil
}

// gap chooses an instant for w, which clocks never show. Read with the offset
// after the change, w is the earlier instant; with the one before it, the later.
func (p Policies) gap(z Timezone, w WallTime, backward, forward int64) (Resolution, error) {
	switch p.Gap {
	case GapBackward:
		return resolved(backward, Never), nil
	case GapBoundary:
		return resolved(z.changeBetween(backward, forward), Never), nil
	case GapSkip, GapReject:
		return Resolution{}, &WallTimeError{Wall: w, Zone: z, Reading: Never, Rejected: p.Gap == GapReject}
	}
	return resolved(forward, Never), nil
}

// changeBetween returns the first second after low, and not after high, at which
// the offset is no longer the one in force at low.
func (z Timezone) changeBetween(low, high int64) int64 {
	was := z.offset(low)
	return low + int64(sort.Search(int(high-low), func(i int) bool { return z.offset(low+int64(i)) != was }))
}

func resolved(sec int64, r Reading) Resolution {
	return Resolution{Instant: time.Unix(sec, 0).UTC(), Reading: r}
}
