package almanac

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// ClaimRepository claims due events and stores their outcomes.
type ClaimRepository interface {
	// Claim takes due events and makes them PROCESSING under the request's token. The events of a type
	// are taken oldest first. If more are due than the limit, types without limits take turns. Concurrent
	// claims never take the same event and never wait for each other. No event is taken
	// before it is due, except ahead: see Confirm.
	//
	// The result belongs to the caller, which may give its memory to a later claim (see ClaimRequest.Memory). So a
	// repository that wraps another one, and keeps events of a result, must copy the list and the map. Or it sets
	// Memory to nil in each request that it passes on.
	Claim(ctx context.Context, r ClaimRequest) (ClaimResult, error)

	// Renew extends the leases of the given tokens to the given time from now, and
	// returns the tokens that still hold an event. The other leases are lost: their
	// events were released, have ended or are deleted. Tokens that come with an error are
	// held too, and it is unknown whether the others are.
	Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error)

	// Settle stores outcomes, each at most once, and in one transaction with the successor
	// of the event that ends. A series has at most one open event, so a successor is
	// stored only if its occurrence is after that of the ended event. Settle may store the
	// settlements in any order, and returns the results in the order of the settlements.
	//
	// A settlement that cannot be stored has an error in its result and does not affect the
	// others. Settle waits for no lock that another transaction may hold for long. The
	// result of a locked event has an error that matches [ErrLocked], and the event can be
	// settled later. After an error of the call, it is unknown which outcomes were stored.
	// A repository does not use the settlements after the call, because the caller uses their memory again.
	// The same call may be repeated: an outcome that was stored before has the same result.
	Settle(ctx context.Context, settlements []Settlement) ([]SettleResult, error)

	// Report replaces the breaker of a lane by the result of change, and returns that result. change gets the
	// stored breaker, or the zero Breaker, and the repository's clock. It is called inside a transaction, and
	// again after a conflict, so it must be quick and must not use the repository. A zero result removes the
	// breaker. While a stored breaker has Allowed, Claim and Until obey it.
	//
	// If the result has a Pause and the lane is not paused, Report pauses it in the same transaction, with that
	// reason, the author "breaker" and no end. If the lane is paused already, it keeps its pause, and Report returns
	// the breaker without Pause. So does a repository that cannot pause. A repository without breakers returns an
	// error that matches [errors.ErrUnsupported], which a Scheduler ignores.
	Report(ctx context.Context, lane string, change func(b Breaker, now time.Time) Breaker) (Breaker, error)

	// Release releases the events that are still held under a token, as after a shutdown or after a
	// claim whose answer was lost, and returns them. An event that another transaction has locked
	// stays under the token. The token's lease counts as expired from then on. The same holds for
	// an event that cannot be stored: Release returns the others, and an error.
	Release(ctx context.Context, token uuid.UUID) ([]Event, error)

	// ReleaseExpired releases up to limit events of expired leases, as after a crash, and returns them.
	// It returns no events if there are no more. An event that another transaction has locked stays
	// under its lease until the next call. If the clock was set back, a lease lasts its full duration
	// from then on, unless it is renewed. An event that cannot be stored stays under its lease, too.
	// ReleaseExpired returns the others, and an error. Each release adds one to CrashCount. Once
	// CrashCount has reached shared, it does so only if the event was tried alone (see TryAlone).
	// ReleaseExpired also removes deleted users without events in flight, and deletes tokens without
	// events. A call that returns limit events may leave both to the next call.
	ReleaseExpired(ctx context.Context, limit, shared int) ([]Event, error)

	// TryAlone stores, before an attempt at an event, that its holder attempts no other event that may
	// have killed a worker. If the lease expires, this event counts as the cause. A later call for
	// another event of the lease replaces this one. The error matches [ErrLeaseLost] if the lease no
	// longer holds the event.
	TryAlone(ctx context.Context, e Event) error

	// Confirm confirms, at their instants, that events which were claimed ahead are still held (see
	// [WithLookAhead]). An event that was claimed ahead (see [ClaimRequest].Ahead) is PROCESSING,
	// but has not started. Until its instant, an edit or a deletion of its user treats the event as
	// pending and can change or delete it. An edit that leaves the event unchanged returns it to
	// the queue. If the event is released, or its lease expires, before it starts, its counters are
	// as before the claim. The holder must call Confirm at the instant, and must not start the
	// event before the answer. From the instant on, the event is in flight like any other.
	//
	// A repository that cannot claim ahead ignores [ClaimRequest].Ahead. Its Confirm and Return
	// return an error that matches [errors.ErrUnsupported], and a Scheduler never calls them.
	//
	// Confirm returns which of the events are still held as they were claimed. If the
	// result's At is not before the due instant of a held event, every later edit finds
	// that event in flight. The list may contain several claims of one event; only the
	// latest claim can be held. Confirm changes nothing and waits for no lock.
	Confirm(ctx context.Context, events []Event) (ConfirmResult, error)

	// Return releases those of the events that are still held as they were claimed, as after a
	// shutdown, and returns them. It waits for no lock: an event that another transaction has
	// locked is left for the next [ClaimRepository].ReleaseExpired after it is unlocked. Other
	// events under the same tokens stay claimed. A token that holds no more events is deleted.
	Return(ctx context.Context, events []Event) ([]Event, error)

	// LeaseEach gives each of the events a lease of its own, with a new token, for the given time
	// from now. It takes the events that are still held as they were claimed, and returns them with
	// their new tokens, in the order of the list. The old token still holds the other events of its
	// claim. From then on each event is renewed, settled and released independently. If several
	// calls name the same event, only one of them gets it. Owner is as in a [ClaimRequest]. The
	// result has the users as they are now, without those who were deleted since the claim.
	//
	// LeaseEach is no transition: versions and counters stay. After an error, the caller does not know
	// which tokens the events have. New tokens that were not returned expire after the given time.
	LeaseEach(ctx context.Context, events []Event, owner string, lease time.Duration) (ClaimResult, error)
}

