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
	// Version is the version of the event that is cancelled. If the stored event has
	// another version, nothing is cancelled, and the error is an [*OptimisticLockError].
	// Zero means any version.
	Version int
	// EndSeries plans no successor of the event. The series continues when a program that
	// has the handler next edits, reschedules or backfills the user.
	EndSeries bool
}

// RunNowOptions are options of [Operator].RunNow.
type RunNowOptions struct {
	// Force makes an event due in the user's quiet hours too. It is then on time, and is
	// delivered at once. An event that has failed before, or whose instant has passed, still
	// waits for the end of the quiet hours. In a program without
	// [WithQuietHours], Force is required if another program has stored quiet hours (see
	// [Setting]). Without it, the error is a [*ValidationError].
	Force bool
}

// RequeueOptions are options of [Operator].Requeue. The zero RequeueOptions means the
// defaults.
type RequeueOptions struct {
	// Force delivers the event whatever its user has opted out of, now or later, and in the
	// user's quiet hours too. Without it, an event is refused if the user has opted out of
	// its type, and an event whose channel the user refuses ends as CANCELLED.
	Force bool
}

// CancelResult is the result of cancelling an event.
type CancelResult struct {
	Event     Event  // as stored, CANCELLED
	Successor *Event // the next event of the series; nil if there is none
	// Unplanned is true if this program has no handler for the type. The successor is
	// then left to a program that has one.
	Unplanned bool
}

// Operation names what [Operator].Operate does to each event.
type Operation string

// The operations.
const (
	OperationCancel  Operation = "cancel"  // see [Operator].Cancel
	OperationRunNow  Operation = "run-now" // see [Operator].RunNow
	OperationRequeue Operation = "requeue" // see [Operator].Requeue
)

// of returns the status of the events that an operation applies to.
func (o Operation) of() (Status, error) {
	switch o {
	case OperationCancel, OperationRunNow:
		return Pending, nil
	case OperationRequeue:
		return Failed, nil
	}
	return "", &ValidationError{[]FieldError{{Field: "operation", Problem: "is none of cancel, run-now and requeue"}}}
}

// OperateOptions are options of [Operator].Operate.
type OperateOptions struct {
	// Limit is the most events to process, 1 to 1,000,000. Zero means 1,000.
	Limit int
	// DryRun changes nothing, and returns the events that the operation would be applied
	// to.
	DryRun bool
	// Cancel has the options of OperationCancel. Its Version is ignored.
	Cancel CancelOptions
	// RunNow has the options of OperationRunNow.
	RunNow RunNowOptions
	// Requeue has the options of OperationRequeue.
	Requeue RequeueOptions
	// Progress, if not nil, is called after each 1,000 events with the result so far.
	Progress func(OperateResult)
}

// OperateResult is the result of an operation on many events.
type OperateResult struct {
	Events  []Event // as stored; in a dry run, unchanged and without their payloads
	Refused []Refusal
	More    bool // whether the limit was reached and more events match
	// Unplanned is how many cancelled events left their successor to another program; see
	// [CancelResult].
	Unplanned int
	// RequeuedBefore is how many FAILED events OperationRequeue left out because they were
	// requeued before. They do not count towards the limit.
	RequeuedBefore int
}

