package almanac

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
)

// LogObserver returns an Observer that logs one line for each change: claims, deliveries and events that are [NotOwed]
// at Info, releases and cancellations by operators at Warn, failures and stalled series at Error, and all other changes
// at Debug. It also logs "Executing event" at Info when an attempt starts. Lines contain ids and keys, never names or
// payloads. The scheduler then omits its own lines about attempts and failed deliveries (see [WithLogger]).
func LogObserver(log *slog.Logger) Observer { return logObserver{log} }

// logObserver is a type, so that the scheduler recognizes it and does not repeat its lines.
type logObserver struct{ log *slog.Logger }

// Observe logs one change.
func (o logObserver) Observe(ctx context.Context, n Notice) {
	level := levelOf(n)
	if n.Lane != "" { // the scheduler has logged it
		return
	}
	if !o.log.Enabled(ctx, level) {
		return
	}
	if n.Event.ID == uuid.Nil {
		o.log.LogAttrs(ctx, level, string(n.Kind), slog.String("user_id", n.User.ID.String()))
		return
	}
	attrs := append(eventAttrs(n.Event),
		slog.Time("target_timestamp_utc", n.Event.Due),
		slog.Int("version", n.Event.Version))
	switch n.Kind {
	case EventCompleted:
		attrs = append(attrs, slog.Duration("lateness", n.Event.Lateness().Round(time.Microsecond)))
	case EventFailed, EventCancelled:
		attrs = append(attrs, slog.String("reason", n.Event.FailureReason), slog.Int("retry_count", n.Event.RetryCount))
	case EventReleased:
		attrs = append(attrs, slog.String("reason", n.Event.LastError), slog.Time("available_at", n.Event.AvailableAt))
	case SeriesStalled, FollowUpsLost:
		attrs = append(attrs, slog.Any("error", n.Err))
	case EventSkipped:
		attrs = append(attrs, slog.String("current_status", string(n.Event.Status)))
	default:
	}
	o.log.LogAttrs(ctx, level, string(n.Kind), attrs...)
}

func levelOf(n Notice) slog.Level {
	switch n.Kind {
	case EventClaimed, EventCompleted:
		return slog.LevelInfo
	case EventReleased:
		return slog.LevelWarn
	case EventCancelled:
		if n.Event.LeaseToken != uuid.Nil { // by the worker that held it
			return slog.LevelInfo
		}
		return slog.LevelWarn
	case EventFailed, SeriesStalled, FollowUpsLost:
		return slog.LevelError
	default:
		return slog.LevelDebug
	}
}

// eventAttrs returns the attributes of every line about one event.
func eventAttrs(e Event) []slog.Attr {
	return []slog.Attr{
		slog.String("event_id", e.ID.String()),
		slog.String("event_type", e.Type),
		slog.String("user_id", e.UserID.String()),
		slog.String("idempotency_key", e.IdempotencyKey.String()),
	}
}

// observed reports whether a [LogObserver] logs each change of an event.
func (s *scheduler) observed() bool {
	return slices.ContainsFunc(s.observers, func(o Observer) bool { _, yes := o.(logObserver); return yes })
}

// logExecution logs the start of an attempt: through each LogObserver at Info, or by the
// scheduler at Debug if there is none.
func (s *scheduler) logExecution(ctx context.Context, e *Event, attempt int) {
	written := false
	for _, o := range s.observers {
		if o, yes := o.(logObserver); yes {
			written = true
			logExecution(ctx, o.log, slog.LevelInfo, e, attempt)
		}
	}
	if !written {
		logExecution(ctx, s.log, slog.LevelDebug, e, attempt)
	}
}

func logExecution(ctx context.Context, log *slog.Logger, level slog.Level, e *Event, attempt int) {
	if log.Enabled(ctx, level) {
		log.LogAttrs(ctx, level, "Executing event", append(eventAttrs(*e),
			slog.Time("target_timestamp_utc", e.Due), slog.Int("attempt", attempt))...)
	}
}

// logClaim logs a claim that succeeded: how long its query took, and the whole call.
func (s *scheduler) logClaim(ctx context.Context, m Measurement) {
	if m.Err != nil || !s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	s.log.LogAttrs(ctx, slog.LevelDebug, "events claimed", slog.Int("count", m.Found), slog.Int("batch_size", m.BatchSize),
		slog.Float64("query_duration_ms", ms(m.Query)), slog.Float64("duration_ms", ms(m.Total)))
}

// logOutcome logs what became of the outcome of an attempt.
func (w *worker) logOutcome(ctx context.Context, s *Settlement, r *SettleResult) {
	w.logUnsettled(ctx, s, r)
	w.logFailure(ctx, s, r)
	w.logCompletion(ctx, r)
}

