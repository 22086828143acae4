package almanac

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Spec selects events. Specs are plain values: write them as literals, nest them, compare
// them in tests. The set of specs is closed, because a [Repository] translates each Spec
// to a query that selects the same events as Matches. A nil Spec selects every event.
//
// [EventRepository].Find uses an index if the spec names a user, a status, a type, a reason or a range of
// time. The same holds if one part of an And does, or each part of an Or. With [InZone] or [Not] alone,
// Find may read all events to fill a page, so combine them with one of the others. If a range of time or
// a type has more than 5,000 events, Find reads events in order of creation until the page is full.
//
//	almanac.And{almanac.Ready{}, almanac.Not{almanac.OfType("REMINDER")}}
type Spec interface {
	// Matches reports whether s selects e at now.
	Matches(e Event, now time.Time) bool
	spec()
}

// The specs.
type (
	// And selects the events that every part selects. An empty And selects every event.
	And []Spec
	// Or selects the events that at least one part selects. An empty Or selects no event.
	Or []Spec
	// Not selects the events that its part does not select.
	Not struct{ Spec Spec }

	// OfType selects the events of one type.
	OfType string
	// InStatus selects the events in one status.
	InStatus Status
	// ForUser selects the events of one user.
	ForUser uuid.UUID
	// DueBetween selects the events whose due instant is at or after From and before
	// Until. A zero bound means no bound.
	DueBetween struct{ From, Until time.Time }
	// Ready selects the events that can be claimed now.
	Ready struct{}
	// InZone selects the events of zones with these names. A link and its target are different names.
	InZone []string
	// Overdue selects the pending events whose due instant passed more than By ago, also those of a
	// spread type that wait for their point of the window.
	Overdue struct{ By time.Duration }
	// ForReason selects the FAILED and CANCELLED events whose [Event].FailureReason begins
	// with this text. Upper and lower case differ.
	ForReason string
)

// Matches reports whether every part selects e.
func (s And) Matches(e Event, now time.Time) bool {
	for _, part := range s {
		if !matches(part, e, now) {
			return false
		}
	}
	return true
}

// Matches reports whether at least one part selects e.
func (s Or) Matches(e Event, now time.Time) bool {
	for _, part := range s {
		if matches(part, e, now) {
			return true
		}
	}
	return false
}

// Matches reports whether the part does not select e.
func (s Not) Matches(e Event, now time.Time) bool { return !matches(s.Spec, e, now) }

// matches calls Matches of a part. A nil part selects every event.
func matches(part Spec, e Event, now time.Time) bool { return part == nil || part.Matches(e, now) }

// Matches reports whether e has the type.
func (s OfType) Matches(e Event, _ time.Time) bool { return e.Type == string(s) }

// Matches reports whether e has the status.
func (s InStatus) Matches(e Event, _ time.Time) bool { return e.Status == Status(s) }

// Matches reports whether e belongs to the user.
func (s ForUser) Matches(e Event, _ time.Time) bool { return e.UserID == uuid.UUID(s) }

// Matches reports whether the zone of e has one of the names.
func (s InZone) Matches(e Event, _ time.Time) bool { return slices.Contains(s, e.Zone) }

// Matches reports whether the due instant of e is within the bounds.
func (s DueBetween) Matches(e Event, _ time.Time) bool {
	return (s.From.IsZero() || !e.Due.Before(s.From)) && (s.Until.IsZero() || e.Due.Before(s.Until))
}

// Matches reports whether e is pending and available.
func (Ready) Matches(e Event, now time.Time) bool {
	return e.Status == Pending && !e.AvailableAt.After(now)
}

// Matches reports whether e is pending and its due instant passed more than By ago.
func (s Overdue) Matches(e Event, now time.Time) bool {
	return e.Status == Pending && e.Due.Before(now.Add(-s.By))
}

