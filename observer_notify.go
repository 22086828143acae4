package almanac

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
)

// notify notifies the observers of a committed change. In a transaction of the host it
// does nothing, because the change is not committed yet.
func (s *scheduler) notify(ctx context.Context, n Notice) {
	if s.inTransaction() {
		return
	}
	for _, o := range s.observers {
		s.guard(ctx, func() { o.Observe(ctx, n) })
	}
}

// guard recovers from a panic of an observer, which must not affect a change that is
// already stored.
func (s *scheduler) guard(ctx context.Context, observe func()) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.ErrorContext(ctx, "observer panicked", slog.Any("error", cause), slog.String("stack", string(debug.Stack())))
		}
	}()
	observe()
}

func (s *scheduler) notifyEvents(ctx context.Context, kind NoticeKind, events []Event) {
	for _, e := range events {
		s.notify(ctx, Notice{Kind: kind, Event: e})
	}
}

// notifyEdit notifies the observers of an edit of a roster.
func (s *scheduler) notifyEdit(ctx context.Context, before Roster, stored Edit) {
	was := before.User
	if is := stored.User; is != nil {
		if !is.Timezone.Equal(was.Timezone) {
			s.notify(ctx, Notice{Kind: UserTimezoneChanged, User: *is, Was: was})
		}
		if is.DateOfBirth != was.DateOfBirth {
			s.notify(ctx, Notice{Kind: UserBirthdayChanged, User: *is, Was: was})
		}
		if !slices.Equal(is.OptOuts, was.OptOuts) {
			s.notify(ctx, Notice{Kind: UserOptOutsChanged, User: *is, Was: was})
		}
	}
	for _, e := range stored.Changed {
		from, _ := before.pending(e.ID)
		s.notify(ctx, Notice{Kind: noticeOf(from, e), Event: e})
	}
	for _, e := range stored.New {
		s.notify(ctx, Notice{Kind: noticeOf(Event{}, e), Event: e})
	}
	s.notifyEvents(ctx, EventRemoved, stored.Removed)
}

// notifySettled notifies the observers of a settled batch.
func (s *scheduler) notifySettled(ctx context.Context, batch []Settlement, settled []SettleResult) {
	for i, r := range settled {
		if r.Err != nil {
			continue
		}
		n := Notice{Kind: noticeOf(batch[i].Event, r.Event), Event: r.Event}
		if n.Kind == EventReleased {
			n.Cause = batch[i].Outcome.Cause
		}
		s.notify(ctx, n)
		if r.Successor != nil {
			s.notify(ctx, Notice{Kind: EventCreated, Event: *r.Successor})
		}
		s.notifyEvents(ctx, EventCreated, r.Followed)
	}
}

// notifyReleased notifies the observers of released events. Events of a deleted user have
// ended instead.
func (s *scheduler) notifyReleased(ctx context.Context, events []Event, cause ReleaseCause) {
	for _, e := range events {
		n := Notice{Kind: noticeOf(Event{Status: Processing}, e), Event: e}
		if n.Kind == EventReleased {
			n.Cause = cause
		}
		s.notify(ctx, n)
	}
}

// noticeOf returns the kind of notice for an event that was stored as from and is now
// stored as to. The zero from means that the event was not stored before.
func noticeOf(from, to Event) NoticeKind {
	switch {
	case to.Status == Completed:
		return EventCompleted
	case to.Status == Failed:
		return EventFailed
	case to.Status == Cancelled:
		return EventCancelled
	case from.Status == Processing:
		return EventReleased
	case from.Status == Pending:
		return EventRescheduled
	case to.Origin.Kind == OriginRequeued:
		return EventRequeued
	default:
		return EventCreated
	}
}

// measureClaim notifies the observers that are a ClaimMeasurer.
func (s *scheduler) measureClaim(ctx context.Context, m ClaimMeasurement) {
	for _, o := range s.observers {
		if o, able := o.(ClaimMeasurer); able {
			s.guard(ctx, func() { o.MeasureClaim(ctx, m) })
		}
	}
}

// measureOutcomes notifies the observers that are an UpdateMeasurer of a settled batch.
func (s *scheduler) measureOutcomes(ctx context.Context, settled []SettleResult) {
	m := UpdateMeasurement{Kind: UpdateOutcome}
	for _, r := range settled {
		switch {
		case r.Err == nil:
			m.Stored++
		case errors.Is(r.Err, ErrLeaseLost):
			m.Conflicts++
		}
	}
	s.measureUpdate(ctx, m)
}

// measureEdit notifies the observers that are an UpdateMeasurer of one edit or deletion
// and its error.
func (s *scheduler) measureEdit(ctx context.Context, kind UpdateKind, err error) {
	switch {
	case err == nil:
		s.measureUpdate(ctx, UpdateMeasurement{Kind: kind, Stored: 1})
	case errors.Is(err, ErrOptimisticLock):
		s.measureUpdate(ctx, UpdateMeasurement{Kind: kind, Conflicts: 1})
	}
}

func (s *scheduler) measureUpdate(ctx context.Context, m UpdateMeasurement) {
	if m.Stored+m.Conflicts == 0 {
		return
	}
	for _, o := range s.observers {
		if o, able := o.(UpdateMeasurer); able {
			s.guard(ctx, func() { o.MeasureUpdate(ctx, m) })
		}
	}
}
