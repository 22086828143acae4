package calendar

import (
	"cmp"
	"fmt"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// GapPolicy says what happens to a wall time that clocks skip. The empty policy is [GapForward].
type GapPolicy string

// The gap policies. In New York clocks went from 02:00 to 03:00 on 2026-03-08, so no clock
// showed 02:30 that day.
const (
	// GapForward moves it later by the width of the gap: 02:30 runs at 03:30. It is
	// the rule of RFC 5545 section 3.3.5 and of Temporal's "compatible".
	GapForward GapPolicy = "forward"
	// GapBackward moves it earlier by the width of the gap: 02:30 runs at 01:30.
	GapBackward GapPolicy = "backward"
	// GapBoundary takes the first instant after the gap: 02:30 runs at 03:00.
	GapBoundary GapPolicy = "boundary"
	// GapSkip leaves the occurrence out: the next one is due instead.
	GapSkip GapPolicy = "skip"
	// GapReject makes it an error that matches [ErrRejectedWallTime].
	GapReject GapPolicy = "reject"
)

// FoldPolicy says which showing of a wall time counts when clocks show it twice. In either
// case the event runs once. The empty policy is [FoldFirst].
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

// MonthEndPolicy says when a monthly 29th, 30th or 31st happens in a month that is
// shorter. The empty policy is [MonthEndClamp].
type MonthEndPolicy string

// The month end policies; RFC 7529 calls them SKIP=BACKWARD and OMIT.
const (
	MonthEndClamp MonthEndPolicy = "clamp" // on the last day of the month
	MonthEndSkip  MonthEndPolicy = "skip"  // not at all: in longer months only
)

// Policies say how to resolve wall times that clocks skip or show twice, and days that a month or year
// does not have. A handler returns them with each occurrence, so each event type has its own. They are
// stored with each event. The zero Policies are the defaults: forward, first, feb28 and clamp. For days that
// another calendar lacks, the default is the custom of that calendar.
type Policies struct {
	Gap      GapPolicy
	Fold     FoldPolicy
	LeapDay  LeapDayPolicy
	MonthEnd MonthEndPolicy
	// Missing says what happens if a year of another calendar lacks the month or the day. In an Occurrence that
	// [Next] returned, it has the policies by which the day was found. If the rule uses none, it is zero there.
	Missing Missing
}

// WithDefaults returns p with each empty policy replaced by its default. It does not change Missing, because
// each calendar has its own defaults.
func (p Policies) WithDefaults() Policies {
	p.Gap = cmp.Or(p.Gap, GapForward)
	p.Fold = cmp.Or(p.Fold, FoldFirst)
	p.LeapDay = cmp.Or(p.LeapDay, LeapDayFeb28)
	p.MonthEnd = cmp.Or(p.MonthEnd, MonthEndClamp)
	return p
}

// Valid reports whether every policy of p is empty or one of those defined here.
func (p Policies) Valid() bool { return len(p.problems()) == 0 }

// Check returns nil if p is valid, and otherwise an [*InputError] that names every policy
// that this package does not define.
func (p Policies) Check() error {
	if bad := p.problems(); len(bad) > 0 {
		return &InputError{bad}
	}
	return nil
}

// problems says which policies are none of those defined here.
func (p Policies) problems() []InputProblem {
	var bad []InputProblem
	unknown := func(field, value string, known bool) {
		if !known {
			bad = append(bad, InputProblem{field, fmt.Sprintf("is %q, which is no policy", excerpt.Of(value, maxQuoted))})
		}
	}
	p = p.WithDefaults()
	switch p.Gap {
	case GapForward, GapBackward, GapBoundary, GapSkip, GapReject:
	default:
		unknown("gap", string(p.Gap), false)
	}
	unknown("fold", string(p.Fold), p.Fold == FoldFirst || p.Fold == FoldSecond || p.Fold == FoldReject)
	unknown("leap day", string(p.LeapDay), p.LeapDay == LeapDayFeb28 || p.LeapDay == LeapDayMar1 || p.LeapDay == LeapDaySkip)
	unknown("month end", string(p.MonthEnd), p.MonthEnd == MonthEndClamp || p.MonthEnd == MonthEndSkip)
	for _, problem := range p.Missing.problems() {
		bad = append(bad, InputProblem{"missing", problem})
	}
	return bad
}
