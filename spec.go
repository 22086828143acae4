package almanac

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Spec picks events. Specs are plain values: write them as literals, nest them,
// compare them in tests. A [Repository] turns the same value into a query, so the
// set is closed; the two readings agree. A nil Spec picks everything.
//
// [EventRepository].Find reads a page from an index when the spec names a user, a status, a
// type or a range of time. The same holds when one part of an And does, or each part of an
// Or. A spec of [InZone] or [Not] alone may read all events to find a page: add one of the
// others. When a range of time or a type holds more than 5,000 events, Find reads them in
// order of creation until it has found a page.
//
//	almanac.And{almanac.Ready{}, almanac.Not{almanac.OfType("REMINDER")}}
type Spec interface {
	// Matches reports whether e is picked at now.
	Matches(e Event, now time.Time) bool
	spec()
}

// The specs.
type (
	// And picks what every part picks. An empty And picks everything.
	And []Spec
	// Or picks what at least one part picks. An empty Or picks nothing.
	Or []Spec
	// Not picks what its part does not.
	Not struct{ Spec Spec }

	// OfType picks the events of one type.
	OfType string
	// InStatus picks the events in one status.
	InStatus Status
	// ForUser picks the events of one user.
	ForUser uuid.UUID
	// DueBetween picks the events whose instant is From or later and before Until. A
	// zero bound is open.
	DueBetween struct{ From, Until time.Time }
	// Ready picks what a claim would take now.
	Ready struct{}
	// InZone picks the events whose wall time is one of these zones', by the names that
	// the events have: a link and what it names are two.
	InZone []string
	// Overdue picks the pending events whose instant passed longer than By ago.
	Overdue struct{ By time.Duration }
)

// Matches reports whether every part matches.
func (s And) Matches(e Event, now time.Time) bool {
	for _, part := range s {
		if !matches(part, e, now) {
			return false
		}
	}
	return true
}

// Matches reports whether a part matches.
func (s Or) Matches(e Event, now time.Time) bool {
	for _, part := range s {
		if matches(part, e, now) {
			return true
		}
	}
	return false
}

// Matches reports whether the part does not match.
func (s Not) Matches(e Event, now time.Time) bool { return !matches(s.Spec, e, now) }

// matches reads a part that may be nil, which picks everything wherever it stands.
func matches(part Spec, e Event, now time.Time) bool { return part == nil || part.Matches(e, now) }

// Matches compares the type.
func (s OfType) Matches(e Event, _ time.Time) bool { return e.Type == string(s) }

// Matches compares the status.
func (s InStatus) Matches(e Event, _ time.Time) bool { return e.Status == Status(s) }

// Matches compares the user.
func (s ForUser) Matches(e Event, _ time.Time) bool { return e.UserID == uuid.UUID(s) }

// Matches looks for the zone among the names.
func (s InZone) Matches(e Event, _ time.Time) bool { return slices.Contains(s, e.Zone) }

// Matches compares the due instant with the bounds.
func (s DueBetween) Matches(e Event, _ time.Time) bool {
	return (s.From.IsZero() || !e.Due.Before(s.From)) && (s.Until.IsZero() || e.Due.Before(s.Until))
}

// Matches reports whether e is pending and available.
func (Ready) Matches(e Event, now time.Time) bool {
	return e.Status == Pending && !e.AvailableAt.After(now)
}

// Matches reports whether e is pending and its instant passed long enough ago.
func (s Overdue) Matches(e Event, now time.Time) bool {
	return e.Status == Pending && e.Due.Before(now.Add(-s.By))
}

func (And) spec()        {}
func (Or) spec()         {}
func (Not) spec()        {}
func (OfType) spec()     {}
func (InStatus) spec()   {}
func (ForUser) spec()    {}
func (DueBetween) spec() {}
func (InZone) spec()     {}
func (Ready) spec()      {}
func (Overdue) spec()    {}
