package almanac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
)

// CancelOptions are options of [Operator].Cancel.
type CancelOptions struct {
	// Reason is stored as the event's FailureReason, cut to 1,000 bytes. It may be empty.
	Reason string
	// Version is the version of the event that is cancelled. If the stored event has another version,
	// nothing is cancelled, and the error is an [*OptimisticLockError]. Zero means any version.
	Version int
	// EndSeries plans no successor of the event. The series continues when a program that
	// has the handler next edits, reschedules or backfills the user.
	EndSeries bool
}

// ForceOptions are options of [Operator].RunNow and [Operator].Requeue. The zero ForceOptions
// means the defaults.
type ForceOptions struct {
	// Force makes RunNow deliver an event in the user's quiet hours too. It is then on time, and is
	// delivered at once. An event that has failed before, or whose instant has passed, still waits for
	// the end of the quiet hours. In a program without [WithWindow], Force is required if another
	// program has stored quiet hours (see [Setting]). Without it, the error is a [*ValidationError].
	// If this program has no handler of the type, Force also makes RunNow accept an event whose user has opted
	// out of the type. The event then ends as CANCELLED, unless its handler overrides opt-outs.
	//
	// It makes Requeue deliver the event whatever its user has opted out of, now or later, and in
	// the user's quiet hours too. Without it, an event is refused if the user has opted out of
	// its type, and an event whose channel the user refuses ends as CANCELLED.
	Force bool
}

// CancelResult is the result of cancelling an event.
type CancelResult struct {
	Event     Event  // as stored, CANCELLED
	Successor *Event // the next event of the series; nil if there is none
	// Unplanned is true if this program has no handler for the type, or another calendar of the same
	// release than the database. The successor is then left to a program that can plan it.
	Unplanned bool
}

func (s *scheduler) Cancel(ctx context.Context, id uuid.UUID, options CancelOptions) (CancelResult, error) {
	zones, err := s.zoneView(ctx)
	if err != nil {
		return CancelResult{}, err
	}
	var unplanned bool
	edit, err := s.editEvent(ctx, id, Cancelled, func(r Roster, e Event) (Edit, error) {
		if options.Version != 0 && options.Version != e.Version {
			return Edit{}, &OptimisticLockError{EventID: id, Expected: options.Version}
		}
		unplanned = false
		done, err := e.Cancel(options.Reason)
		if err != nil || options.EndSeries || e.detached() {
			return Edit{Changed: []Event{done}}, err
		}
		h, err := s.registry.Handler(e.Type)
		if errors.Is(err, ErrUnsupportedEventType) {
			unplanned, done.Unplanned = true, true
			return Edit{Changed: []Event{done}}, nil
		}
		if err != nil {
			return Edit{}, err
		}
		e.UsedBefore = r.Used[SeriesOf(e)]
		next, err := guarded(s.guard(ctx, e.UserID), "planning the successor of", e.Type, func() (Event, error) { return successor(h, &e, &r.User, r.Now) })
		if err == nil {
			err = zones.permits(next)
		}
		switch {
		case errors.Is(err, calendar.ErrNoOccurrence):
			return Edit{Changed: []Event{done}}, nil
		case isReleaseError(err):
			unplanned, done.Unplanned = true, true
			return Edit{Changed: []Event{done}}, nil
		case err != nil:
			return Edit{}, &SuccessorError{id, err}
		}
		return Edit{Changed: []Event{done}, New: []Event{zones.stamp(next)}}, nil
	})
	if err != nil {
		return CancelResult{}, err
	}
	c := CancelResult{Event: edit.Changed[0], Unplanned: unplanned}
	if len(edit.New) > 0 {
		c.Successor = &edit.New[0]
	}
	return c, nil
}

func (s *scheduler) RunNow(ctx context.Context, id uuid.UUID, options ForceOptions) (Event, error) {
	if err := s.checkQuietHours(ctx, options); err != nil {
		return Event{}, err
	}
	zones, err := s.zoneView(ctx)
	if err != nil {
		return Event{}, err
	}
	var as Event
	edit, err := s.editEvent(ctx, id, Processing, func(r Roster, e Event) (Edit, error) {
		at, err := s.runAt(s.guard(ctx, e.UserID), r, e, options)
		if err != nil {
			return Edit{}, err
		}
		next, err := e.RunNow(at)
		if as = next; err != nil || next.Version == e.Version {
			return Edit{}, err
		}
		_, err = s.registry.Handler(e.Type)
		if (err == nil || !options.Force) && !next.Origin.Forced && s.refuses(r.User, next, at) { // its attempt would use its key
			return Edit{}, optedOut(r.User, e.Type)
		}
		if next.ClaimCount == 0 && zones.differs(next.Zone) { // this program cannot know what clocks show there now
			next.Wall, next.Zone = calendar.WallTimeOf(next.Due), "UTC"
		}
		return Edit{Changed: []Event{next}}, nil
	})
	for _, e := range edit.Changed {
		as = e
	}
	return as, err
}

