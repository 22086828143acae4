package almanacotel

import (
	"context"
	"errors"

	"github.com/almanac-go/almanac"
)

// outcome is the result of an attempt at a delivery. It is the error.type, unless the
// attempt was accepted.
type outcome string

const (
	accepted  outcome = ""
	failed    outcome = "failed"    // retried if attempts are left
	permanent outcome = "permanent" // not retried
	timedOut  outcome = "timeout"   // exceeded its time; retried if attempts are left
	snoozed   outcome = "snoozed"   // postponed by the handler or deliverer; no attempt is counted
	notOwed   outcome = "not_owed"  // called off by the handler or deliverer; no attempt is counted
	canceled  outcome = "canceled"  // the process stops, or the lease was lost; not the event's fault
	panicked  outcome = "panicked"  // did not return: it panicked, or ended its goroutine
)

// outcomeOf classifies an error as the scheduler does.
func outcomeOf(ctx context.Context, err error) outcome {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return accepted
	case cause != nil && !errors.Is(cause, context.DeadlineExceeded):
		return canceled
	case errors.Is(err, almanac.ErrSnoozed):
		return snoozed
	case errors.Is(err, almanac.ErrNotOwed):
		return notOwed
	case errors.Is(err, almanac.ErrPermanent):
		return permanent
	case cause != nil:
		return timedOut
	default:
		return failed
	}
}
