package almanac

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
)

// The errors that callers distinguish with [errors.Is]. The comments name the typed
// errors that match them.
var (
	ErrNotFound               = errors.New("almanac: not found")                      // *NotFoundError
	ErrExists                 = errors.New("almanac: exists already")                 // from CreateUser, Requeue and ScheduleAt
	ErrExternalIDTaken        = errors.New("almanac: external id is taken")           // *ExternalIDTakenError
	ErrInvalid                = errors.New("almanac: invalid input")                  // *ValidationError
	ErrInvalidDateOfBirth     = errors.New("almanac: invalid date of birth")          // *InvalidDateOfBirthError
	ErrDateOfBirthInFuture    = errors.New("almanac: date of birth is in the future") // *InvalidDateOfBirthError, which also matches ErrInvalidDateOfBirth
	ErrMaxRetriesExceeded     = errors.New("almanac: no attempt is left")             // *MaxRetriesExceededError
	ErrInvalidStateTransition = errors.New("almanac: invalid state transition")       // *InvalidStateTransitionError
	ErrOptimisticLock         = errors.New("almanac: changed since it was read")      // *OptimisticLockError
	ErrUnsupportedEventType   = errors.New("almanac: no handler for this event type") // *UnsupportedEventTypeError
	ErrNoDeliverer            = errors.New("almanac: no deliverer for this channel")
	ErrLeaseLost              = errors.New("almanac: lease lost: the event is no longer held")      // from Settle and Health.Err: the lease expired before the outcome was stored
	ErrLocked                 = errors.New("almanac: locked by another transaction")                // from CreateUser, Settle, edits and Backfill: try again later
	ErrOptedOut               = errors.New("almanac: user has opted out")                           // from Requeue, RunNow, Schedule and ScheduleAt
	ErrSnoozed                = errors.New("almanac: snoozed")                                      // see Snooze
	ErrPermanent              = errors.New("almanac: permanent failure")                            // see Permanent
	ErrNotOwed                = errors.New("almanac: not owed")                                     // see NotOwed
	ErrRunning                = errors.New("almanac: scheduler is running already")                 // from Runner.Run and RunOnce
	ErrOutdated               = errors.New("almanac: database is older than this program")          // from Runner.Run and RunOnce, see Verifier; and from every call before package postgres when a table is missing
	ErrNotRunning             = errors.New("almanac: scheduler is not running")                     // from Health.Err
	ErrStuck                  = errors.New("almanac: deliveries do not return")                     // from Health.Err: restart the process
	ErrHandedOn               = errors.New("almanac: handed on: another process settles the event") // see SettleResult.Err
)

// NotFoundError names the user or the event that does not exist.
type NotFoundError struct {
	Kind       string // "user" or "event"
	ID         uuid.UUID
	ExternalID string // the external id of the user that was looked for; then ID is zero
}

// Error leaves the external id out, because it is personal data.
func (e *NotFoundError) Error() string {
	if e.ExternalID != "" {
		return fmt.Sprintf("almanac: no %s with this external id", e.Kind)
	}
	return fmt.Sprintf("almanac: no %s %s", e.Kind, e.ID)
}

// Is makes errors.Is(err, ErrNotFound) hold.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// ExternalIDTakenError says that a user was not stored because another user has the same external id.
type ExternalIDTakenError struct {
	UserID     uuid.UUID // the user that was not stored
	Holder     uuid.UUID // the user that has the external id; zero if it could not be looked up
	ExternalID string
}

// Error names the external id, which is personal data, and the user who has it. UserID is left
// out, because a new user with that id was not stored.
func (e *ExternalIDTakenError) Error() string {
	holder := "another user"
	if e.Holder != uuid.Nil {
		holder = "user " + e.Holder.String()
	}
	return fmt.Sprintf("almanac: %s has the external id %q", holder, e.ExternalID)
}

// Is makes errors.Is(err, ErrExternalIDTaken) hold.
func (e *ExternalIDTakenError) Is(target error) bool { return target == ErrExternalIDTaken }

// FieldError describes one invalid field of an input.
type FieldError struct {
	Field   string // the name that the caller uses, such as "dateOfBirth"
	Problem string // the whole problem as a clause, such as "is in the future"
	Err     error  // the typed error of the field, if any; its text is not printed
}

// ValidationError lists every invalid field of an input. No part of the input was stored.
type ValidationError struct{ Fields []FieldError }

func (e *ValidationError) Error() string {
	problems := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		problems[i] = f.Field + " " + f.Problem
	}
	return "almanac: invalid input: " + strings.Join(problems, "; ")
}

