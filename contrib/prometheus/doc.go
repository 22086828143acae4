// Package almanacprom reports to Prometheus what a scheduler does. It has three collectors,
// which also work separately:
//
//   - [Events] counts what the process does. It is an observer and a middleware.
//   - [Health] reports the condition of Run in this process.
//   - [Backlog] counts the events that wait in the database, and measures the offset between
//     the clocks of the database and of this machine.
//
// Usage:
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
// Counters are of what the process itself has committed, so they add up over processes. Only
// [Backlog] asks the database, one scrape at a time, and keeps the answer for ten seconds or for
// twenty times as long as it took.
//
// The README lists every metric. The directory dashboards has a dashboard for Grafana, and
// alerts.yml has alerting rules.
//
// No label contains data of a user. A label "type" is a type of the registry, or "unregistered":
// a process also releases events of dead processes, and may not know their types.
package almanacprom