// editEvent edits one open event, and notifies observers. It is an edit of the event's user, so it
// takes locks in the same order as every edit. In the roster, an event that is claimed ahead of its
// instant is PENDING.
func (s *scheduler) editEvent(ctx context.Context, id uuid.UUID, to Status, edit func(Roster, Event) (Edit, error)) (Edit, error) {
	e, err := s.repository.Event(ctx, id)
	if err != nil {
		return Edit{}, err
	}
	if e.Status.Terminal() {
		return Edit{}, &InvalidStateTransitionError{id, e.Status, to}
	}
	var before Roster
	stored, err := s.repository.EditUser(ctx, e.UserID, func(r Roster) (Edit, error) {
		before = r
		open := slices.Concat(r.Pending, r.InFlight)
		i := slices.IndexFunc(open, func(one Event) bool { return one.ID == id })
		switch {
		case i < 0: // it ended after Event returned it
			return Edit{}, &OptimisticLockError{EventID: id, Expected: e.Version}
		case open[i].Status != Pending:
			return Edit{}, &InvalidStateTransitionError{id, open[i].Status, to}
		}
		return edit(r, open[i])
	})
	s.measureEdit(ctx, MeasuredEvent, err)
	if err != nil {
		return Edit{}, err
	}
	s.notifyEdit(ctx, before, stored)
	s.running.wakeFor(slices.Concat(stored.Changed, stored.New)...)
	return stored, nil
}

func (s *scheduler) Requeue(ctx context.Context, id uuid.UUID, options ForceOptions) (Event, error) {
	e, err := s.repository.Event(ctx, id)
	if err != nil {
		return Event{}, err
	}
	fresh, err := uuid.NewV7()
	if err != nil {
		return Event{}, fmt.Errorf("almanac: new event id: %w", err)
	}
	var before Roster
	stored, err := s.repository.EditUser(ctx, e.UserID, func(r Roster) (Edit, error) {
		before = r
		again, err := e.Requeue(stamped(fresh, ticksOf(r.Now)), r.Now)
		again.Origin.Forced = options.Force
		if err == nil && !options.Force && s.refuses(r.User, again, r.Now) {
			err = optedOut(r.User, e.Type)
		}
		return Edit{New: []Event{again}}, err
	})
	if err != nil {
		return Event{}, err
	}
	if len(stored.New) == 0 {
		return Event{}, s.requeuedBefore(ctx, e, before)
	}
	s.notifyEdit(ctx, before, stored)
	s.running.wakeFor(stored.New...)
	return stored.New[0], nil
}

// Pause is a pause of a type of event.
type Pause struct {
	Lane string // the name of a [Lane]: an event type, or another one
	// Reason is why. It may be empty, and is cut to 1,000 bytes.
	Reason string
	// Author is who asked for it: the principal (see [WithPrincipal]), or else the user of the database. It is
	// "breaker" if the lane's receiver has failed for too long (see [Execution].PauseAfter), and "" if unknown.
	// [Operator].Pause ignores it.
	Author string
	// Since is when it began, UTC. [Operator].Pause ignores it.
	Since time.Time
	// Until is when it ends, before the year 10000. Zero means that it lasts until [Operator].Resume.
	Until time.Time
}

// Checked returns the pause with its reason cut to 1,000 bytes. The error is a [*ValidationError] that names all
// fields that are wrong.
func (p Pause) Checked() (Pause, error) {
	var bad []FieldError
	if problem := nameProblem(p.Lane); problem != "" {
		bad = append(bad, FieldError{Field: "lane", Problem: problem})
	}
	if year := p.Until.UTC().Year(); year < 1 || year > 9999 {
		bad = append(bad, FieldError{Field: "until", Problem: fmt.Sprintf("is in the year %d, and not in 1 to 9999", year)})
	}
	if bad != nil {
		return p, &ValidationError{bad}
	}
	p.Reason = storable(p.Reason)
	return p, nil
}

func (s *scheduler) RequeueEach(ctx context.Context, requeue func(func([]Event, time.Time) ([]Event, error)) ([]Event, error)) ([]Event, error) {
	stored, err := requeue(func(events []Event, now time.Time) ([]Event, error) {
		again := make([]Event, len(events))
		for i, e := range events {
			id, err := uuid.NewV7()
			if err == nil {
				again[i], err = e.Requeue(stamped(id, ticksOf(now)), now)
			}
			if err != nil {
				return nil, err
			}
		}
		return again, nil
	})
	s.notifyEvents(ctx, EventRequeued, stored)
	s.running.wakeFor(stored...)
	return stored, err
}

func (s *scheduler) CancelEach(ctx context.Context, cancel func() ([]Event, error)) ([]Event, error) {
	events, err := cancel()
	s.notifyEvents(ctx, EventCancelled, events)
	return events, err
}

func (s *scheduler) Pause(ctx context.Context, p Pause) error {
	p, err := p.Checked()
	if err != nil {
		return err
	}
	if !p.Until.IsZero() {
		now, err := s.repository.Now(ctx)
		if err != nil {
			return err
		}
		if !p.Until.After(now) {
			return &ValidationError{[]FieldError{{Field: "until", Problem: fmt.Sprintf("is %s, which has passed", p.Until.UTC().Format(time.RFC3339))}}}
		}
	}
	if err := s.knowsLane(p.Lane); err != nil {
		return err
	}
	return s.repository.Pause(ctx, p)
}

func (s *scheduler) Resume(ctx context.Context, eventType string) error {
	if _, err := (Pause{Lane: eventType}).Checked(); err != nil {
		return err
	}
	if err := s.repository.Resume(ctx, eventType); err != nil {
		return err
	}
	s.running.wake()
	return nil
}

func (s *scheduler) Paused(ctx context.Context) ([]Pause, error) {
	return s.repository.Paused(ctx)
}
