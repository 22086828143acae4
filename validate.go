package almanac

import (
	"errors"
	"fmt"
	"time"
)

// Check is one link of the validation chain: it says why e must not be delivered
// at now, or nil. Checks are functions, so a host adds its own; they must be safe
// for concurrent use.
type Check func(e Event, now time.Time) error

// Checks is a validation chain. The order is the chain's.
type Checks []Check

// First asks the checks in order and returns the first refusal, or nil.
func (cs Checks) First(e Event, now time.Time) error {
	for _, check := range cs {
		if err := check(e, now); err != nil {
			return err
		}
	}
	return nil
}

// All asks every check and returns all refusals, joined, or nil.
func (cs Checks) All(e Event, now time.Time) error {
	var errs []error
	for _, check := range cs {
		errs = append(errs, check(e, now))
	}
	return errors.Join(errs...)
}

// HasStatus refuses events in any other status.
func HasStatus(s Status) Check {
	return func(e Event, _ time.Time) error {
		if e.Status != s {
			return fmt.Errorf("event is %s, not %s", e.Status, s)
		}
		return nil
	}
}

// IsDue refuses events whose instant has not come.
func IsDue() Check {
	return func(e Event, now time.Time) error {
		if early := e.Due.Sub(now); early > 0 {
			return fmt.Errorf("event is due in %v", early)
		}
		return nil
	}
}

// AttemptsLeft refuses events of which n attempts have failed. The refusal is a
// [*MaxRetriesExceededError].
func AttemptsLeft(n int) Check {
	return func(e Event, _ time.Time) error {
		if e.RetryCount >= n {
			return &MaxRetriesExceededError{EventID: e.ID, Failed: e.RetryCount, Limit: n}
		}
		return nil
	}
}

// CrashesBelow refuses events whose worker died n times: whatever they do to a
// process, they will not do it again.
func CrashesBelow(n int) Check {
	return func(e Event, _ time.Time) error {
		if e.CrashCount >= n {
			return fmt.Errorf("worker died %d times", e.CrashCount)
		}
		return nil
	}
}

// NotOlderThan refuses events whose instant passed longer than age ago.
func NotOlderThan(age time.Duration) Check {
	return func(e Event, now time.Time) error {
		if late := now.Sub(e.Due); late > age {
			return fmt.Errorf("missed: %v after its instant, more than %v", late.Round(time.Second), age)
		}
		return nil
	}
}
