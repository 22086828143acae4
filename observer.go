package almanac

import "context"

// Observer is notified of each change after it is stored and committed, exactly once per
// change, in the process that made the change. It is also notified of each event that a
// committed edit skipped. An Observer cannot veto a change. It is called in the goroutine
// that stored the change and holds that goroutine up: hand long work to another
// goroutine. Observers must be safe for concurrent use. An Observer that is also a
// [ClaimMeasurer] or an [UpdateMeasurer] is notified of claims or versioned updates too.
type Observer interface {
	// Observe is notified of one change.
	Observe(ctx context.Context, n Notice)
}

// NoticeKind says what was stored.
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
	EventCancelled      NoticeKind = "event.cancelled" // by Operator.Cancel
	EventRequeued       NoticeKind = "event.requeued"  // the new event, of Operator.Requeue
	EventSkipped        NoticeKind = "event.skipped"   // by an edit of its user: claimed before, so it keeps its target and its payload
	UserCreated         NoticeKind = "user.created"
	UserTimezoneChanged NoticeKind = "user.timezone_changed"
	UserBirthdayChanged NoticeKind = "user.birthday_changed"
	UserDeleted         NoticeKind = "user.deleted"
)

// Notice is one stored change, or one event that a stored edit skipped.
type Notice struct {
	Kind  NoticeKind
	Event Event        // as stored, for the kinds that begin with "event."
	User  User         // as stored, for the kinds that begin with "user."; after a deletion only its ID
	Was   User         // as it was before, for the kinds that end with "changed"
	Cause ReleaseCause // why, for EventReleased
}

// ObserverFunc makes an Observer of a function.
type ObserverFunc func(ctx context.Context, n Notice)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, n Notice) { f(ctx, n) }

// Hooks is an Observer made of functions, one for each kind of notice. A nil function is
// not called. The zero Hooks calls nothing.
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
