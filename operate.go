package almanac

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// Operator changes what became of single events, as people who operate a program
// have to now and then. In a host's transaction it is part of that.
type Operator interface {
	// Cancel ends a pending event before it is delivered. The event becomes CANCELLED, its
	// occurrence is used, and its series goes on with the next one. When this program has
	// no handler for the type, the next event is left to a program that has it: [Scheduler].Run
	// of such a program plans it within a [WithSweep]. The error is a [*NotFoundError]
	// when there is no such event, an [*InvalidStateTransitionError] when it has begun or
	// ended, and an [*OptimisticLockError] when it ended just now.
	Cancel(ctx context.Context, id uuid.UUID, how Cancel) (CancelResult, error)

	// RunNow makes a pending event due at once, whatever its instant was, or available at
	// once where it rests before another attempt. Its identity and its idempotency key
	// stay, and the series goes on from the next occurrence. A profile edit that comes
	// before it is claimed puts it back. Errors are those of Cancel.
	RunNow(ctx context.Context, id uuid.UUID) (Event, error)

	// Requeue delivers a FAILED event once more, or a CANCELLED one after all. It stores a
	// new event, see [Event.Requeue], since what has ended never changes. The error is a
	// [*NotFoundError] when there is no such event, an [*InvalidStateTransitionError] when
	// it is neither FAILED nor CANCELLED, and matches [ErrExists] when it was requeued
	// already: then requeue the event that came of it.
	Requeue(ctx context.Context, id uuid.UUID) (Event, error)

	// Operate does one of these to the events that match spec, each in a transaction of
	// its own, in order of creation. It looks at PENDING events to cancel them or run them
	// now, and at FAILED events to requeue them: a CANCELLED event is requeued by its id
	// alone. Those that cannot be changed are reported and hold up nobody; an
	// error of the repository ends it, and comes back with the count of what is done.
	Operate(ctx context.Context, what Operation, spec Spec, how Operate) (Operated, error)
}

// Cancel says how an event is cancelled.
type Cancel struct {
	// Reason is stored as the event's FailureReason, cut to 1,000 bytes. It may be empty.
	Reason string
	// Version is the version of the event that is meant. If it is at another by then,
	// nothing is cancelled and the error is an [*OptimisticLockError]. Zero means
	// whatever version it is at.
	Version int
	// EndSeries plans nothing after the event. The series goes on when the user is next
	// edited, rescheduled or backfilled by a program that has the handler.
	EndSeries bool
}

// CancelResult is what cancelling an event did.
type CancelResult struct {
	Event     Event  // as stored, CANCELLED
	Successor *Event // the next of its series; nil if there is none
	// Unplanned says that this program has no handler for the type, so that the next event
	// of the series is left to a program that has it.
	Unplanned bool
}

// Operation is something to do to many events.
type Operation string

// The operations.
const (
	OperationCancel  Operation = "cancel"  // see [Operator].Cancel
	OperationRunNow  Operation = "run-now" // see [Operator].RunNow
	OperationRequeue Operation = "requeue" // see [Operator].Requeue
)

// of returns the status of the events that an operation is for.
func (o Operation) of() (Status, error) {
	switch o {
	case OperationCancel, OperationRunNow:
		return Pending, nil
	case OperationRequeue:
		return Failed, nil
	}
	return "", &ValidationError{[]FieldError{{Field: "operation", Problem: "is none of cancel, run-now and requeue"}}}
}

// Operate says how an operation is done to many events.
type Operate struct {
	// Limit is the most events to look at, 1 to 1,000,000. Zero means 1,000.
	Limit int
	// DryRun changes nothing and answers with the events that would be tried.
	DryRun bool
	// Cancel says how events are cancelled; its Version does not count.
	Cancel Cancel
	// Progress, if not nil, hears after each thousand events what is done so far.
	Progress func(Operated)
}

// Operated says what an operation has come to.
type Operated struct {
	Events  []Event // as stored; in a dry run, as they are, without their payloads
	Refused []EventRefusal
	More    bool // whether the limit was reached, so that there may be more
	// Unplanned is how many of the cancelled events have their successor left to a program
	// that has the handler; see [CancelResult].
	Unplanned int
}

