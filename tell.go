package almanac

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
)

// tell lets the observers hear of a change that is committed. Through a
// repository that is bound to the host's transaction nothing is committed yet, and
// nobody is told.
func (s *scheduler) tell(ctx context.Context, n Notice) {
	if s.inTransaction() {
		return
	}
	for _, o := range s.observers {
		s.guard(ctx, func() { o.Observe(ctx, n) })
	}
}

// guard keeps an observer that panics from harming what is already stored.
func (s *scheduler) guard(ctx context.Context, observe func()) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.ErrorContext(ctx, "observer panicked", slog.Any("error", cause), slog.String("stack", string(debug.Stack())))
		}
	}()
	observe()
}

func (s *scheduler) tellEvents(ctx context.Context, kind NoticeKind, events []Event) {
	for _, e := range events {
		s.tell(ctx, Notice{Kind: kind, Event: e})
	}
}

// tellEdit tells what an edit of a user did.
func (s *scheduler) tellEdit(ctx context.Context, was User, stored Edit) {
	if is := stored.User; is != nil {
		if !is.Timezone.Equal(was.Timezone) {
			s.tell(ctx, Notice{Kind: UserTimezoneChanged, User: *is, Was: was})
		}
		if is.DateOfBirth != was.DateOfBirth {
			s.tell(ctx, Notice{Kind: UserBirthdayChanged, User: *is, Was: was})
		}
	}
	s.tellEvents(ctx, EventCancelled, stored.Cancelled)
	s.tellEvents(ctx, EventRescheduled, stored.Moved)
	s.tellEvents(ctx, EventRescheduled, stored.Hurried)
	s.tellEvents(ctx, EventCreated, stored.Added)
	s.tellEvents(ctx, EventRequeued, stored.Requeued)
	s.tellEvents(ctx, EventRemoved, stored.Removed)
}

// tellSettled tells what settling a batch did.
func (s *scheduler) tellSettled(ctx context.Context, batch []Settlement, settled []Settled) {
	for i, r := range settled {
		if r.Err != nil {
			continue
		}
		n := Notice{Kind: kindOf(r.Event.Status), Event: r.Event}
		if n.Kind == EventReleased {
			n.Cause = batch[i].Outcome.Cause
		}
		s.tell(ctx, n)
		if r.Successor != nil {
			s.tell(ctx, Notice{Kind: EventCreated, Event: *r.Successor})
		}
		s.tellEvents(ctx, EventCreated, r.Followed)
	}
}

// tellReleased tells what became of events that were given back: those of a deleted
// user have ended.
func (s *scheduler) tellReleased(ctx context.Context, events []Event, cause ReleaseCause) {
	for _, e := range events {
		n := Notice{Kind: kindOf(e.Status), Event: e}
		if n.Kind == EventReleased {
			n.Cause = cause
		}
		s.tell(ctx, n)
	}
}

// kindOf names the notice of an event that has just left PROCESSING.
func kindOf(s Status) NoticeKind {
	switch s {
	case Completed:
		return EventCompleted
	case Failed:
		return EventFailed
	case Cancelled:
		return EventCancelled
	default:
		return EventReleased
	}
}

// measureClaim notifies the observers that measure claims.
func (s *scheduler) measureClaim(ctx context.Context, m ClaimMeasurement) {
	for _, o := range s.observers {
		if o, able := o.(ClaimMeasurer); able {
			s.guard(ctx, func() { o.MeasureClaim(ctx, m) })
		}
	}
}

// measureOutcomes notifies the observers that measure updates of what settling a batch
// stored.
func (s *scheduler) measureOutcomes(ctx context.Context, settled []Settled) {
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

// measureEdit notifies them of one edit or deletion, by the error that it ended with.
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
