package almanac

import (
	"time"

	"github.com/google/uuid"
)

// ReasonCancelled begins the failure reason of an event that was cancelled.
const ReasonCancelled = "cancelled"

// Cancel returns e as given up before anybody delivered it: FAILED, for a reason
// that begins with [ReasonCancelled], as if it had been claimed under the token and
// ended in one step, so its version is raised by two. No attempt is counted. It
// returns an [*InvalidStateTransitionError] unless e is PENDING.
func (e Event) Cancel(token uuid.UUID, reason string) (Event, error) {
	if e.Status != Pending {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Failed}
	}
	next, err := e.Claim(token)
	if err != nil {
		return e, err
	}
	if next, err = next.become(Failed); err != nil {
		return e, err
	}
	next.FailureReason = ReasonCancelled
	if reason != "" {
		next.FailureReason = storable(ReasonCancelled + ": " + reason)
	}
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

// Requeue returns a new event that delivers what e did not: under the same
// idempotency key and with the same payload and target, so a receiver that took e
// after all takes it for a repeat. It is PENDING, available from now on but not
// before its target, at version 1, and stands apart from the series that e belonged
// to: nothing follows it, and profile edits leave it alone. It returns an
// [*InvalidStateTransitionError] unless e is FAILED.
func (e Event) Requeue(id uuid.UUID, now time.Time) (Event, error) {
	if e.Status != Failed {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	again := Event{
		ID: id, UserID: e.UserID, Type: e.Type, OccurrenceKey: requeuedKey(e), Status: Pending, Due: e.Due, Wall: e.Wall, Zone: e.Zone,
		Policies: e.Policies, IdempotencyKey: e.IdempotencyKey, Payload: e.Payload, UserVersion: e.UserVersion,
		AvailableAt: later(now, e.Due).UTC(), LastError: e.FailureReason, ClaimCount: max(e.ClaimCount, 1), Version: 1,
	}
	return again, again.check()
}
