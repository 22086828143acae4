// Package almanacotel reports to OpenTelemetry what a scheduler does: [Traces] follows an
// event from its scheduling to its delivery.
//
// Usage:
//
//	provider := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(almanacotel.IDGenerator(nil)), …)
//	traces := almanacotel.NewTraces(provider)
//	scheduler, err := almanac.NewScheduler(store, registry,
//		almanac.WithObserver(traces),
//		almanac.WithDeliverer(almanac.ChannelWebhook, traces.Middleware(deliverer)))
//
// Names follow the semantic conventions for messaging where these define one, and begin
// with "almanac." otherwise. The README lists them all. No attribute contains a name, a
// date of birth or a payload. Spans contain the ids of events and users.
//
// The package depends only on the API of OpenTelemetry. The host chooses the SDK. Metrics for
// OpenTelemetry are those of contrib/prometheus; the README says how they get there.
package almanacotel
