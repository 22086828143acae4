package almanac

import (
	"context"
	"log/slog"
	"time"
)

// Observer hears of each change once it is stored and committed, exactly once per
// change, in the process that made it. It cannot veto. It is called in the
// goroutine that stored the change and holds it up: hand long work to another.
// Observers must be safe for concurrent use.
type Observer interface {
	// Observe hears of one change.
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
	UserCreated         NoticeKind = "user.created"
	UserTimezoneChanged NoticeKind = "user.timezone_changed"
	UserBirthdayChanged NoticeKind = "user.birthday_changed"
	UserDeleted         NoticeKind = "user.deleted"
)

// Notice is one stored change.
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

// Hooks is an Observer made of the functions that you care about; nil ones hear
// nothing. The zero Hooks is deaf.
type Hooks struct {
	Created, Claimed, Released, Rescheduled, Removed, Completed, Failed, Cancelled, Requeued func(ctx context.Context, e Event)

	TimezoneChanged, BirthdayChanged func(ctx context.Context, was, is User)
}

// Observe calls the function for the kind of n, if there is one.
func (h Hooks) Observe(ctx context.Context, n Notice) {
	events := map[NoticeKind]func(context.Context, Event){
		EventCreated: h.Created, EventClaimed: h.Claimed, EventReleased: h.Released,
		EventRescheduled: h.Rescheduled, EventRemoved: h.Removed,
		EventCompleted: h.Completed, EventFailed: h.Failed, EventCancelled: h.Cancelled, EventRequeued: h.Requeued,
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

// LogObserver returns an Observer that writes a line per change: deliveries at
// Info, failures at Error, releases at Warn and everything else at Debug. Lines
// carry ids and keys, never names or payloads. The scheduler leaves its own line about a
// failed delivery to it (see [WithLogger]).
func LogObserver(log *slog.Logger) Observer {
	return logObserver{func(ctx context.Context, n Notice) {
		level := levelOf(n.Kind)
		if !log.Enabled(ctx, level) {
			return
		}
		if n.Event.ID == (Event{}).ID {
			log.LogAttrs(ctx, level, string(n.Kind), slog.String("user_id", n.User.ID.String()))
			return
		}
		attrs := []slog.Attr{
			slog.String("event_id", n.Event.ID.String()),
			slog.String("user_id", n.Event.UserID.String()),
			slog.String("event_type", n.Event.Type),
			slog.String("idempotency_key", n.Event.IdempotencyKey.String()),
			slog.Time("due", n.Event.Due),
			slog.Int("version", n.Event.Version),
		}
		switch n.Kind {
		case EventCompleted:
			attrs = append(attrs, slog.Duration("lateness", n.Event.Lateness().Round(time.Microsecond)))
		case EventFailed, EventCancelled:
			attrs = append(attrs, slog.String("reason", n.Event.FailureReason), slog.Int("retry_count", n.Event.RetryCount))
		case EventReleased:
			attrs = append(attrs, slog.String("reason", n.Event.LastError), slog.Time("available_at", n.Event.AvailableAt))
		default:
		}
		log.LogAttrs(ctx, level, string(n.Kind), attrs...)
	}}
}

// logObserver is told from other observers: the scheduler does not repeat its lines.
type logObserver struct{ ObserverFunc }

func levelOf(k NoticeKind) slog.Level {
	switch k {
	case EventCompleted:
		return slog.LevelInfo
	case EventReleased, EventCancelled:
		return slog.LevelWarn
	case EventFailed:
		return slog.LevelError
	default:
		return slog.LevelDebug
	}
}