// ClaimRequest asks a repository for due events.
type ClaimRequest struct {
	// Token identifies the claim: a new random UUID. The holder of the token may settle the
	// claimed events. If the answer of a claim is lost, the token names the events to release.
	// A repository over several databases may claim under further new tokens: the LeaseToken of
	// each event counts. After an error, it releases what it has claimed under those itself.
	Token uuid.UUID
	// Owner names the process that claims, for operators who look at leases. It has no other effect.
	Owner string
	// Program names the program that claims and its version, such as "birthdayd v0.1.0". ZoneData is the
	// release of its zone data, such as "2026f". Both are for operators, like Owner. Empty means unknown.
	Program, ZoneData string
	// Types are the event types to claim. Events of other types are left unchanged.
	Types []string
	// Limit is the most events to claim, at least 1. A repository may lower it.
	Limit int
	// Lease is how long the events are held before another process may release them.
	Lease time.Duration
	// Mark is where the search begins: events that became available before it are left
	// out. It avoids scanning events that are known to be claimed. Zero means the start. A
	// mark later than the repository's clock (the clock was set back) is treated as zero. A mark is
	// ignored for a type whose last pause ended at the mark or later.
	Mark time.Time
	// Ahead, if positive, also asks for events that were never claimed and are due within
	// that time. A repository may ignore it (see [ClaimRepository].Confirm).
	Ahead time.Duration
	// Memory, if not nil, is the result of an earlier claim whose Events and Users the caller no longer uses. A
	// repository may overwrite both for its result, even if it then returns an error. It may also ignore Memory. Run
	// sets it to the last result, once it has copied the events.
	Memory *ClaimResult
}

