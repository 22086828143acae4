package almanacotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/almanac-go/almanac"
)

// Runner is the part of a scheduler that WatchHealth reads.
type Runner interface {
	// Health returns the present state of Run.
	Health() almanac.Health
}

// gauge is an instrument, and the value of it in a scheduler's health.
type gauge struct {
	name, unit, description string
	show                    func(almanac.Health) float64
}

// WatchHealth observes the [almanac.Health] of a scheduler in this process. A nil provider
// means the global one. Observation ends when the registration is unregistered. The error
// is the provider's.
func WatchHealth(p metric.MeterProvider, r Runner) (metric.Registration, error) {
	meter, gauges := meterOf(p), healthGauges()
	failing, err := meter.Float64ObservableGauge("almanac.scheduler.failure", metric.WithUnit("s"),
		metric.WithDescription("For how long a part has not succeeded, since the first try after the last success; 0 when all is well. Maintenance tasks are present only while they fail."))
	instruments, errs := make([]metric.Float64ObservableGauge, len(gauges)), []error{err}
	watched := []metric.Observable{failing}
	for i, g := range gauges {
		instruments[i], err = meter.Float64ObservableGauge(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.description))
		watched, errs = append(watched, instruments[i]), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		is := r.Health()
		for i, g := range gauges {
			o.ObserveFloat64(instruments[i], g.show(is))
		}
		for part, t := range partsOf(is) {
			o.ObserveFloat64(failing, t.For.Seconds(), metric.WithAttributes(attribute.String("almanac.scheduler.part", part)))
		}
		return nil
	}, watched...)
}

func healthGauges() []gauge {
	return []gauge{
		{"almanac.scheduler.running", "{scheduler}", "Whether Run runs and was not asked to stop: 1 or 0.",
			func(h almanac.Health) float64 { return number(h.Running) }},
		{"almanac.scheduler.ready", "{scheduler}", "Whether all is well, as a readiness probe sees it: 1 or 0.",
			func(h almanac.Health) float64 { return number(h.Err() == nil) }},
		{"almanac.scheduler.workers", "{worker}", "How many events can be delivered at once.",
			func(h almanac.Health) float64 { return float64(h.Workers) }},
		{"almanac.scheduler.held", "{event}", "Events that are claimed and whose outcome is not stored yet.",
			func(h almanac.Health) float64 { return float64(h.Held) }},
		{"almanac.scheduler.stuck", "{delivery}", "Deliveries that have not returned for five seconds after their context ended; each takes up a worker.",
			func(h almanac.Health) float64 { return float64(h.Stuck) }},
		{"almanac.scheduler.blocked", "{call}", "Calls of handlers' planning code and of observers that do not return; each keeps a goroutine.",
			func(h almanac.Health) float64 { return float64(h.Blocked) }},
		{"almanac.scheduler.lost", "{event}", "Events that lost their lease lately, so that others may deliver them too.",
			func(h almanac.Health) float64 { return float64(h.Lost) }},
	}
}

// partsOf returns the failure of each part by name.
func partsOf(h almanac.Health) map[string]almanac.Failure {
	parts := map[string]almanac.Failure{"claim": h.Claim, "settle": h.Settle, "renew": h.Renew}
	for task, t := range h.Maintenance {
		parts[task] = t
	}
	return parts
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
