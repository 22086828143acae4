package almanac

import (
	"time"

	"github.com/google/uuid"
)

// ClaimRequest asks for events that are due.
type ClaimRequest struct {
	// Token names the claim: a fresh random UUID that was never used before. Whoever
	// holds it may settle what was claimed; after a claim whose answer got lost it
	// also tells what to give back.
	Token uuid.UUID
	// Owner says who claims, for people who look at the lease. It decides nothing.
	Owner string
	// Types are the event types to take. Events of other types are left alone.
	Types []string
	// Limit is the most events to take, at least 1.
	Limit int
	// Lease is how long they are held before others may take them back.
	Lease time.Duration
	// Mark is where to begin: events that became available before it are left alone,
	// as if there were none. It spares walking over what is known to be claimed. Zero
	// is the beginning, and so is a mark in the future of the repository's clock, which
	// was set back then.
	Mark time.Time
	// Ahead, if it is positive, asks besides for events that were never claimed and will
	// be due within that time. Only a [Confirmer] grants it; others ignore it.
	Ahead time.Duration
}

// Claim is what a request was given.
type Claim struct {
	Events []Event            // PROCESSING, oldest due first
	Users  map[uuid.UUID]User // their users as they were then, by id
	At     time.Time          // when, by the repository's clock, UTC
	// Reached is when the last of the events became available, UTC; zero when there are
	// none. What became available before it, from the mark on, is claimed by now, or
	// was held by others.
	Reached time.Time
	// Query is how long the claim's statement took: from when the repository had a
	// connection to the last row. Zero means that it was not measured. It decides nothing.
	Query time.Duration
}

// Settlement is the outcome of one claimed event, to be stored.
type Settlement struct {
	// Event is the event as it was claimed. Its version and its lease token must
	// still be the stored ones, or the settlement is refused: the work was somebody
	// else's by then.
	Event Event
	// User is the event's user as the claim returned them. A repository can plan the
	// successor from them without reading or locking anybody, if it makes sure that
	// they have not changed since. The zero User is as good, and slower.
	User User
	// Outcome is what became of it.
	Outcome Outcome
	// Next plans the successor of an event that ends, from the user as stored at the
	// moment at which the plan takes effect. It is called inside a transaction, so it
	// must be quick and must not use the repository, and is called again when the user
	// turns out to have changed: what it answered before is dropped then. An error
	// that matches ErrNoOccurrence means that the series has ended; after any other
	// error the outcome is stored all the same. Nil plans nothing.
	Next func(u User, now time.Time) (Event, error)
	// Follow plans what is stored besides the successor, each in a series of its own,
	// under the conditions of Next; what has a series with an open event, or one that
	// used up the occurrence, is left out. Nil plans nothing.
	Follow func(u User, now time.Time) ([]Event, error)
}

// Outcome is how one attempt at an event ended. Make it with [Delivered],
// [GaveUp] or [GaveBack].
type Outcome struct {
	Status Status        // Completed, Failed, or Pending for a release
	At     time.Time     // when it was delivered, by the repository's clock; for Completed
	Reason string        // why it failed or was released
	Cause  ReleaseCause  // of a release
	Delay  time.Duration // of a release: how long the event rests before it is available again
}

// Delivered is the outcome of an event that was accepted at the given instant.
func Delivered(at time.Time) Outcome { return Outcome{Status: Completed, At: at} }

// GaveUp is the outcome of an event that will not be tried again.
func GaveUp(reason string) Outcome { return Outcome{Status: Failed, Reason: reason} }

// GaveBack is the outcome of an event to be tried again after the delay.
func GaveBack(cause ReleaseCause, reason string, delay time.Duration) Outcome {
	return Outcome{Status: Pending, Cause: cause, Reason: reason, Delay: max(delay, 0)}
}

// Apply returns e with the outcome applied at now. It returns an
// [*InvalidStateTransitionError] unless e is PROCESSING.
func (o Outcome) Apply(e Event, now time.Time) (Event, error) {
	switch o.Status {
	case Completed:
		return e.Complete(o.At)
	case Failed:
		return e.Fail(o.Reason)
	case Pending:
		return e.Release(o.Cause, o.Reason, now.Add(o.Delay))
	}
	return e, &InvalidStateTransitionError{e.ID, e.Status, o.Status}
}

// Settled is the answer to one Settlement.
type Settled struct {
	// Event is the event as stored.
	Event Event
	// Successor is the event that was stored after it, nil if none was: the series
	// has ended, the user is deleted, or the occurrence is used up. Its payload can be
	// spelt as it was planned, where what is stored is the same JSON in another spelling.
	Successor *Event
	// Followed are the events that were stored besides.
	Followed []Event
	// PlanErr is why there is no successor although one was wanted, and then the series
	// stands still until the user is rescheduled, or why nothing followed. The outcome
	// is stored.
	PlanErr error
	// Err is why nothing was stored. It matches ErrLocked when another transaction has
	// the event or its user locked: the event is still held under its lease, and the
	// same settlement can be made again. It matches ErrLeaseLost when the event belongs
	// to another by now, and is a [*NotFoundError] when there is no such event any
	// more, because its user was deleted meanwhile.
	Err error
}

// ReasonUserDeleted is why an event FAILED that could not be tried again because
// its user had been deleted in the meantime.
const ReasonUserDeleted = "user was deleted"

// Missed is what a downtime left behind.
type Missed struct {
	Count  int       // how many events have been ready for longer than the grace
	Oldest time.Time // the earliest instant among them, UTC; zero when there is none
	Newest time.Time // the latest
}

// StoredAs reports whether a stored event is what the settlement makes of it: then
// it was stored before, by a call whose answer got lost. Repositories ask it of an
// event that is no longer as it was claimed.
//
// A terminal event keeps the token that ended it. A release leaves no token, but
// nobody else leads from the claimed version to the next without either a crash or
// another claim.
func (s Settlement) StoredAs(e Event) bool {
	was := s.Event
	if e.ID != was.ID || e.Version != was.Version+1 {
		return false
	}
	if e.Status.Terminal() {
		return e.LeaseToken == was.LeaseToken
	}
	return e.Status == Pending && s.Outcome.Status == Pending &&
		e.ClaimCount == was.ClaimCount && e.CrashCount == was.CrashCount
}
