package almanac

import (
	"errors"
	"fmt"
	"time"
)

// Check returns an error if e must not be delivered at now, and nil otherwise. now is the
// present time by the database clock, in UTC: calendar.StoredTimezone(e.Zone).WallTime(now)
// is what clocks show in the zone of the event. An error fails the event for good, with
// the error as its FailureReason, unless it asks for something else: [Snooze] postpones
// the event, and [NotOwed] cancels it. A host can add its own checks (see [WithChecks]). A
// Check must be safe for concurrent use.
type Check func(e Event, now time.Time) error

// Checks is a validation chain: a list of checks in the order in which they are called.
type Checks []Check

// First returns the error of the first check that refuses e, or nil.
func (cs Checks) First(e Event, now time.Time) error {
	for _, check := range cs {
		if err := check(e, now); err != nil {
			return err
		}
	}
	return nil
}

// All returns the errors of all checks that refuse e, joined, or nil.
func (cs Checks) All(e Event, now time.Time) error {
	var errs []error
	for _, check := range cs {
		errs = append(errs, check(e, now))
	}
	return errors.Join(errs...)
}

// HasStatus refuses events with another status.
func HasStatus(s Status) Check {
	return func(e Event, _ time.Time) error {
		if e.Status != s {
			return fmt.Errorf("event is %s, not %s", e.Status, s)
		}
		return nil
	}
}

// IsDue refuses events before their due instant.
func IsDue() Check {
	return func(e Event, now time.Time) error {
		if early := e.Due.Sub(now); early > 0 {
			return fmt.Errorf("event is due in %v", early)
		}
		return nil
	}
}

// AttemptsLeft refuses events with n failed attempts or more. The error is a
// [*MaxRetriesExceededError].
func AttemptsLeft(n int) Check {
	return func(e Event, _ time.Time) error {
		if e.RetryCount >= n {
			return &MaxRetriesExceededError{EventID: e.ID, Failed: e.RetryCount, Limit: n}
		}
		return nil
	}
}

// CrashesBelow refuses events whose worker died n times or more, because the events may
// be the cause.
func CrashesBelow(n int) Check {
	return func(e Event, _ time.Time) error {
		if e.CrashCount >= n {
			return fmt.Errorf("worker died %d times", e.CrashCount)
		}
		return nil
	}
}

// NotOlderThan refuses events whose due instant passed more than age ago. For a requeued event
// the age counts from when it was requeued: somebody has asked for it since its instant passed.
func NotOlderThan(age time.Duration) Check {
	return func(e Event, now time.Time) error {
		from, what := e.Due, "its instant"
		if e.Origin.Kind == OriginRequeued && e.CreatedAt.After(e.Due) {
			from, what = e.CreatedAt, "it was requeued"
		}
		if late := now.Sub(from); late > age {
			return fmt.Errorf("missed: %v after %s, more than %v", late.Round(time.Second), what, age)
		}
		return nil
	}
}
