package almanac

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/almanac-go/almanac/internal/isolate"
)

// notify notifies the observers of committed changes. In a transaction of the host it
// does nothing, because the changes are not committed yet.
func (s *scheduler) notify(ctx context.Context, notices ...Notice) {
	if s.inTransaction() || len(s.observers) == 0 {
		return
	}
	n := len(s.observers)
	s.observe(ctx, n*len(notices), func(i int) { s.observers[i%n].Observe(ctx, notices[i/n]) })
}

// observe calls the observers, each call numbered from 0. An observer that fails or blocks
// must not affect a change that is already stored. The i-th call is for the observer i
// modulo their number.
func (s *scheduler) observe(ctx context.Context, calls int, observe func(i int)) {
	errs := isolate.Run(s.running.host, isolate.Calls[error]{
		N:    calls,
		Name: func(i int) isolate.Name { return isolate.Name{Observer: i % len(s.observers)} },
		Call: func(i int) error { observe(i); return nil },
		Lost: func(_ int, err error) error { return err },
	})
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) > 0 {
		s.log.ErrorContext(ctx, "observer did not return", slog.Int("notices", len(errs)), slog.Any("error", errs[0]))
	}
}

func (s *scheduler) notifyEvents(ctx context.Context, kind NoticeKind, events []Event) {
	s.notify(ctx, noticesOf(kind, events)...)
}

func noticesOf(kind NoticeKind, events []Event) []Notice {
	notices := make([]Notice, len(events))
	for i, e := range events {
		notices[i] = Notice{Kind: kind, Event: e}
	}
	return notices
}

// notifyEdit notifies the observers of an edit of a roster.
func (s *scheduler) notifyEdit(ctx context.Context, before Roster, stored Edit) {
	was := before.User
	var all []Notice
	if is := stored.User; is != nil {
		if !is.Timezone.Equal(was.Timezone) {
			all = append(all, Notice{Kind: UserTimezoneChanged, User: *is, Was: was})
		}
		if is.DateOfBirth != was.DateOfBirth {
			all = append(all, Notice{Kind: UserBirthdayChanged, User: *is, Was: was})
		}
		if !slices.Equal(is.OptOuts, was.OptOuts) {
			all = append(all, Notice{Kind: UserOptOutsChanged, User: *is, Was: was})
		}
	}
	for _, e := range stored.Changed {
		from, _ := before.pending(e.ID)
		all = append(all, Notice{Kind: noticeOf(from, e), Event: e})
	}
	for _, e := range stored.New {
		all = append(all, Notice{Kind: noticeOf(Event{}, e), Event: e})
	}
	s.notify(ctx, append(all, noticesOf(EventRemoved, stored.Removed)...)...)
}

// notifySettled notifies the observers of a settled batch.
func (s *scheduler) notifySettled(ctx context.Context, batch []Settlement, settled []SettleResult) {
	var all []Notice
	for i, r := range settled {
		if r.Err != nil {
			continue
		}
		n := Notice{Kind: noticeOf(batch[i].Event, r.Event), Event: r.Event}
		n.explain(batch[i].Outcome)
		all = append(all, n)
		if r.Successor != nil {
			all = append(all, Notice{Kind: EventCreated, Event: *r.Successor})
		}
		all = append(all, noticesOf(EventCreated, r.Followed)...)
		if r.Stalled != nil {
			all = append(all, Notice{Kind: SeriesStalled, Event: r.Event, Err: r.PlanErr})
		}
		if r.FollowErr != nil {
			all = append(all, Notice{Kind: FollowUpsLost, Event: r.Event, Err: r.FollowErr})
		}
	}
	s.notify(ctx, all...)
}

// explain adds the cause of a release or a failure to the notice of an event that had this
// outcome. The release of an event of a deleted user is stored as a failure.
func (n *Notice) explain(o Outcome) {
	switch {
	case n.Kind == EventReleased:
		n.Cause = o.Cause
	case n.Kind == EventFailed && o.Status == Failed:
		n.Failure = o.Failure
	case n.Kind == EventFailed:
		n.Failure = FailedUserDeleted
	}
}

// notifyReleased notifies the observers of released events. Events of a deleted user have
// ended instead.
func (s *scheduler) notifyReleased(ctx context.Context, events []Event, cause ReleaseCause) {
	var all []Notice
	for _, e := range events {
		n := Notice{Kind: noticeOf(Event{Status: Processing}, e), Event: e}
		n.explain(Outcome{Status: Pending, Cause: cause})
		all = append(all, n)
	}
	s.notify(ctx, all...)
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

// measureOutcomes measures a settled batch.
func (s *scheduler) measureOutcomes(ctx context.Context, settled []SettleResult) {
	m := Measurement{Kind: MeasuredOutcome}
	for _, r := range settled {
		switch {
		case r.Err == nil:
			m.Stored++
		case errors.Is(r.Err, ErrLeaseLost):
			m.Conflicts++
		}
	}
	if m.Stored+m.Conflicts > 0 {
		s.measure(ctx, m)
	}
}

// measureEdit measures one edit or deletion, and its error.
func (s *scheduler) measureEdit(ctx context.Context, kind string, err error) {
	switch {
	case err == nil:
		s.measure(ctx, Measurement{Kind: kind, Stored: 1})
	case errors.Is(err, ErrOptimisticLock):
		s.measure(ctx, Measurement{Kind: kind, Conflicts: 1})
	}
}

// measure gives a measurement to the observers that are a Measurer.
func (s *scheduler) measure(ctx context.Context, m Measurement) {
	s.observe(ctx, len(s.observers), func(i int) {
		if o, able := s.observers[i].(Measurer); able {
			o.Measure(ctx, m)
		}
	})
}
