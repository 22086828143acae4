package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Operation names what [Operate] does to each event.
type Operation string

// The operations.
const (
	Cancel  Operation = "cancel"  // see [almanac.Operator].Cancel
	RunNow  Operation = "run-now" // see [almanac.Operator].RunNow
	Requeue Operation = "requeue" // see [almanac.Operator].Requeue
)

// of returns the status of the events that an operation applies to.
func (o Operation) of() (almanac.Status, error) {
	switch o {
	case Cancel, RunNow:
		return almanac.Pending, nil
	case Requeue:
		return almanac.Failed, nil
	}
	return "", invalid("operation", "is none of cancel, run-now and requeue")
}

func invalid(field, problem string) error {
	return &almanac.ValidationError{Fields: []almanac.FieldError{{Field: field, Problem: problem}}}
}

// OperateOptions are options of [Operate].
type OperateOptions struct {
	// Limit is the most events to process, 1 to 1,000,000. Zero means 1,000.
	Limit int
	// DryRun changes nothing, and returns the events that the operation would be applied to.
	DryRun bool
	// Cancel has the options of the operation Cancel. Its Version is ignored.
	Cancel almanac.CancelOptions
	// RunNow has the options of the operation RunNow.
	RunNow almanac.ForceOptions
	// Requeue has the options of the operation Requeue.
	Requeue almanac.ForceOptions
	// Progress, if not nil, is called after each 1,000 events with the result so far.
	Progress func(OperateResult)
}

// OperateResult is the result of an operation on many events.
type OperateResult struct {
	Events  []almanac.Event // as stored; in a dry run, unchanged and without their payloads
	Refused []almanac.Refusal
	More    bool // whether the limit was reached and more events match
	// Unplanned is how many cancelled events left their successor to another program; see
	// [almanac.CancelResult].
	Unplanned int
	// RequeuedBefore is how many FAILED events the operation Requeue left out because they
	// were requeued before. They do not count towards the limit.
	RequeuedBefore int
}

const (
	defaultLimit = 1000
	maxLimit     = 1_000_000
	pageSize     = 1000 // the most that a page can have
)

// Operate applies an operation to the events that match spec, in order of creation, up to 1,000
// in one transaction. Each event has the result that the operation would have on it alone (see
// [almanac.Operator].CancelEvents). A nil spec matches every event. Cancel and RunNow apply to PENDING
// events, and Requeue to FAILED events that were not requeued before. To requeue a CANCELLED
// event, call the Requeue of the scheduler with its id.
//
// An event that cannot be changed, or whose successor cannot be planned, is listed in
// Refused, and the others are processed. After an error of the repository, Operate processes no
// further transaction, and returns the error with the result so far. A call after an error or an
// interruption continues: an event that was cancelled or requeued no longer matches. The error is an [*almanac.ValidationError]
// if an argument is invalid, or if RunNow refuses its options whatever the event is.
func Operate(ctx context.Context, s almanac.Scheduler, what Operation, spec almanac.Spec, options OperateOptions) (OperateResult, error) {
	status, err := what.of()
	if err != nil {
		return OperateResult{}, err
	}
	if options.Limit < 0 || options.Limit > maxLimit {
		return OperateResult{}, invalid("limit", "is not between 1 and 1000000")
	}
	options.Limit = cmp.Or(options.Limit, defaultLimit)
	if what == RunNow {
		// No event has this id. RunNow checks its options before it looks for the event.
		if _, err := s.RunNow(ctx, uuid.Nil, options.RunNow); !errors.Is(err, almanac.ErrNotFound) {
			return OperateResult{}, err
		}
	}
	options.Cancel.Version = 0
	picked := almanac.And{almanac.InStatus(status)}
	if spec != nil {
		picked = append(picked, spec)
	}
	o := operator{s, what, options}
	var done OperateResult
	found, requeued, err := o.pick(ctx, picked)
	if done.RequeuedBefore = requeued; err != nil {
		return done, err
	}
	if done.More = len(found) > options.Limit; done.More {
		found = found[:options.Limit]
	}
	for part := range slices.Chunk(found, pageSize) {
		if err := o.operate(ctx, part, &done); err != nil {
			return done, err
		}
		if options.Progress != nil {
			options.Progress(done)
		}
	}
	return done, nil
}

// operator applies an operation to events.
type operator struct {
	scheduler almanac.Scheduler
	what      Operation
	options   OperateOptions
}

// pick returns the first events that match spec, at most one more than the limit, and how
// many were left out because they were requeued before. It finds all of them before the
// operation begins, because the operation stores new events that may match too.
func (o operator) pick(ctx context.Context, spec almanac.Spec) (picked []almanac.Event, requeued int, err error) {
	limit, repository := o.options.Limit+1, o.scheduler.Repository()
	for page := (almanac.Page{Limit: min(pageSize, limit)}); len(picked) < limit; {
		found, err := repository.Find(ctx, spec, page)
		if err != nil {
			return nil, requeued, err
		}
		var before []uuid.UUID
		if o.what == Requeue {
			if before, err = repository.Requeued(ctx, found.Items); err != nil {
				return nil, requeued, err
			}
		}
		for _, e := range found.Items {
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

// operate applies the operation to a page of events, and adds to the result. It returns the first error that is no refusal.
func (o operator) operate(ctx context.Context, events []almanac.Event, done *OperateResult) (failed error) {
	if o.options.DryRun {
		done.Events = append(done.Events, events...)
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	stored, unplanned, errs := o.operateOn(ctx, events)
	for i, err := range errs {
		switch {
		case err == nil:
			if unplanned[i] {
				done.Unplanned++
			}
			done.Events = append(done.Events, stored[i])
		case IsRefusal(err):
			done.Refused = append(done.Refused, almanac.Refusal{EventID: events[i].ID, Err: err})
		case failed == nil && ctx.Err() != nil:
			failed = ctx.Err()
		case failed == nil:
			failed = fmt.Errorf("almanac: %s event %s: %w", o.what, events[i].ID, err)
		}
	}
	return failed
}

// operateOn applies the operation to events. It reports which successors are left to another program.
func (o operator) operateOn(ctx context.Context, list []almanac.Event) (stored []almanac.Event, unplanned []bool, errs []error) {
	ids := make([]uuid.UUID, len(list))
	for i, e := range list {
		ids[i] = e.ID
	}
	unplanned = make([]bool, len(list))
	switch o.what {
	case Cancel:
		var results []almanac.CancelResult
		results, errs = o.scheduler.CancelEvents(ctx, ids, o.options.Cancel)
		for i, one := range results {
			stored, unplanned[i] = append(stored, one.Event), one.Unplanned
		}
	case RunNow:
		stored, errs = o.scheduler.RunEventsNow(ctx, ids, o.options.RunNow)
	default:
		stored, errs = o.scheduler.RequeueEvents(ctx, ids, o.options.Requeue)
	}
	return stored, unplanned, errs
}

// IsRefusal reports whether an error of an operation on one event says that this event cannot
// be changed. Other errors are those of the repository, and other events fail alike.
func IsRefusal(err error) bool {
	for _, about := range []error{
		almanac.ErrNotFound, almanac.ErrInvalidStateTransition, almanac.ErrOptimisticLock, almanac.ErrExists,
		almanac.ErrOptedOut, almanac.ErrUnsupportedEventType, almanac.ErrLocked,
	} {
		if errors.Is(err, about) {
			return true
		}
	}
	return errors.As(err, new(*almanac.SuccessorError))
}
