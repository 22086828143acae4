package almanacprom

import (
	"cmp"
	"context"
	"time"

	"github.com/almanac-go/almanac"
)

// Outcomes of attempts besides those of [almanac.ErrorType].
const (
	accepted = "accepted"
	panicked = "panicked" // did not return: it panicked, or ended its goroutine
)

// Middleware returns a deliverer that measures the attempts of next: their duration, their
// outcome, and how many are under way. It does not change the attempts.
func (e *Events) Middleware(next almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		eventType := e.label(d.Event.Type)
		underWay := e.inFlight.WithLabelValues(eventType)
		underWay.Inc()
		began, result := time.Now(), panicked
		defer func() {
			underWay.Dec()
			e.deliveries.WithLabelValues(eventType, result).Observe(time.Since(began).Seconds())
		}()
		err := next.Deliver(ctx, d)
		result = cmp.Or(almanac.ErrorType(ctx, err), accepted)
		return err
	})
}
