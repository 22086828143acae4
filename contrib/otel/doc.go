// Package almanacotel tells OpenTelemetry what a scheduler does: [Traces] from the
// scheduling of an event to its delivery, [Metrics] of what the process does, and
// what [WatchHealth] and [WatchBacklog] observe.
//
// Put together:
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
// Names are those of the semantic conventions for messaging where these have one,
// and begin with "almanac." otherwise. The README lists them all. No attribute holds
// a name, a date of birth or a payload; spans carry the ids of events and people.
//
// The package depends on the API of OpenTelemetry only: the SDK is the host's choice.
package almanacotel
