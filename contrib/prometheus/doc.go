// Package almanacprom tells Prometheus what a scheduler does. It has three
// collectors, each of use without the others:
//
//   - [Events] counts what the process does. It is an observer and a middleware.
//   - [Health] is how Run does, as the process sees it itself.
//   - [Backlog] is what waits in the database, and how far its clock is from this one's.
//
// Put together:
//
//	events := almanacprom.NewEvents(registry)
//	scheduler, err := almanac.NewScheduler(store, registry,
//		almanac.WithObserver(events),
//		almanac.WithDeliverer(almanac.ChannelWebhook, events.Middleware(deliverer)))
//	…
//	backlog, err := almanacprom.NewBacklog(store, registry)
//	…
//	prometheus.MustRegister(events, almanacprom.NewHealth(scheduler), backlog)
//
// The README lists every metric. In dashboards there is a dashboard for Grafana, and
// alerts.yml has rules.
//
// No label holds anything of a person. A label "type" is one of the registry's event
// types, or "unregistered": the events of dead processes are given back whatever
// their type, and a program may not know all of them.
package almanacprom
