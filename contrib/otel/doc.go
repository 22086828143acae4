// Package almanacotel reports to OpenTelemetry what a scheduler does. [Traces] follows an
// event from its scheduling to its delivery. [Metrics] measures what the process does.
// [WatchHealth] and [WatchBacklog] observe the scheduler and the database.
//
// Usage:
//
//	provider := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(almanacotel.IDGenerator(nil)), …)
//	traces := almanacotel.NewTraces(provider)
//	metrics, err := almanacotel.NewMetrics(meters, registry)
//	…
//	scheduler, err := almanac.NewScheduler(store, registry,
//		almanac.WithObserver(traces), almanac.WithObserver(metrics),
//		almanac.WithDeliverer(almanac.ChannelWebhook, traces.Middleware(metrics.Middleware(deliverer))))
//	…
//	_, err = almanacotel.WatchHealth(meters, scheduler)
//	_, err = almanacotel.WatchBacklog(meters, store, registry)
//
// Names follow the semantic conventions for messaging where these define one, and begin
// with "almanac." otherwise. The README lists them all. No attribute contains a name, a
// date of birth or a payload. Spans contain the ids of events and users.
//
// The package depends only on the API of OpenTelemetry. The host chooses the SDK.
package almanacotel
