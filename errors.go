package almanac

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The kinds of failure that callers tell apart with [errors.Is]. Those that name
// a case carry it in the typed error beside them.
var (
	ErrNotFound               = errors.New("almanac: not found")                                    // *NotFoundError
	ErrExists                 = errors.New("almanac: exists already")                               // from CreateUser
	ErrInvalid                = errors.New("almanac: invalid input")                                // *ValidationError
	ErrInvalidTimezone        = errors.New("almanac: unknown time zone")                            // *InvalidTimezoneError
	ErrInvalidDateOfBirth     = errors.New("almanac: invalid date of birth")                        // *InvalidDateOfBirthError
	ErrDateOfBirthInFuture    = errors.New("almanac: date of birth is in the future")               // *InvalidDateOfBirthError, which is ErrInvalidDateOfBirth too
	ErrMaxRetriesExceeded     = errors.New("almanac: no attempt is left")                           // *MaxRetriesExceededError
	ErrInvalidStateTransition = errors.New("almanac: invalid state transition")                     // *InvalidStateTransitionError
	ErrOptimisticLock         = errors.New("almanac: changed since it was read")                    // *OptimisticLockError
	ErrUnsupportedEventType   = errors.New("almanac: no handler for this event type")               // *UnsupportedEventTypeError
	ErrSkippedWallTime        = errors.New("almanac: clocks skip this wall time")                   // *WallTimeError
	ErrRejectedWallTime       = errors.New("almanac: clocks do not show this wall time once")       // *WallTimeError
	ErrNoDeliverer            = errors.New("almanac: no deliverer for this channel")                // *NoDelivererError
	ErrInvalidRecurrence      = errors.New("almanac: invalid recurrence")                           // *InvalidRecurrenceError
	ErrNoOccurrence           = errors.New("almanac: no further occurrence")                        // a recurrence has ended, or a handler owes this user nothing
	ErrLeaseLost              = errors.New("almanac: lease lost: the event belongs to another")     // what a late worker hears
	ErrLocked                 = errors.New("almanac: locked by another transaction")                // from Settle, edits and Backfill: try again later
	ErrSnoozed                = errors.New("almanac: snoozed")                                      // see Snooze
	ErrPermanent              = errors.New("almanac: permanent failure")                            // see Permanent
	ErrRunning                = errors.New("almanac: scheduler is running already")                 // from Runner.Run
	ErrOutdated               = errors.New("almanac: database is older than this program")          // from Runner.Run; see Verifier
	ErrNotRunning             = errors.New("almanac: scheduler is not running")                     // from Health.Err
	ErrStuck                  = errors.New("almanac: deliveries do not return")                     // from Health.Err: another process would do better
	ErrHandedOn               = errors.New("almanac: handed on: another process settles the event") // see Settled.Err
)

// NotFoundError says what was not there.
type NotFoundError struct {
	Kind string // "user" or "event"
	ID   uuid.UUID
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("almanac: no %s %s", e.Kind, e.ID) }

// Is makes errors.Is(err, ErrNotFound) hold.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// FieldError is one bad field of an input.
type FieldError struct {
	Field   string // as the caller knows it: "dateOfBirth"
	Problem string // what is wrong with it, as a clause: "is in the future"
	Err     error  // the typed error behind it, if any
}

// ValidationError names every bad field of an input at once. Nothing of the
// input was stored.
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

