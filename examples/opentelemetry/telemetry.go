// Package opentelemetry shows how a host reports to OpenTelemetry what its scheduler does: the
// traces of contrib/otel, and the metrics of contrib/prometheus through OpenTelemetry's bridge.
package opentelemetry

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/almanac-go/almanac"
	almanacotel "github.com/almanac-go/almanac/contrib/otel"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
	"github.com/almanac-go/almanac/ops"
)

// Exporters send traces and metrics to a collector, for example by OTLP.
type Exporters struct {
	Spans   sdktrace.SpanExporter
	Metrics sdkmetric.Exporter
}

// Store is what a postgres.Store is.
type Store interface {
	almanac.Repository
	ops.Statistics
}

// NewScheduler returns a scheduler that reports to the exporters. The function shutdown sends
// what was not sent yet. Call it after Run has returned.
func NewScheduler(store Store, types almanac.Registry, deliverer almanac.Deliverer, to Exporters) (
	s almanac.Scheduler, shutdown func(context.Context) error, err error) {
	tracers := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(almanacotel.IDGenerator(nil)), sdktrace.WithBatcher(to.Spans))
	traces := almanacotel.NewTraces(tracers)
	events := almanacprom.NewEvents(types, almanacprom.WithClassicHistograms())
	backlog, err := almanacprom.NewBacklog(store, types)
	if err != nil {
		return nil, nil, err
	}
	s, err = almanac.NewScheduler(store, types,
		almanac.WithObserver(traces), almanac.WithObserver(events),
		almanac.WithDeliverer(almanac.ChannelWebhook, traces.Middleware(events.Middleware(deliverer))))
	if err != nil {
		return nil, nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(events, almanacprom.NewHealth(s), backlog)
	producer := bridge.NewMetricProducer(bridge.WithGatherer(registry))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(to.Metrics, sdkmetric.WithProducer(producer))))
	return s, func(ctx context.Context) error { return errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx)) }, nil
}