// ClaimResult has the events that a claim took. A later claim may overwrite Events and Users: see ClaimRequest.Memory.
type ClaimResult struct {
	Events []Event            // PROCESSING, in the order of their due instants
	Users  map[uuid.UUID]User // the users of the events at the time of the claim, by id
	At     time.Time          // the time of the claim by the repository's clock, UTC; zero if it has not searched
	// Limited has, by id, the events that lanes with limits have admitted, and the time by this machine's
	// clock just before the claim. Each starts within 250 ms of that time. An event that was claimed ahead
	// counts as admitted at its instant. If it cannot start, it is released. Limited is nil if there are none.
	Limited map[uuid.UUID]time.Time
	// Placed reports whether an event in Limited has a place of a lane, or counts for its breaker. When it has ended,
	// the worker looks whether another event waits for the place.
	Placed bool
	// Failing reports whether the breaker of a lane of the events is stored. Then the worker reports successes,
	// too, and not only failures.
	Failing bool
	// Reached is how far the search has come, UTC: all events of lanes without limits that became available between
	// Mark and Reached are claimed, or were locked by other transactions. It is when the last event that is not in
	// Limited became available, and at most the time from which on the claim has taken events ahead. If events of
	// several types are left, it is the earliest of the times of these types. If only Limited has events, and Mark is
	// zero, it may be a time before the search. It is zero if there is no event.
	Reached time.Time
	// Query is how long the claim's statement took. It begins when the repository has a connection,
	// and ends with the last row. Zero means that it was not measured. It is only informative.
	Query time.Duration
}

// Settlement is the outcome of one claimed event, to be stored by [ClaimRepository].Settle.
type Settlement struct {
	// Event is the event as it was claimed. Its version and its lease token must still be
	// the stored ones. Otherwise the settlement is refused, because the lease was lost.
	Event Event
	// User is the event's user as the claim returned it. A repository may plan the
	// successor from this user without a query, if it makes sure that the user has not
	// changed since. With the zero User the repository queries the user, which is slower.
	User User
	// Outcome is how the attempt ended.
	Outcome Outcome
	// Next plans the successor of an event that ends, for the stored user at the time of the transaction.
	// Nil plans no successor. Next is called inside the transaction, so it must be quick and must not use
	// the repository. It is called again if the user has changed meanwhile, and the last result counts.
	// An error that matches [calendar.ErrNoOccurrence] means that the series has ended. After any other
	// error the outcome is stored without a successor, and the series has stalled.
	Next func(u User, now time.Time) (Event, error)
	// Follow plans the follow-ups, each in a series of its own, under the conditions of Next. Nil plans
	// none. An event is left out if its series has an open event or has used the occurrence key.
	Follow func(u User, now time.Time) ([]Event, error)
}

// Outcome is how one attempt at an event ended. Make it with [Delivered], [GaveUp],
// [CalledOff] or [Released].
type Outcome struct {
	Status  Status        // Completed, Failed, Cancelled, or Pending for a release
	At      time.Time     // the time of the delivery, by the repository's clock; for Completed
	Reason  string        // the reason of a failure, a cancellation or a release
	Cause   ReleaseCause  // the cause of a release
	Failure FailureCause  // the cause of a failure, for observers; a repository does not store it
	Delay   time.Duration // for a release, the time until the event is available again
	Lane    string        // for a release, the lane from then on (see InLane); empty if it stays
}

// Delivered returns the outcome of an event that was delivered at the given instant.
func Delivered(at time.Time) Outcome { return Outcome{Status: Completed, At: at} }

// GaveUp returns the outcome of an event that will not be tried again.
func GaveUp(reason string) Outcome { return Outcome{Status: Failed, Reason: reason} }

// FailureCause says why an event is FAILED. It is one of a few values, so metrics can be
// grouped by it. Event.FailureReason has the text.
type FailureCause string

// The causes of a failure.
const (
	FailedPermanent   FailureCause = "permanent"    // an attempt failed with an error that matches ErrPermanent
	FailedAttempts    FailureCause = "attempts"     // an attempt failed, and no attempt is left
	FailedCrashes     FailureCause = "crashes"      // workers died with the event too often (see WithCrashLimit)
	FailedMissed      FailureCause = "missed"       // the event was too late (see NotOlderThan)
	FailedCheck       FailureCause = "check"        // another Check refused the event
	FailedUserDeleted FailureCause = "user_deleted" // the event was to be tried again, and its user was deleted meanwhile
)

