package almanacprom

import (
	"context"
	"errors"
	"time"

	"github.com/almanac-go/almanac"
)

// outcome is how an attempt at a delivery ended.
type outcome string

const (
	accepted  outcome = "accepted"
	failed    outcome = "failed"    // will be tried again, if attempts are left
	permanent outcome = "permanent" // will not
	timedOut  outcome = "timeout"   // was not done in time; will be tried again, if attempts are left
	snoozed   outcome = "snoozed"   // put off by itself; no attempt is counted
	canceled  outcome = "canceled"  // the process stops, or the lease was lost; not the event's fault
	panicked  outcome = "panicked"  // never returned: it panicked, or ended its goroutine
)

// Middleware returns a deliverer that measures the attempts of next: how long they
// take, how they end, and how many are under way. It changes nothing of them.
func (e *Events) Middleware(next almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		eventType := e.label(d.Event.Type)
		underWay := e.inFlight.WithLabelValues(eventType)
		underWay.Inc()
		began, how := time.Now(), panicked
		defer func() {
			underWay.Dec()
			e.deliveries.WithLabelValues(eventType, string(how)).Observe(time.Since(began).Seconds())
		}()
		err := next.Deliver(ctx, d)
		how = outcomeOf(ctx, err)
		return err
	})
}

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
