package almanac

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/isolate"
)

// ClaimRequest asks a repository for due events.
type ClaimRequest struct {
	// Token identifies the claim: a new random UUID. The holder of the token may settle
	// the claimed events. If the answer of a claim is lost, the token names the events to
	// release.
	Token uuid.UUID
	// Owner names the process that claims, for operators who look at leases. It has no
	// other effect.
	Owner string
	// Program names the program that claims and its version, such as "birthdayd v0.1.0".
	// ZoneData is the release of its zone data, such as "2026f". Both are for operators,
	// like Owner. Empty means unknown.
	Program, ZoneData string
	// Types are the event types to claim. Events of other types are left unchanged.
	Types []string
	// Limit is the most events to claim, at least 1.
	Limit int
	// Lease is how long the events are held before another process may release them.
	Lease time.Duration
	// Mark is where the search begins: events that became available before it are left
	// out. It avoids scanning events that are known to be claimed. Zero means the start.
	// A mark later than the repository's clock (the clock was set back) is treated as
	// zero.
	Mark time.Time
	// Ahead, if positive, also asks for events that were never claimed and are due within
	// that time. A repository may ignore it (see [Confirmer]).
	Ahead time.Duration
}

// ClaimResult has the events that a claim took.
type ClaimResult struct {
	Events []Event            // PROCESSING, in the order of their due instants
	Users  map[uuid.UUID]User // the users of the events at the time of the claim, by id
	At     time.Time          // the time of the claim by the repository's clock, UTC
	// Reached is when the last of the events became available, UTC; zero without events.
	// All events that became available between Mark and Reached are claimed, or were
	// locked by other transactions.
	Reached time.Time
	// Query is how long the claim's statement took. It begins when the repository has a
	// connection, and ends with the last row. Zero means that it was not measured. It is
	// only informative.
	Query time.Duration
}

// Settlement is the outcome of one claimed event, to be stored by
// [ClaimRepository].Settle.
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
	// Next plans the successor of an event that ends, for the stored user at the time of
	// the transaction. Nil plans no successor. Next is called inside the transaction, so
	// it must be quick and must not use the repository. It is called again if the user
	// has changed meanwhile, and the last result counts. An error that matches
	// [calendar.ErrNoOccurrence] means that the series has ended. After any other error
	// the outcome is stored without a successor, and the series has stalled.
	Next func(u User, now time.Time) (Event, error)
	// Follow plans the follow-ups, each in a series of its own, under the conditions of
	// Next. Nil plans none. An event is left out if its series has an open event or has
	// used the occurrence key.
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
		return e.Release(o.Cause, o.Reason, now.Add(o.Delay))
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
	// Err is why the outcome was not stored. It matches [ErrLocked] if another
	// transaction has locked the event or its user; the event is still held under its
	// lease, and the settlement can be repeated. It matches [ErrLeaseLost] if the event
	// is no longer held, and [ErrHandedOn] if another process settles the event. It is a
	// [*NotFoundError] if the event does not exist, because its user was deleted
	// meanwhile.
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
// the claimed version to the next, only a crash or another claim would change its
// counters.
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

// settlements returns the settlements of a batch. What follows the events is planned for
// the whole batch when the repository first asks for it, in one goroutine besides that of
// the transaction.
func (w *worker) settlements(jobs []*job) []Settlement {
	next := &plans[Event]{worker: w, jobs: jobs, what: "planning the successor of", plan: w.planNext, lost: func(j *job) *error { return &j.nextLost }}
	follow := &plans[[]Event]{worker: w, jobs: jobs, what: "planning what follows", plan: w.planFollowing, lost: func(j *job) *error { return &j.followLost }}
	batch := make([]Settlement, len(jobs))
	for i, j := range jobs {
		batch[i] = Settlement{Event: j.event, User: j.user, Outcome: j.outcome}
		if j.outcome.Status == Pending {
			continue
		}
		batch[i].Next = func(u User, now time.Time) (Event, error) { return next.of(i, u, now) }
		if w.followWith(j.route.handler, j.event, j.outcome) != nil {
			batch[i].Follow = func(u User, now time.Time) ([]Event, error) { return follow.of(i, u, now) }
		}
	}
	return batch
}

func (w *worker) planNext(j *job, u User, now time.Time) (Event, error) {
	if j.outcome.Status == Pending {
		return Event{}, nil
	}
	e, err := successor(j.route.handler, j.event, u, now)
	return w.stampHere(e, now), err
}

func (w *worker) planFollowing(j *job, u User, now time.Time) ([]Event, error) {
	if follow := w.followWith(j.route.handler, j.event, j.outcome); follow != nil {
		return follow(u, now)
	}
	return nil, nil
}

// plans has what the host's code plans for the events of a batch.
type plans[T any] struct {
	*worker
	jobs []*job
	what string // what the code is for
	plan func(j *job, u User, now time.Time) (T, error)
	// lost returns where a job keeps why its plan was given up. The code is not called again
	// when the settlement is repeated.
	lost func(j *job) *error

	at   time.Time // of the transaction that asked first
	made []made[T] // then, from the users as they were claimed; nil before
}

type made[T any] struct {
	plan T
	err  error
}

// of returns the plan of the i-th job for its user at the time of the transaction.
func (p *plans[T]) of(i int, u User, now time.Time) (T, error) {
	if p.made == nil {
		p.at, p.made = now, p.make(p.jobs, func(j *job) User { return j.user }, now)
	}
	one, was := p.made[i], p.jobs[i].user
	if u.ID != was.ID || u.Version != was.Version || !u.CreatedAt.Equal(was.CreatedAt) || !now.Equal(p.at) {
		one = p.make(p.jobs[i:i+1], func(*job) User { return u }, now)[0]
	}
	return one.plan, one.err
}

func (p *plans[T]) make(jobs []*job, user func(*job) User, now time.Time) []made[T] {
	before := make([]error, len(jobs)) // read here, because a blocked call goes on beside Lost
	for i, j := range jobs {
		before[i] = *p.lost(j)
	}
	return isolate.Run(p.running.host, isolate.Calls[made[T]]{
		N:    len(jobs),
		Name: func(i int) isolate.Name { return isolate.Name{Type: jobs[i].event.Type, User: jobs[i].event.UserID} },
		Call: func(i int) (m made[T]) {
			if m.err = before[i]; m.err == nil {
				m.plan, m.err = p.plan(jobs[i], user(jobs[i]), now)
			}
			return m
		},
		Lost: func(i int, err error) made[T] {
			err = fmt.Errorf("almanac: %s %s %w", p.what, jobs[i].event.Type, err)
			*p.lost(jobs[i]) = err
			return made[T]{err: err}
		},
	})
}
