package calendar

// Convention says to which day a slot on a day off moves. The names are those of the financial
// markets. The empty Convention is [Following].
type Convention string

// The conventions. The month is that of the slot before it is moved.
const (
	Following         Convention = "following"          // the first working day after it
	ModifiedFollowing Convention = "modified-following" // as Following, unless that is in the next month: then as Preceding
	Preceding         Convention = "preceding"          // the last working day before it
	ModifiedPreceding Convention = "modified-preceding" // as Preceding, unless that is in the month before: then as Following
	Nearest           Convention = "nearest"            // the nearer of Following and Preceding; after a tie, Following
	SkipDay           Convention = "skip"               // none: the slot is left out
)

func (c Convention) valid() bool {
	switch c {
	case "", Following, ModifiedFollowing, Preceding, ModifiedPreceding, Nearest, SkipDay:
		return true
	}
	return false
}

// another moves t from a day off to the day that the convention says, and reports whether there is one.
func (m *mover) another(t *target) bool {
	day := t.day
	forth := func() (int, bool) {
		to, ok := m.openDay(day, 1)
		t.high = to
		return to, ok
	}
	back := func() (int, bool) {
		to, ok := m.openDay(day, -1)
		t.low = to
		return to, ok
	}
	to, ok := 0, false
	switch m.Convention {
	case SkipDay:
		return false
	case Preceding:
		to, ok = back()
	case ModifiedFollowing:
		if to, ok = forth(); !ok || !sameMonth(to, day) {
			to, ok = back()
		}
	case ModifiedPreceding:
		if to, ok = back(); !ok || !sameMonth(to, day) {
			to, ok = forth()
		}
	case Nearest:
		before, okBack := back()
		if to, ok = forth(); !ok || okBack && day-before < to-day {
			to, ok = before, okBack
		}
	default:
		to, ok = forth()
	}
	t.day = to
	return ok
}

func sameMonth(day, other int) bool {
	a, b := dateOf(day), dateOf(other)
	return a.Month == b.Month && a.Year == b.Year
}