// Is makes errors.Is(err, ErrInvalid) hold.
func (e *ValidationError) Is(target error) bool { return target == ErrInvalid }

// fieldsOf returns the fields of a [*calendar.InputError], and nil for any other error.
func fieldsOf(err error) []FieldError {
	if err == nil {
		return nil
	}
	var bad *calendar.InputError
	if !errors.As(err, &bad) {
		return nil
	}
	fields := make([]FieldError, len(bad.Problems))
	for i, p := range bad.Problems {
		fields[i] = FieldError{Field: p.Field, Problem: p.Problem}
	}
	return fields
}

// Unwrap returns the typed errors of the fields, for errors.Is and errors.As.
func (e *ValidationError) Unwrap() []error {
	var errs []error
	for _, f := range e.Fields {
		if f.Err != nil {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// SuccessorError says that an event was not cancelled because its successor cannot be planned. Err
// is the error of the planning, such as one that matches [calendar.ErrRejectedWallTime].
type SuccessorError struct {
	EventID uuid.UUID
	Err     error
}

func (e *SuccessorError) Error() string {
	return fmt.Sprintf("almanac: the successor of event %s cannot be planned: %v", e.EventID, e.Err)
}

// Unwrap returns the error of the planning.
func (e *SuccessorError) Unwrap() error { return e.Err }

// InvalidDateOfBirthError says why a value is no valid date of birth.
type InvalidDateOfBirthError struct {
	Value  string
	Reason string // the problem as a clause, such as "is in the future"
	Future bool   // whether the date is in the future in the user's zone
}

func (e *InvalidDateOfBirthError) Error() string {
	return fmt.Sprintf("almanac: date of birth %q %s", e.Value, e.Reason)
}

// Is makes errors.Is(err, ErrInvalidDateOfBirth) hold, and
// errors.Is(err, ErrDateOfBirthInFuture) if e.Future.
func (e *InvalidDateOfBirthError) Is(target error) bool {
	return target == ErrInvalidDateOfBirth || e.Future && target == ErrDateOfBirthInFuture
}

// MaxRetriesExceededError says that an event has no attempts left. [AttemptsLeft] returns it. When
// the last attempt of an event fails, the event is FAILED with the reason of that attempt instead.
type MaxRetriesExceededError struct {
	EventID uuid.UUID
	Failed  int // how many attempts have failed
	Limit   int // the most attempts
}

func (e *MaxRetriesExceededError) Error() string {
	return fmt.Sprintf("%d of %d attempts have failed", e.Failed, e.Limit)
}

// Is makes errors.Is(err, ErrMaxRetriesExceeded) hold.
func (e *MaxRetriesExceededError) Is(target error) bool { return target == ErrMaxRetriesExceeded }

// InvalidStateTransitionError names a transition of an event that was refused.
type InvalidStateTransitionError struct {
	EventID  uuid.UUID
	From, To Status
}

func (e *InvalidStateTransitionError) Error() string {
	switch {
	case e.From == Pending && e.To == Pending:
		return fmt.Sprintf("almanac: event %s is PENDING: it cannot be requeued, and keeps its instant if it was ever claimed", e.EventID)
	case e.From == e.To:
		return fmt.Sprintf("almanac: event %s is %s already", e.EventID, e.From)
	}
	return fmt.Sprintf("almanac: event %s: invalid state transition from %s to %s", e.EventID, e.From, e.To)
}

// Is makes errors.Is(err, ErrInvalidStateTransition) hold.
func (e *InvalidStateTransitionError) Is(target error) bool {
	return target == ErrInvalidStateTransition
}

// OptimisticLockError says that an event or a user was changed after the caller read it.
// Read it again before you decide on another write.
type OptimisticLockError struct {
	EventID  uuid.UUID // zero for a user
	UserID   uuid.UUID // zero for an event
	Expected int       // the version that the caller expected
}

func (e *OptimisticLockError) Error() string {
	kind, id := "event", e.EventID
	if e.UserID != uuid.Nil {
		kind, id = "user", e.UserID
	}
	return fmt.Sprintf("almanac: %s %s was modified by another transaction (expected version %d)", kind, id, e.Expected)
}

// Is makes errors.Is(err, ErrOptimisticLock) hold.
func (e *OptimisticLockError) Is(target error) bool { return target == ErrOptimisticLock }

// UnsupportedEventTypeError names an event type that has no handler.
type UnsupportedEventTypeError struct{ EventType string }

func (e *UnsupportedEventTypeError) Error() string {
	return fmt.Sprintf("almanac: no handler for event type %q", e.EventType)
}

// Is makes errors.Is(err, ErrUnsupportedEventType) hold.
func (e *UnsupportedEventTypeError) Is(target error) bool { return target == ErrUnsupportedEventType }

// noDelivererError names a channel without a deliverer, and the event type that uses it.
type noDelivererError struct {
	EventType string
	Channel   Channel
}

func (e *noDelivererError) Error() string {
	return fmt.Sprintf("almanac: no deliverer for channel %q, which the handler of %q chooses: see WithDeliverer", e.Channel, e.EventType)
}

func (e *noDelivererError) Is(target error) bool { return target == ErrNoDeliverer }

// Permanent marks an error of a delivery as permanent: the event is FAILED at once, and
// its series continues. Permanent(nil) returns nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string        { return e.err.Error() }
func (e *permanentError) Unwrap() error        { return e.err }
func (e *permanentError) Is(target error) bool { return target == ErrPermanent }

// NotOwed returns an error with which a delivery cancels its event: the event is CANCELLED with the
// reason, its occurrence key is used, and its series continues. That is no failure, and no attempt is
// counted. So NotOwed is for a delivery that is not wanted any more, as to a user who has no address.
// The reason is for operators, is cut to 1,000 bytes and can be empty. No [Follower] is called.
func NotOwed(reason string) error { return &notOwedError{reason} }

type notOwedError struct{ reason string }

func (e *notOwedError) Is(target error) bool { return target == ErrNotOwed }

func (e *notOwedError) Error() string { return strings.TrimSuffix("not owed: "+e.reason, ": ") }

// RetryAfter marks an error of a delivery so that the next attempt comes no sooner than
// after d. A d that is longer than the retry policy's Max counts as Max. The policy still
// limits the attempts, may wait longer than d, and adds its Jitter to d. A d of zero or
// less has no effect. RetryAfter(d, nil) returns nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err: err, delay: d}
}

// Busy is [RetryAfter] for an error with which the receiver asks for a delay of all its events. With
// [Execution].Breaker, the breaker of the lane opens for d, at most for an hour. Busy(d, nil) returns nil.
func Busy(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, d, true}
}

type retryAfterError struct {
	err   error
	delay time.Duration
	busy  bool // whether the delay holds for all events of the receiver
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// InLane returns an error by which a delivery moves its event to another lane (see [LaneNamer]), such as when the
// receiver of a user has changed since the event was planned. No attempt is counted. The event is available a
// second later, and starts when that lane admits it. The event's type means the lane of the type. If the event is in that
// lane already, or if the name is invalid, the attempt has failed.
func InLane(lane string) error { return &laneError{lane} }

type laneError struct{ lane string }

func (e *laneError) Error() string { return fmt.Sprintf("moved to lane %q", e.lane) }

// to returns the lane of the event from then on, if it can move there.
func (e *laneError) to(was Event) (lane string, ok bool) {
	if e.lane == was.Type {
		return e.lane, was.Lane != ""
	}
	return e.lane, e.lane != was.Lane && laneProblem(e.lane) == ""
}

// Snooze returns an error with which a delivery postpones its event by d, at least one second. No
// attempt is counted, so an event can be postponed any number of times. The reason is for
// operators, and can be empty. [CatchUp].SkipOlder still applies, counted from the event's instant.
func Snooze(d time.Duration, reason string) error {
	return &snoozeError{max(d, time.Second), reason}
}

type snoozeError struct {
	delay  time.Duration
	reason string
}

func (e *snoozeError) Is(target error) bool { return target == ErrSnoozed }

func (e *snoozeError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("snoozed for %v: %s", e.delay, e.reason), ": ")
}

// ErrorType classifies the result of an attempt at a delivery for metrics and traces, which a
// middleware measures (see [WithMiddleware]). ctx is the context of the attempt, and err is what
// the attempt returned. ErrorType returns "" for nil, and otherwise the first of these that applies:
//
//   - "canceled": ctx ended before its deadline, because the process stops or the lease was
//     lost. The event is not at fault.
//   - "snoozed" or "not_owed": err comes from [Snooze] or [NotOwed]. No attempt is counted.
//   - "permanent": err matches [ErrPermanent]. The event is not tried again.
//   - "timeout": the attempt exceeded its time. It is tried again if attempts are left.
//   - "failed": any other error. It is tried again if attempts are left.
func ErrorType(ctx context.Context, err error) string {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return ""
	case cause != nil && !errors.Is(cause, context.DeadlineExceeded):
		return "canceled"
	case errors.Is(err, ErrSnoozed):
		return "snoozed"
	case errors.Is(err, ErrNotOwed):
		return "not_owed"
	case errors.Is(err, ErrPermanent):
		return "permanent"
	case cause != nil:
		return "timeout"
	default:
		return "failed"
	}
}
