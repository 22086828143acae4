package almanacotel

import (
	"context"
	"errors"

	"github.com/almanac-go/almanac"
)

// outcome is how an attempt at a delivery ended; as an error.type, unless it was
// accepted.
type outcome string

const (
	accepted  outcome = ""
	failed    outcome = "failed"    // will be tried again, if attempts are left
	permanent outcome = "permanent" // will not
	timedOut  outcome = "timeout"   // was not done in time; will be tried again, if attempts are left
	snoozed   outcome = "snoozed"   // put off by itself; no attempt is counted
	canceled  outcome = "canceled"  // the process stops, or the lease was lost; not the event's fault
	panicked  outcome = "panicked"  // never returned: it panicked, or ended its goroutine
)

// outcomeOf judges as the scheduler does.
func outcomeOf(ctx context.Context, err error) outcome {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return accepted
	case cause != nil && !errors.Is(cause, context.DeadlineExceeded):
		return canceled
	case errors.Is(err, almanac.ErrSnoozed):
		return snoozed
	case errors.Is(err, almanac.ErrPermanent):
		return permanent
	case cause != nil:
		return timedOut
	default:
		return failed
	}
}