func gaveUp(cause FailureCause, err error) Outcome {
	return Outcome{Status: Failed, Failure: cause, Reason: err.Error()}
}

// CalledOff returns the outcome of an event that is not owed (see [NotOwed]).
func CalledOff(reason string) Outcome { return Outcome{Status: Cancelled, Reason: reason} }

// Released returns the outcome of an event that is to be tried again after the delay.
func Released(cause ReleaseCause, reason string, delay time.Duration) Outcome {
	return Outcome{Status: Pending, Cause: cause, Reason: reason, Delay: max(delay, 0)}
}

// Apply returns e with the outcome applied at now. The error is an
// [*InvalidStateTransitionError] unless e is PROCESSING.
func (o Outcome) Apply(e Event, now time.Time) (Event, error) {
	switch o.Status {
	case Completed:
		return e.Complete(o.At)
	case Failed:
		return e.Fail(o.Reason)
	case Cancelled:
		if e.Status == Processing {
			return e.Cancel(o.Reason)
		}
	case Pending:
		next, err := e.Release(o.Cause, o.Reason, now.Add(o.Delay))
		if err == nil && o.Lane != "" {
			next.Lane = o.Lane
			if o.Lane == e.Type {
				next.Lane = ""
			}
		}
		return next, err
	}
	return e, &InvalidStateTransitionError{e.ID, e.Status, o.Status}
}

// SettleResult is the result of one Settlement.
type SettleResult struct {
	// Event is the event as stored.
	Event Event
	// Successor is the stored successor. It is nil if the series has ended, the user is
	// deleted, or the occurrence key is used. Its payload may have the planned spelling
	// where the stored JSON has an equal value.
	Successor *Event
	// Followed are the stored follow-ups.
	Followed []Event
	// PlanErr is why the successor could not be planned or stored. The outcome is stored,
	// and the series has stalled (see [StalledSeries]).
	PlanErr error
	// FollowErr is why the follow-ups could not be planned or stored. The outcome is stored.
	// The follow-ups are lost: they are not tried again.
	FollowErr error
	// Stalled is the stalled series, if the successor could not be planned or stored.
	Stalled *StalledSeries
	// Err is why the outcome was not stored. It matches [ErrLocked] if another transaction
	// has locked the event or its user; the event is still held under its lease, and the
	// settlement can be repeated. It matches [ErrLeaseLost] if the event is no longer held,
	// and [ErrHandedOn] if another process settles the event. It is a [*NotFoundError] if
	// the event does not exist, because its user was deleted meanwhile.
	Err error
}

// ReasonUserDeleted is the FailureReason of an event that could not be tried again
// because its user was deleted meanwhile.
const ReasonUserDeleted = "user was deleted"

// Missed counts the events that were not delivered during a downtime.
type Missed struct {
	Count  int       // how many events have been ready for longer than the grace
	Oldest time.Time // the earliest due instant of these events, UTC; zero if there are none
	Newest time.Time // the latest due instant of these events, UTC; zero if there are none
}

// StoredAs reports whether e, the stored event, has the outcome of the settlement. Then
// an earlier call stored the outcome, and its answer was lost. Repositories call StoredAs
// for an event that is no longer as it was claimed.
//
// A terminal event keeps the token that ended it. A released event has no token. But from
// the claimed version to the next, only a crash or another claim would change its counters.
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

// ConfirmResult is the result of [ClaimRepository].Confirm. An event in neither list is no
// longer held: it was released, claimed again or deleted.
type ConfirmResult struct {
	Held []uuid.UUID // still held
	Busy []uuid.UUID // another transaction has the event or its user locked: ask again
	At   time.Time   // the repository's clock at the start of the query, UTC
}
