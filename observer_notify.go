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
	s.notifyEach(ctx, len(notices), func(i int) Notice { return notices[i] })
}

// notifyEach is notify for many notices, numbered from 0. Each is made for the call of an
// observer, because a Notice is large.
func (s *scheduler) notifyEach(ctx context.Context, count int, notice func(i int) Notice) {
	if s.inTransaction() || len(s.observers) == 0 {
		return
	}
	n := len(s.observers)
	s.observe(ctx, n*count, func(i int) { s.observers[i%n].Observe(ctx, notice(i/n)) })
}

// observe calls the observers, each call numbered from 0. An observer that fails or blocks must not
// affect a change that is already stored. The i-th call is for the observer i modulo their number.
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
	s.notifyEach(ctx, len(events), func(i int) Notice { return Notice{Kind: kind, Event: events[i]} })
}

// notifyEdit notifies the observers of an edit of a roster.
func (s *scheduler) notifyEdit(ctx context.Context, before Roster, stored Edit) {
	if len(s.observers) == 0 {
		return
	}
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
	from := before.byID()
	for _, e := range stored.Changed {
		all = append(all, Notice{Kind: noticeOf(from[e.ID].Status, &e), Event: e})
	}
	for _, e := range stored.New {
		all = append(all, Notice{Kind: noticeOf("", &e), Event: e})
	}
	for _, e := range stored.Removed {
		all = append(all, Notice{Kind: EventRemoved, Event: e})
	}
	s.notify(ctx, all...)
}

// settledNotice is what a notice of a settled batch is made from.
type settledNotice struct {
	kind    NoticeKind
	event   *Event
	outcome *Outcome // of an event that was released, cancelled or failed; otherwise nil
	err     error
}

// notifySettled notifies the observers of a settled batch.
func (s *scheduler) notifySettled(ctx context.Context, batch []Settlement, settled []SettleResult) {
	all := make([]settledNotice, 0, 2*len(settled))
	for i := range settled {
		r := &settled[i]
		if r.Err != nil {
			continue
		}
		n := settledNotice{kind: noticeOf(batch[i].Event.Status, &r.Event), event: &r.Event}
		if r.Event.Status != Completed {
			o := batch[i].Outcome // a copy, because an observer may be called when the batch is gone
			n.outcome = &o
		}
		all = append(all, n)
		if r.Successor != nil {
			all = append(all, settledNotice{kind: EventCreated, event: r.Successor})
		}
		for k := range r.Followed {
			all = append(all, settledNotice{kind: EventCreated, event: &r.Followed[k]})
		}
		if r.Stalled != nil {
			all = append(all, settledNotice{kind: SeriesStalled, event: &r.Event, err: r.PlanErr})
		}
		if r.FollowErr != nil {
			all = append(all, settledNotice{kind: FollowUpsLost, event: &r.Event, err: r.FollowErr})
		}
	}
	s.notifyEach(ctx, len(all), func(i int) Notice {
		n := Notice{Kind: all[i].kind, Event: *all[i].event, Err: all[i].err}
		if all[i].outcome != nil {
			n.explain(*all[i].outcome)
		}
		return n
	})
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

// notifyReleased notifies the observers of released events. Events of a deleted user have ended instead.
func (s *scheduler) notifyReleased(ctx context.Context, events []Event, cause ReleaseCause) {
	s.notifyEach(ctx, len(events), func(i int) Notice {
		n := Notice{Kind: noticeOf(Processing, &events[i]), Event: events[i]}
		n.explain(Outcome{Status: Pending, Cause: cause})
		return n
	})
}

// noticeOf returns the kind of notice for an event that was stored with the status from and
// is now stored as to. The status "" means that the event was not stored before.
func noticeOf(from Status, to *Event) NoticeKind {
	switch {
	case to.Status == Completed:
		return EventCompleted
	case to.Status == Failed:
		return EventFailed
	case to.Status == Cancelled:
		return EventCancelled
	case from == Processing:
		return EventReleased
	case from == Pending:
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
	for i := range settled {
		switch err := settled[i].Err; {
		case err == nil:
			m.Stored++
		case errors.Is(err, ErrLeaseLost):
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