// EventRefusal says which event could not be changed, and why.
type EventRefusal struct {
	EventID uuid.UUID
	Err     error
}

const (
	defaultOperate = 1000
	maxOperate     = 1_000_000
)

func (s *scheduler) Cancel(ctx context.Context, id uuid.UUID, how Cancel) (CancelResult, error) {
	zones, err := s.zoneView(ctx)
	if err != nil {
		return CancelResult{}, err
	}
	edit, err := s.editEvent(ctx, id, Cancelled, func(r Roster, e Event) (Edit, error) {
		if how.Version != 0 && how.Version != e.Version {
			return Edit{}, &OptimisticLockError{EventID: id, Expected: how.Version}
		}
		done, err := e.Cancel(how.Reason)
		if err != nil || how.EndSeries || e.detached() {
			return Edit{Cancelled: []Event{done}}, err
		}
		h, err := s.registry.Handler(e.Type)
		if errors.Is(err, ErrUnsupportedEventType) {
			return Edit{Cancelled: []Event{done}, Unplanned: []uuid.UUID{id}}, nil
		}
		if err != nil {
			return Edit{}, err
		}
		next, err := guarded("planning the successor of "+e.Type, func() (Event, error) { return successor(h, done, r.User, r.Now) })
		if errors.Is(err, ErrNoOccurrence) {
			return Edit{Cancelled: []Event{done}}, nil
		}
		return Edit{Cancelled: []Event{done}, Added: []Event{zones.stamp(next)}}, err
	})
	if err != nil {
		return CancelResult{}, err
	}
	c := CancelResult{Event: edit.Cancelled[0], Unplanned: len(edit.Unplanned) > 0}
	if len(edit.Added) > 0 {
		c.Successor = &edit.Added[0]
	}
	return c, nil
}

func (s *scheduler) RunNow(ctx context.Context, id uuid.UUID) (Event, error) {
	zones, err := s.zoneView(ctx)
	if err != nil {
		return Event{}, err
	}
	var as Event
	edit, err := s.editEvent(ctx, id, Processing, func(r Roster, e Event) (Edit, error) {
		next, err := e.RunNow(r.Now)
		if as = next; err != nil || next.Version == e.Version {
			return Edit{}, err
		}
		if next.ClaimCount > 0 {
			return Edit{Hurried: []Event{next}}, nil
		}
		if zones.differs(next.Zone) { // what clocks show there now is not for this program to say
			next.Wall, next.Zone = WallTimeOf(next.Due), "UTC"
		}
		return Edit{Moved: []Event{next}}, nil
	})
	for _, e := range slices.Concat(edit.Moved, edit.Hurried) {
		as = e
	}
	return as, err
}

// editEvent edits one open event, and tells of it. The roster shows it as it is once
// nobody holds it ahead of its instant any more.
func (s *scheduler) editEvent(ctx context.Context, id uuid.UUID, to Status, edit func(Roster, Event) (Edit, error)) (Edit, error) {
	e, err := s.repository.Event(ctx, id)
	if err != nil {
		return Edit{}, err
	}
	if e.Status.Terminal() {
		return Edit{}, &InvalidStateTransitionError{id, e.Status, to}
	}
	var was User
	stored, err := s.repository.EditUser(ctx, e.UserID, func(r Roster) (Edit, error) {
		was = r.User
		open := slices.Concat(r.Pending, r.InFlight)
		i := slices.IndexFunc(open, func(one Event) bool { return one.ID == id })
		switch {
		case i < 0: // it ended since it was looked at
			return Edit{}, &OptimisticLockError{EventID: id, Expected: e.Version}
		case open[i].Status != Pending:
			return Edit{}, &InvalidStateTransitionError{id, open[i].Status, to}
		}
		return edit(r, open[i])
	})
	s.measureEdit(ctx, UpdateEvent, err)
	if err != nil {
		return Edit{}, err
	}
	s.tellEdit(ctx, was, stored)
	s.running.wakeFor(slices.Concat(stored.Moved, stored.Hurried, stored.Added)...)
	return stored, nil
}