// Matches reports whether e is FAILED or CANCELLED for a reason that begins with the text.
func (s ForReason) Matches(e Event, _ time.Time) bool {
	return (e.Status == Failed || e.Status == Cancelled) && strings.HasPrefix(e.FailureReason, string(s))
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
func (ForReason) spec()  {}

// Page asks for a part of a list.
type Page struct {
	Limit int    // the most events to return, 1 to 1,000; zero means 50
	After Cursor // Next of the page before; empty means the first page
	// Order is for [EventRepository].Find. Other methods refuse every order but the zero value.
	Order Order
}

// Order is the order in which Find lists events.
type Order int

// The orders of events.
const (
	OldestFirst Order = iota // in order of creation
	NewestFirst              // the reverse of OldestFirst
	// NextFirst lists PENDING events only, in the order in which they can be claimed:
	// by [Event].AvailableAt, then by id. AvailableAt is the due instant, or later for an
	// event that waits for its next attempt.
	NextFirst
)

// Cursor is a position in a list. It is opaque: take it from the Next of an earlier
// result, such as a [List].
type Cursor string

// List is a page of users or of events.
type List[T any] struct {
	Items []T
	Next  Cursor // the cursor of the next page; empty if this is the last page
}

const (
	defaultPage = 50
	maxPage     = 1000
)

// Bounds returns the page's limit with its default, and the id after which the page
// begins. The error is a [*ValidationError] that names each invalid field.
func (p Page) Bounds() (limit int, after uuid.UUID, err error) {
	limit, _, after, err = p.bounds(OldestFirst)
	return limit, after, err
}

// EventBounds is Bounds for a page of any [Order]. In order of creation, the page has the
// events with greater ids than after. With [NewestFirst] it has the events with smaller
// ids. With [NextFirst] it has the events that are available later than at, or at the same
// time with greater ids. In the other orders, at is the zero time.
func (p Page) EventBounds() (limit int, at time.Time, after uuid.UUID, err error) {
	return p.bounds(p.Order)
}

// bounds returns the bounds of a page in one of the allowed orders, which are all orders up to highest.
func (p Page) bounds(highest Order) (limit int, at time.Time, after uuid.UUID, err error) {
	var bad ValidationError
	refuse := func(field, problem string) {
		bad.Fields = append(bad.Fields, FieldError{Field: field, Problem: problem})
	}
	if p.Limit < 0 || p.Limit > maxPage {
		refuse("limit", "is not between 1 and 1000")
	}
	if p.Order < OldestFirst || p.Order > min(highest, NextFirst) {
		refuse("order", "is not an order of this list")
	}
	if at, after, err = p.After.position(p.Order); err != nil {
		refuse("cursor", "is not a cursor of an earlier page")
	}
	if len(bad.Fields) > 0 {
		return 0, time.Time{}, uuid.Nil, &bad
	}
	p.Limit = cmp.Or(p.Limit, defaultPage)
	return p.Limit, at, after, nil
}

// position returns the position that a cursor of a list in the given order has.
func (c Cursor) position(order Order) (at time.Time, after uuid.UUID, err error) {
	id := string(c)
	switch {
	case c == "" && order == NewestFirst:
		return time.Time{}, uuid.Max, nil
	case c == "":
		return time.Time{}, uuid.Nil, nil
	case order == NextFirst:
		instant, rest, _ := strings.Cut(id, "/")
		if at, err = time.Parse(time.RFC3339Nano, instant); err != nil {
			return time.Time{}, uuid.Nil, err
		}
		id = rest
	}
	after, err = uuid.Parse(id)
	return at, after, err
}

// PageOf returns the page of the first limit events of a list in the given order. Pass a
// list of up to limit + 1 events: one event more than limit shows that there is a next page.
func PageOf(events []Event, limit int, order Order) List[Event] {
	if len(events) <= limit {
		return List[Event]{Items: events}
	}
	last := events[limit-1]
	next := last.ID.String()
	if order == NextFirst {
		next = last.AvailableAt.UTC().Format(time.RFC3339Nano) + "/" + next
	}
	return List[Event]{Items: events[:limit], Next: Cursor(next)}
}