// Unwrap gives errors.Is and errors.As the typed errors behind the fields.
func (e *ValidationError) Unwrap() []error {
	var errs []error
	for _, f := range e.Fields {
		if f.Err != nil {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// InvalidTimezoneError says which name is no zone.
type InvalidTimezoneError struct {
	Name       string
	Suggestion string // the nearest accepted name, or ""
	NoData     bool   // the name is good, but this process has no data for it
	Err        error  // why there is no data, if that is known
}

func (e *InvalidTimezoneError) Error() string {
	return fmt.Sprintf("almanac: %q %s", e.Name, e.problem())
}

// problem says what is wrong with the name, as a clause.
func (e *InvalidTimezoneError) problem() string {
	switch {
	case e.NoData:
		if e.Err != nil {
			return "is a time zone for which this machine has no data: " + e.Err.Error()
		}
		return "is a time zone for which this machine has no data"
	case e.Suggestion != "":
		return fmt.Sprintf("is not a known time zone; did you mean %q?", e.Suggestion)
	case isMachines(e.Name):
		return "is the time zone of a machine, not of a person"
	}
	return "is not a known time zone"
}

// Unwrap returns e.Err.
func (e *InvalidTimezoneError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrInvalidTimezone) hold.
func (e *InvalidTimezoneError) Is(target error) bool { return target == ErrInvalidTimezone }

// InvalidDateOfBirthError says why nobody was born on that date.
type InvalidDateOfBirthError struct {
	Value  string
	Reason string // as a clause: "is in the future"
	Future bool   // the date has not come where the user lives
}

func (e *InvalidDateOfBirthError) Error() string {
	return fmt.Sprintf("almanac: date of birth %q %s", e.Value, e.Reason)
}

// Is makes errors.Is(err, ErrInvalidDateOfBirth) hold, and
// errors.Is(err, ErrDateOfBirthInFuture) if e.Future.
func (e *InvalidDateOfBirthError) Is(target error) bool {
	return target == ErrInvalidDateOfBirth || e.Future && target == ErrDateOfBirthInFuture
}

// MaxRetriesExceededError says that an event has used up its attempts. It is the refusal
// of [AttemptsLeft]. An attempt that fails for the last time needs no such error: the event
// is FAILED with the reason of that attempt.
type MaxRetriesExceededError struct {
	EventID uuid.UUID
	Failed  int // how many attempts have failed
	Limit   int // how many there may be
}

func (e *MaxRetriesExceededError) Error() string {
	return fmt.Sprintf("%d of %d attempts have failed", e.Failed, e.Limit)
}

// Is makes errors.Is(err, ErrMaxRetriesExceeded) hold.
func (e *MaxRetriesExceededError) Is(target error) bool { return target == ErrMaxRetriesExceeded }

// InvalidStateTransitionError says which step of an event's life was refused.
type InvalidStateTransitionError struct {
	EventID  uuid.UUID
	From, To Status
}

func (e *InvalidStateTransitionError) Error() string {
	switch {
	case e.From == Pending && e.To == Pending:
		return fmt.Sprintf("almanac: event %s was claimed before, so it keeps its target", e.EventID)
	case e.From == e.To:
		return fmt.Sprintf("almanac: event %s is %s already", e.EventID, e.From)
	}
	return fmt.Sprintf("almanac: event %s: invalid state transition from %s to %s", e.EventID, e.From, e.To)
}

// Is makes errors.Is(err, ErrInvalidStateTransition) hold.
func (e *InvalidStateTransitionError) Is(target error) bool {
	return target == ErrInvalidStateTransition
}

// OptimisticLockError says that an event or a user moved on after the caller read
// it. Do not write again blindly: read it and decide anew.
type OptimisticLockError struct {
	EventID  uuid.UUID // zero if it is a user
	UserID   uuid.UUID // zero if it is an event
	Expected int       // the version that the caller had read
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

// UnsupportedEventTypeError says which event type has no handler.
type UnsupportedEventTypeError struct{ EventType string }

func (e *UnsupportedEventTypeError) Error() string {
	return fmt.Sprintf("almanac: no handler for event type %q", e.EventType)
}

// Is makes errors.Is(err, ErrUnsupportedEventType) hold.
func (e *UnsupportedEventTypeError) Is(target error) bool { return target == ErrUnsupportedEventType }

// NoDelivererError says which channel of which event type has no deliverer.
type NoDelivererError struct {
	EventType string
	Channel   Channel
}

func (e *NoDelivererError) Error() string {
	return fmt.Sprintf("almanac: no deliverer for channel %q, which the handler of %q chooses: see WithDeliverer", e.Channel, e.EventType)
}

// Is makes errors.Is(err, ErrNoDeliverer) hold.
func (e *NoDelivererError) Is(target error) bool { return target == ErrNoDeliverer }

// WallTimeError says which wall time a policy refused, and why.
type WallTimeError struct {
	Wall     WallTime
	Zone     Timezone
	Reading  Reading // ShownNever or ShownTwice
	Change   Change  // the change of clocks that makes it so
	Rejected bool    // by the policy reject; otherwise the policy skip passed over it
}

func (e *WallTimeError) Error() string {
	return fmt.Sprintf("almanac: clocks in %s show %s %s: %s", e.Zone, e.Wall, e.Reading, e.Change)
}

// Is makes errors.Is hold for ErrRejectedWallTime or ErrSkippedWallTime.
func (e *WallTimeError) Is(target error) bool {
	if e.Rejected {
		return target == ErrRejectedWallTime
	}
	return target == ErrSkippedWallTime
}

// InvalidRecurrenceError names everything that is wrong with a recurrence.
type InvalidRecurrenceError struct {
	Rule     string   // the text of the rule, cut short, or its kind
	Problems []string // as clauses
}

func (e *InvalidRecurrenceError) Error() string {
	return fmt.Sprintf("almanac: invalid recurrence %q: %s", e.Rule, strings.Join(e.Problems, "; "))
}

// Is makes errors.Is(err, ErrInvalidRecurrence) hold.
func (e *InvalidRecurrenceError) Is(target error) bool { return target == ErrInvalidRecurrence }

// Permanent marks err, returned by a delivery, as not worth another attempt: the
// event is FAILED at once, and its series goes on. Permanent(nil) is nil.
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

// RetryAfter marks err, returned by a delivery, as worth another attempt no
// sooner than after d, or the retry policy's Max where that is less. The policy
// still bounds how often, may wait longer, and spreads by its Jitter what was told
// the same d. A d of zero or less asks for nothing.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, d}
}

type retryAfterError struct {
	err   error
	delay time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// Snooze returns an error by which a delivery puts its event off for d, at least a
// second: no attempt is counted, so it can be done any number of times. The reason, for
// people, can be empty. What [CatchUp].SkipOlder says still holds, and counts from
// the event's instant.
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
