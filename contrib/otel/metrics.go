package almanacotel

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"github.com/almanac-go/almanac"
)

// unregistered is the attribute for types that the registry does not have.
const unregistered = "unregistered"

// Metrics counts the changes that its process stores. It also measures the process's
// deliveries, claims and versioned updates. It is an [almanac.Observer], has a Middleware
// for deliverers, and is safe for concurrent use. An attribute for the type of an event is
// a type of the registry or "unregistered".
type Metrics struct {
	types    map[string]bool
	events   metric.Int64Counter
	users    metric.Int64Counter
	lateness metric.Float64Histogram
	duration messagingconv.ProcessDuration
	active   metric.Int64UpDownCounter
	calls    calls
}

var (
	_ almanac.Observer       = (*Metrics)(nil)
	_ almanac.ClaimMeasurer  = (*Metrics)(nil)
	_ almanac.UpdateMeasurer = (*Metrics)(nil)
)

// NewMetrics returns Metrics for the registry's types. A nil provider means the global one.
// The error comes from the provider when it cannot create an instrument.
func NewMetrics(p metric.MeterProvider, registry almanac.Registry) (*Metrics, error) {
	meter, m := meterOf(p), &Metrics{types: make(map[string]bool)}
	for _, eventType := range registry.EventTypes() {
		m.types[eventType] = true
	}
	var errs [6]error
	m.events, errs[0] = meter.Int64Counter("almanac.event.changes",
		metric.WithUnit("{change}"), metric.WithDescription("Changes to events that this process stored."))
	m.users, errs[1] = meter.Int64Counter("almanac.user.changes",
		metric.WithUnit("{change}"), metric.WithDescription("Changes to users that this process stored."))
	m.lateness, errs[2] = meter.Float64Histogram("almanac.event.lateness",
		metric.WithUnit("s"), metric.WithDescription("How long after its due instant, or its later creation or move, an event was delivered, by the database's clock."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600))
	m.duration, errs[3] = messagingconv.NewProcessDuration(meter,
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 60))
	m.active, errs[4] = meter.Int64UpDownCounter("almanac.delivery.active",
		metric.WithUnit("{delivery}"), metric.WithDescription("Attempts at deliveries that have not returned yet."))
	m.calls, errs[5] = newCalls(meter)
	if err := errors.Join(errs[:]...); err != nil {
		return m, err
	}
	for eventType := range m.types { // these begin at zero, so that the first failure is an increase
		of := attribute.String("almanac.event.type", eventType)
		m.events.Add(context.Background(), 0, metric.WithAttributes(of, attribute.String("almanac.change", "released"),
			attribute.String("almanac.release.cause", string(almanac.AfterFailure))))
		m.events.Add(context.Background(), 0, metric.WithAttributes(of, attribute.String("almanac.change", "follow_ups_lost")))
	}
	return m, nil
}

func meterOf(p metric.MeterProvider) metric.Meter {
	if p == nil {
		p = otel.GetMeterProvider()
	}
	return p.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
}

// Observe counts one stored change, or one event that an edit skipped.
func (m *Metrics) Observe(ctx context.Context, n almanac.Notice) {
	of, what, _ := strings.Cut(string(n.Kind), ".")
	change := attribute.String("almanac.change", what)
	if of == "user" {
		m.users.Add(ctx, 1, metric.WithAttributes(change))
		return
	}
	eventType := attribute.String("almanac.event.type", m.label(n.Event.Type))
	attributes := []attribute.KeyValue{change, eventType}
	switch n.Kind {
	case almanac.EventReleased:
		attributes = append(attributes, attribute.String("almanac.release.cause", string(n.Cause)))
	case almanac.EventFailed:
		attributes = append(attributes, attribute.String("almanac.failure.cause", string(n.Failure)))
	}
	m.events.Add(ctx, 1, metric.WithAttributes(attributes...))
	if n.Kind == almanac.EventCompleted {
		m.lateness.Record(ctx, n.Event.Lateness().Seconds(), metric.WithAttributes(eventType))
	}
}

// Middleware returns a deliverer that measures the attempts of next: their duration, their
// outcome, and how many are under way.
func (m *Metrics) Middleware(next almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		eventType := m.label(d.Event.Type)
		underWay := metric.WithAttributes(attribute.String("almanac.event.type", eventType))
		m.active.Add(ctx, 1, underWay)
		began, result := time.Now(), panicked
		defer func() {
			m.active.Add(ctx, -1, underWay)
			attributes := []attribute.KeyValue{semconv.MessagingDestinationName(eventType)}
			if result != accepted {
				attributes = append(attributes, semconv.ErrorTypeKey.String(string(result)))
			}
			m.duration.Record(ctx, time.Since(began).Seconds(), "deliver", "almanac", attributes...)
		}()
		err := next.Deliver(ctx, d)
		result = outcomeOf(ctx, err)
		return err
	})
}

// label returns the attribute for a type, so that types stored by other programs create no
// new series.
func (m *Metrics) label(eventType string) string {
	if m.types[eventType] {
		return eventType
	}
	return unregistered
}
