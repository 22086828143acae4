package almanac

import (
	"time"

	"github.com/google/uuid"
)

// Cancel returns e as CANCELLED: ended before it was delivered, for the given reason,
// which may be empty and is cut to 1,000 bytes. Neither a claim nor an attempt is
// counted. It returns an [*InvalidStateTransitionError] unless e is PENDING.
func (e Event) Cancel(reason string) (Event, error) {
	next, err := e.become(Cancelled)
	if err != nil {
		return e, err
	}
	next.AvailableAt, next.FailureReason = time.Time{}, storable(reason)
	return next, nil
}

// RunNow returns e as due at now, or, if its target has passed and it rests before
// another attempt, as available at now. The target becomes the second that has begun
// last, so that a wall time can tell it; identity, payload and idempotency key stay.
// An event that could be claimed by now anyway is returned as it is. RunNow returns
// an [*InvalidStateTransitionError] unless e is PENDING.
func (e Event) RunNow(now time.Time) (Event, error) {
	if e.Status != Pending {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	now = now.UTC()
	if !e.AvailableAt.After(now) {
		return e, nil
	}
	next := e
	next.AvailableAt = now
	if e.ClaimCount == 0 {
		next.Due = now.Truncate(time.Second)
		next.AvailableAt = next.Due
		next.Wall = StoredTimezone(e.Zone).WallTime(next.Due)
	} else if now.Before(e.Due) {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending} // an event once claimed keeps its target
	}
	next.Version++
	return next, nil
}

// Requeue returns a new event that repeats e. It has the occurrence key, the idempotency
// key, the payload and the target of e, so a receiver that accepted e after all recognizes
// the repeat. RequeuedFrom is the id of e. The new event is PENDING at version 1
// and available from now on, but not before its target. It belongs to no series:
// nothing follows it, and profile edits do not change it. Requeue returns an
// [*InvalidStateTransitionError] unless e is FAILED or CANCELLED.
func (e Event) Requeue(id uuid.UUID, now time.Time) (Event, error) {
	if e.Status != Failed && e.Status != Cancelled {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	again := Event{
		ID: id, UserID: e.UserID, Type: e.Type, OccurrenceKey: e.OccurrenceKey, RequeuedFrom: e.ID, Status: Pending, Due: e.Due,
		Wall: e.Wall, Zone: e.Zone, Policies: e.Policies, IdempotencyKey: e.IdempotencyKey, Payload: e.Payload, UserVersion: e.UserVersion,
		AvailableAt: later(now, e.Due).UTC(), ClaimCount: max(e.ClaimCount, 1), Version: 1,
	}
	if e.Status == Failed {
		again.LastError = e.FailureReason
	}
	return again, again.check()
}
