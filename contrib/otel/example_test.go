package almanacotel_test

import (
	"context"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/almanac-go/almanac"
	almanacotel "github.com/almanac-go/almanac/contrib/otel"
)

// watched is a scheduler that is traced and measured.
func watched(store almanac.Repository, types almanac.Registry, deliverer almanac.Deliverer) (almanac.Scheduler, error) {
	// Add exporters and readers, as for the rest of the program.
	tracers := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(almanacotel.IDGenerator(nil)))
	meters := sdkmetric.NewMeterProvider()

	traces := almanacotel.NewTraces(tracers)
	metrics, err := almanacotel.NewMetrics(meters, types)
	if err != nil {
		return nil, err
	}
	scheduler, err := almanac.NewScheduler(store, types,
		almanac.WithObserver(traces), almanac.WithObserver(metrics),
		almanac.WithDeliverer(almanac.ChannelWebhook, traces.Middleware(metrics.Middleware(deliverer))))
	if err != nil {
		return nil, err
	}
	if _, err := almanacotel.WatchHealth(meters, scheduler); err != nil {
		return nil, err
	}
	_, err = almanacotel.WatchBacklog(meters, store, types)
	return scheduler, err
}

// Traces and metrics can be had each without the other.
func Example() {
	var store almanac.Repository // package postgres has one
	types, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	deliverer := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	scheduler, err := watched(store, types, deliverer)
	if err != nil {
		panic(err)
	}
	_ = scheduler.Run(context.Background())
}