func (s *scheduler) Requeue(ctx context.Context, id uuid.UUID) (Event, error) {
	e, err := s.repository.Event(ctx, id)
	if err != nil {
		return Event{}, err
	}
	fresh, err := uuid.NewV7()
	if err != nil {
		return Event{}, fmt.Errorf("almanac: new event id: %w", err)
	}
	var was User
	stored, err := s.repository.EditUser(ctx, e.UserID, func(r Roster) (Edit, error) {
		was = r.User
		again, err := e.Requeue(stamped(fresh, ticksOf(r.Now)), r.Now)
		return Edit{Requeued: []Event{again}}, err
	})
	if err != nil {
		return Event{}, err
	}
	if len(stored.Requeued) == 0 {
		return Event{}, fmt.Errorf("%w: event %s was requeued before", ErrExists, id)
	}
	s.tellEdit(ctx, was, stored)
	s.running.wakeFor(stored.Requeued...)
	return stored.Requeued[0], nil
}

func (s *scheduler) Operate(ctx context.Context, what Operation, spec Spec, how Operate) (Operated, error) {
	status, err := what.of()
	if err != nil {
		return Operated{}, err
	}
	if how.Limit < 0 || how.Limit > maxOperate {
		return Operated{}, &ValidationError{[]FieldError{{Field: "limit", Problem: "is not between 1 and 1000000"}}}
	}
	if how.Limit == 0 {
		how.Limit = defaultOperate
	}
	how.Cancel.Version = 0
	picked := And{InStatus(status)}
	if spec != nil {
		picked = append(picked, spec)
	}
	var done Operated
	found, err := s.pick(ctx, picked, how.Limit+1)
	if err != nil {
		return done, err
	}
	if done.More = len(found) > how.Limit; done.More {
		found = found[:how.Limit]
	}
	for part := range slices.Chunk(found, maxPage) {
		if err := s.operateOn(ctx, what, part, how, &done); err != nil {
			return done, err
		}
		if how.Progress != nil {
			how.Progress(done)
		}
	}
	return done, nil
}

// pick returns the first events that match spec, at most so many. All are found before
// anything is done to the first: what is done stores others that match.
func (s *scheduler) pick(ctx context.Context, spec Spec, limit int) ([]Event, error) {
	var picked []Event
	for page := (Page{}); len(picked) < limit; {
		page.Limit = min(maxPage, limit-len(picked))
		found, err := s.repository.Find(ctx, spec, page)
		if err != nil {
			return nil, err
		}
		for _, e := range found.Events {
			e.Payload = nil // many may have to be kept
			picked = append(picked, e)
		}
		if page.After = found.Next; page.After == "" {
			break
		}
	}
	return picked, nil
}

// operateOn does something to a page of events, and notes what came of it.
func (s *scheduler) operateOn(ctx context.Context, what Operation, events []Event, how Operate, done *Operated) error {
	for _, e := range events {
		stored, unplanned, err := e, false, error(nil)
		if !how.DryRun {
			stored, unplanned, err = s.operate(ctx, what, e.ID, how.Cancel)
		}
		switch {
		case err == nil:
			if unplanned {
				done.Unplanned++
			}
			done.Events = append(done.Events, stored)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalidStateTransition) || errors.Is(err, ErrOptimisticLock) ||
			errors.Is(err, ErrExists) || errors.Is(err, ErrUnsupportedEventType) || errors.Is(err, ErrLocked):
			done.Refused = append(done.Refused, EventRefusal{e.ID, err})
		default:
			return fmt.Errorf("almanac: %s event %s: %w", what, e.ID, err)
		}
	}
	return nil
}

// operate does something to one event, and reports whether its successor is left to
// another program.
func (s *scheduler) operate(ctx context.Context, what Operation, id uuid.UUID, how Cancel) (e Event, unplanned bool, err error) {
	switch what {
	case OperationCancel:
		done, err := s.Cancel(ctx, id, how)
		return done.Event, done.Unplanned, err
	case OperationRunNow:
		e, err = s.RunNow(ctx, id)
	default:
		e, err = s.Requeue(ctx, id)
	}
	return e, false, err
}