const (
	defaultOperate = 1000
	maxOperate     = 1_000_000
)

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
		next, err := guarded("planning the successor of", e.Type, func() (Event, error) { return successor(h, e, r.User, r.Now) })
		switch {
		case errors.Is(err, calendar.ErrNoOccurrence):
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

func (s *scheduler) RunNow(ctx context.Context, id uuid.UUID, options RunNowOptions) (Event, error) {
	if err := s.checkQuietHours(ctx, options); err != nil {
		return Event{}, err
	}
	return s.runNow(ctx, id, options)
}

func (s *scheduler) runNow(ctx context.Context, id uuid.UUID, options RunNowOptions) (Event, error) {
	zones, err := s.zoneView(ctx)
	if err != nil {
		return Event{}, err
	}
	var as Event
	edit, err := s.editEvent(ctx, id, Processing, func(r Roster, e Event) (Edit, error) {
		next, err := e.RunNow(s.runAt(r, e, options))
		if as = next; err != nil || next.Version == e.Version {
			return Edit{}, err
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
	s.measureEdit(ctx, UpdateEvent, err)
	if err != nil {
		return Edit{}, err
	}
	s.notifyEdit(ctx, before, stored)
	s.running.wakeFor(slices.Concat(stored.Changed, stored.New)...)
	return stored, nil
}

func (s *scheduler) Requeue(ctx context.Context, id uuid.UUID, options RequeueOptions) (Event, error) {
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
		if err == nil && !options.Force && s.refusedBy(r.User, e.Type) {
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

func (s *scheduler) Operate(ctx context.Context, what Operation, spec Spec, options OperateOptions) (OperateResult, error) {
	status, err := what.of()
	if err != nil {
		return OperateResult{}, err
	}
	if options.Limit < 0 || options.Limit > maxOperate {
		return OperateResult{}, &ValidationError{[]FieldError{{Field: "limit", Problem: "is not between 1 and 1000000"}}}
	}
	if options.Limit == 0 {
		options.Limit = defaultOperate
	}
	if what == OperationRunNow {
		if err := s.checkQuietHours(ctx, options.RunNow); err != nil {
			return OperateResult{}, err
		}
	}
	options.Cancel.Version = 0
	picked := And{InStatus(status)}
	if spec != nil {
		picked = append(picked, spec)
	}
	var done OperateResult
	found, requeued, err := s.pick(ctx, what, picked, options.Limit+1)
	if done.RequeuedBefore = requeued; err != nil {
		return done, err
	}
	if done.More = len(found) > options.Limit; done.More {
		found = found[:options.Limit]
	}
	for part := range slices.Chunk(found, maxPage) {
		if err := s.operateOn(ctx, what, part, options, &done); err != nil {
			return done, err
		}
		if options.Progress != nil {
			options.Progress(done)
		}
	}
	return done, nil
}

// pick returns the first events that match spec, at most limit, and how many were left out
// because they were requeued before. It finds all of them before the operation begins, because
// the operation stores new events that may match too.
func (s *scheduler) pick(ctx context.Context, what Operation, spec Spec, limit int) (picked []Event, requeued int, err error) {
	for page := (Page{Limit: min(maxPage, limit)}); len(picked) < limit; {
		found, err := s.repository.Find(ctx, spec, page)
		if err != nil {
			return nil, requeued, err
		}
		var before []uuid.UUID
		if what == OperationRequeue {
			if before, err = s.repository.Requeued(ctx, found.Events); err != nil {
				return nil, requeued, err
			}
		}
		for _, e := range found.Events {
			if slices.Contains(before, e.ID) {
				requeued++
			} else if len(picked) < limit {
				e.Payload = nil // a million events may be kept in memory
				picked = append(picked, e)
			}
		}
		if page.After = found.Next; page.After == "" {
			break
		}
	}
	return picked, requeued, nil
}

// operateOn applies an operation to a page of events, and adds to the result.
func (s *scheduler) operateOn(ctx context.Context, what Operation, events []Event, options OperateOptions, done *OperateResult) error {
	for _, e := range events {
		stored, unplanned, err := e, false, error(nil)
		if !options.DryRun {
			stored, unplanned, err = s.operate(ctx, what, e.ID, options)
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
			errors.Is(err, ErrExists) || errors.Is(err, ErrOptedOut) || errors.Is(err, ErrUnsupportedEventType) || errors.Is(err, ErrLocked) ||
			errors.As(err, new(*SuccessorError)):
			done.Refused = append(done.Refused, Refusal{EventID: e.ID, Err: err})
		default:
			return fmt.Errorf("almanac: %s event %s: %w", what, e.ID, err)
		}
	}
	return nil
}

// operate applies an operation to one event. It reports whether the successor is left to
// another program.
func (s *scheduler) operate(ctx context.Context, what Operation, id uuid.UUID, options OperateOptions) (e Event, unplanned bool, err error) {
	switch what {
	case OperationCancel:
		done, err := s.Cancel(ctx, id, options.Cancel)
		return done.Event, done.Unplanned, err
	case OperationRunNow:
		e, err = s.runNow(ctx, id, options.RunNow)
	default:
		e, err = s.Requeue(ctx, id, options.Requeue)
	}
	return e, false, err
}

// Pause is a type of event whose delivery is paused.
type Pause struct {
	EventType string
	Since     time.Time // UTC
}

func (s *scheduler) Pause(ctx context.Context, eventType string) error {
	if err := checkEventType(eventType); err != nil {
		return err
	}
	if _, err := s.registry.Handler(eventType); err != nil {
		return err
	}
	return s.repository.Pause(ctx, eventType)
}

func (s *scheduler) Resume(ctx context.Context, eventType string) error {
	if err := checkEventType(eventType); err != nil {
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
