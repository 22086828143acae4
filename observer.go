package almanac

import (
	"context"
	"time"
)

// Observer is notified of each change after the change is committed, exactly once, in the
// process that made it. It is also notified of each event that a committed edit skipped.
// It cannot prevent a change. An Observer must be safe for concurrent use. The call that stored
// the change waits for it for at most ten seconds (see [Health].Blocked). Do long work in another
// goroutine. A panic of an observer is logged.
//
// Observers belong to a scheduler, not to an event, because an event is a value that each
// process reads anew.
//
// An Observer that is also a [Measurer] gets measurements too.
type Observer interface {
	// Observe is notified of one change.
	Observe(ctx context.Context, n Notice)
}

// NoticeKind says which change was stored.
type NoticeKind string

// The kinds of notice.
const (
	EventCreated        NoticeKind = "event.created"
	EventClaimed        NoticeKind = "event.claimed"
	EventReleased       NoticeKind = "event.released"
	EventRescheduled    NoticeKind = "event.rescheduled"
	EventRemoved        NoticeKind = "event.removed"
	EventCompleted      NoticeKind = "event.completed"
	EventFailed         NoticeKind = "event.failed"
	EventCancelled      NoticeKind = "event.cancelled"       // by Operator.Cancel, or because a delivery was NotOwed
	EventRequeued       NoticeKind = "event.requeued"        // the new event of Operator.Requeue
	EventSkipped        NoticeKind = "event.skipped"         // an edit of the user left the event unchanged, because it was claimed or requeued before
	SeriesStalled       NoticeKind = "series.stalled"        // an event ended, and its successor could not be planned; see StalledSeries
	FollowUpsLost       NoticeKind = "event.follow_ups_lost" // an event ended, and its follow-ups could not be planned; they are not tried again
	LaneFailing         NoticeKind = "lane.failing"          // a breaker has opened, has been open for another hour, or has paused its lane; see Breaker
	LaneRecovered       NoticeKind = "lane.recovered"        // a breaker has closed after the receiver accepted events
	UserCreated         NoticeKind = "user.created"
	UserTimezoneChanged NoticeKind = "user.timezone_changed"
	UserBirthdayChanged NoticeKind = "user.birthday_changed"
	UserOptOutsChanged  NoticeKind = "user.opt_outs_changed"
	UserDeleted         NoticeKind = "user.deleted"
)

// Notice is one stored change, or one event that a stored edit skipped.
type Notice struct {
	Kind    NoticeKind
	Event   Event        // as stored, for kinds that begin with "event."; the event that ended, for SeriesStalled and FollowUpsLost
	User    User         // as stored, for kinds that begin with "user."; after a deletion only its ID
	Was     User         // before the change, for kinds that end with "changed"
	Cause   ReleaseCause // the cause of the release, for EventReleased
	Failure FailureCause // the cause of the failure, for EventFailed
	Err     error        // why nothing could be planned, for SeriesStalled and FollowUpsLost
	Lane    string       // for kinds that begin with "lane."
	Breaker Breaker      // as stored, for LaneFailing; as it was, for LaneRecovered
}

// ObserverFunc makes an Observer from a function.
type ObserverFunc func(ctx context.Context, n Notice)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, n Notice) { f(ctx, n) }

// Hooks is an Observer made of functions, one for each kind of notice. It has none for stalled series, for lost
// follow-ups, and for users who are created, deleted or opt out. A nil function is not called. The zero Hooks calls
// nothing.
type Hooks struct {
	Created, Claimed, Released, Rescheduled, Removed, Completed, Failed, Cancelled, Requeued, Skipped func(ctx context.Context, e Event)

	TimezoneChanged, BirthdayChanged func(ctx context.Context, was, is User)
}

// Observe calls the function for the kind of n, if there is one.
func (h Hooks) Observe(ctx context.Context, n Notice) {
	events := map[NoticeKind]func(context.Context, Event){
		EventCreated: h.Created, EventClaimed: h.Claimed, EventReleased: h.Released,
		EventRescheduled: h.Rescheduled, EventRemoved: h.Removed,
		EventCompleted: h.Completed, EventFailed: h.Failed, EventCancelled: h.Cancelled, EventRequeued: h.Requeued, EventSkipped: h.Skipped,
	}
	if hook := events[n.Kind]; hook != nil {
		hook(ctx, n.Event)
	}
	users := map[NoticeKind]func(context.Context, User, User){
		UserTimezoneChanged: h.TimezoneChanged, UserBirthdayChanged: h.BirthdayChanged,
	}
	if hook := users[n.Kind]; hook != nil {
		hook(ctx, n.Was, n.User)
	}
}

// Measurer is the ability of an [Observer] to get measurements. There is one for each of these:
//
//   - A claim of Run, also if it found no event or failed.
//   - A request that began too late for its lane.
//   - A call that stores versioned updates, also in a transaction of the host. A versioned update names the version
//     that it replaces. It fails if another version is stored.
//
// A measurement need not be of a stored change, so it is no [Notice].
type Measurer interface {
	// Measure gets one measurement. It must be safe for concurrent use. The next claim, or the
	// call that stored the updates, waits for it, as for Observe.
	Measure(ctx context.Context, m Measurement)
}

// The kinds of measurements. The last three are of versioned updates.
const (
	MeasuredClaim   = "claim"   // one claim of events, by Run
	MeasuredLate    = "late"    // one request that began too long after its lane admitted the event; see Begun
	MeasuredOutcome = "outcome" // outcomes of claimed events, stored by Run
	MeasuredUser    = "user"    // a user, edited by UpdateUser, Reschedule or DeleteUser
	MeasuredEvent   = "event"   // a pending event, changed by Cancel or RunNow
)

// Measurement has the numbers of one claim, of one late request, or of one call that stored versioned updates.
type Measurement struct {
	Kind string // what is measured: one of the kinds above
	Type string // the type of the event, for MeasuredLate

	// Query is how long the repository's statement took (see [ClaimResult.Query]). It is
	// zero if the claim failed, or if the repository does not measure it. Query and the fields
	// up to Err are for MeasuredClaim.
	Query time.Duration
	// Total is how long the whole call took, including the wait for a connection and repeated attempts. For
	// MeasuredLate it is how long after its admission the request began.
	Total     time.Duration
	BatchSize int   // the most events that the claim asked for
	Found     int   // how many events the claim took
	Ahead     bool  // whether the claim asked for events before their instants (see WithLookAhead)
	Err       error // why the claim failed; nil if it succeeded

	Stored    int // versioned updates that were stored
	Conflicts int // versioned updates that were refused because another version was stored; other failures are not counted
}
