package calendar

import (
	"fmt"
	"sort"
	"time"
)

// Change is a moment at which the clocks of a zone are put forward or back. Changes are
// values; the zero Change is no change.
type Change struct {
	At     time.Time     // the first instant of the new offset, UTC
	Before time.Duration // the offset from UTC until then, east positive
	After  time.Duration // the offset from then on
}

// IsZero reports whether c is the zero Change.
func (c Change) IsZero() bool { return c.At.IsZero() }

// Width returns by how much clocks are put forward; it is negative when they are put back.
func (c Change) Width() time.Duration { return c.After - c.Before }

// From returns the wall time at the change by the old offset: the first skipped wall
// time of a gap, or the first wall time after a fold.
func (c Change) From() WallTime { return WallTimeOf(c.At.UTC().Add(c.Before)) }

// To returns the wall time that clocks show at the change: the first one that
// follows a gap, and the first one of a fold.
func (c Change) To() WallTime { return WallTimeOf(c.At.UTC().Add(c.After)) }

// String says what clocks do, such as "clocks skip 02:00–03:00" or "clocks go back from 03:00 to 02:00".
func (c Change) String() string {
	from, to := c.From(), c.To()
	when := func(w WallTime) string { return w.Clock.short() }
	if from.Date != to.Date {
		when = func(w WallTime) string { return w.Date.String() + " " + w.Clock.short() }
	}
	if c.Width() > 0 {
		return fmt.Sprintf("clocks skip %s–%s", when(from), when(to))
	}
	return fmt.Sprintf("clocks go back from %s to %s", when(from), when(to))
}

// short is c as most clocks show it: without seconds where there are none.
func (c Clock) short() string {
	if c.Second == 0 {
		return c.String()[:len("15:04")]
	}
	return c.String()
}

const (
	// changeStride is how far apart a zone's offset is looked at in search of a change. Since 1850
	// no two changes of one zone were within four days of each other, so no pair hides between two
	// looks. The bounds that the standard library gives for an offset are not used: at the ends of
	// years beyond a file's last entry they are wrong (golang/go#81583).
	changeStride = 3 * 24 * 60 * 60
	// changeHorizon bounds the search: a zone that keeps its offset for so long has
	// no rule that would change it.
	changeHorizon = 20 * 366 * 24 * 60 * 60
)

// NextChange returns the first change of clocks in z strictly after the given
// instant, and whether there is one within the twenty years that follow. In a zone
// without data, and in the zero Timezone, there is none.
func (z Timezone) NextChange(after time.Time) (Change, bool) {
	r := z.rules()
	if r == nil {
		return Change{}, false
	}
	low := after.Unix()
	for last := low + changeHorizon; low < last; low += changeStride {
		if high := low + changeStride; r.offset(high) != r.offset(low) {
			return r.changeBetween(low, high), true
		}
	}
	return Change{}, false
}

// changeBetween returns the change at the first second after low, and not after
// high, at which the offset is no longer the one in force at low.
func (r *rules) changeBetween(low, high int64) Change {
	was := r.offset(low)
	sec := low + int64(sort.Search(int(high-low), func(i int) bool { return r.offset(low+int64(i)) != was }))
	return Change{
		At:     time.Unix(sec, 0).UTC(),
		Before: time.Duration(was) * time.Second,
		After:  time.Duration(r.offset(sec)) * time.Second,
	}
}