// logCompletion logs a delivery whose outcome is stored. It logs nothing if there is a
// LogObserver, which writes a line for each change.
func (w *worker) logCompletion(ctx context.Context, r *SettleResult) {
	if r.Err != nil || r.Event.Status != Completed || w.observed() || !w.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	w.log.LogAttrs(ctx, slog.LevelDebug, "Event execution completed", append(eventAttrs(r.Event),
		slog.Int("attempt", r.Event.RetryCount+1), slog.Duration("lateness", r.Event.Lateness().Round(time.Microsecond)))...)
}

// logUnsettled logs an outcome that was not stored, and what was not planned.
func (w *worker) logUnsettled(ctx context.Context, s *Settlement, r *SettleResult) {
	write := func(level slog.Level, message string, more ...slog.Attr) {
		w.log.LogAttrs(ctx, level, message, append(eventAttrs(s.Event), more...)...)
	}
	switch {
	case errors.Is(r.Err, ErrHandedOn): // the outcome is stored elsewhere
	case errors.Is(r.Err, ErrLeaseLost):
		write(slog.LevelWarn, "outcome not stored: the lease was lost")
	case errors.Is(r.Err, ErrNotFound):
		write(slog.LevelDebug, "outcome not stored: the user was deleted at once")
	case r.Err != nil:
		write(slog.LevelError, "outcome not stored", slog.Any("error", r.Err))
	case r.Stalled != nil:
		write(slog.LevelError, "series has stalled: its successor could not be planned", slog.Any("error", r.PlanErr), slog.Time("retry_at", r.Stalled.RetryAt))
	}
	if r.Err == nil && r.FollowErr != nil {
		write(slog.LevelError, "follow-ups could not be planned", slog.Any("error", r.FollowErr))
	}
}

// logFailure logs a delivery that failed or was refused. It logs nothing if there is a LogObserver.
func (w *worker) logFailure(ctx context.Context, s *Settlement, r *SettleResult) {
	again := r.Event.Status == Pending && s.Outcome.Cause == AfterFailure
	if r.Err != nil || !again && r.Event.Status != Failed || w.observed() {
		return
	}
	level, reason := slog.LevelError, r.Event.FailureReason
	if again {
		level, reason = slog.LevelWarn, r.Event.LastError
	}
	attrs := append(eventAttrs(r.Event), slog.Int("attempt", r.Event.RetryCount), slog.String("error", reason))
	if again {
		attrs = append(attrs, slog.Time("next_attempt", r.Event.AvailableAt))
	}
	w.log.LogAttrs(ctx, level, "delivery failed", attrs...)
}

// logEdit logs how a committed edit changed the instants of a user's events: one line for
// each event that it skipped, and one line for all events that it moved.
func (s *scheduler) logEdit(ctx context.Context, before Roster, r UpdateUserResult) {
	if len(r.Moved)+len(r.Skipped) == 0 {
		return
	}
	for _, e := range before.InFlight {
		message, reason := "Skipping reschedule for event in PROCESSING state", "Event is currently being executed and cannot be safely rescheduled"
		if e.Status == Pending {
			message, reason = "Skipping reschedule for event that waits for another attempt", "Event was attempted before and keeps its instant"
		}
		s.log.LogAttrs(ctx, slog.LevelWarn, message, append(eventAttrs(e),
			slog.String("current_status", string(e.Status)), slog.String("reason", reason))...)
	}
	message := "Birthday events rescheduled"
	if slices.ContainsFunc(slices.Concat(r.Moved, before.InFlight), func(e Event) bool { return e.Type != TypeBirthday }) {
		message = "Events rescheduled"
	}
	user := slog.String("user_id", r.User.ID.String())
	s.log.LogAttrs(ctx, slog.LevelInfo, message, user,
		slog.Int("rescheduled_count", len(r.Moved)), slog.Any("rescheduled_event_ids", idsOf(r.Moved)),
		slog.Int("skipped_count", len(r.Skipped)), slog.Any("skipped_event_ids", idsOf(before.InFlight)))
	if len(r.Skipped) > 0 {
		s.log.LogAttrs(ctx, slog.LevelWarn, "Some events could not be rescheduled", user, slog.Int("skipped_count", len(r.Skipped)))
	}
}

// logConflict logs an edit that was not stored because an event was changed meanwhile.
func (s *scheduler) logConflict(ctx context.Context, before Roster, err error) {
	var conflict *OptimisticLockError
	if !errors.As(err, &conflict) {
		return
	}
	for _, e := range before.Pending {
		if e.ID == conflict.EventID {
			s.log.LogAttrs(ctx, slog.LevelWarn, "Event modified during reschedule (optimistic lock conflict)",
				append(eventAttrs(e), slog.Any("error", err))...)
		}
	}
}

// idsOf returns the ids of events. Without events it returns an empty list, not nil.
func idsOf(events []Event) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID.String()
	}
	return ids
}
