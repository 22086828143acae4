// Package dashboard serves pages about users, events and time zones to the people who run a
// program. It shows which users are due in which zone, when, and why an event for 02:30 is
// due at 03:30 on the night of a clock change.
//
//	monitor := dashboard.NewMonitor()
//	scheduler, err := almanac.NewScheduler(store, registry, almanac.WithObserver(monitor),
//		almanac.WithDeliverer(almanac.ChannelWebhook, monitor.Middleware(deliverer)))
//	reader, err := postgres.New(pool, postgres.ReadOnly(2*time.Second))
//	pages, err := dashboard.New(scheduler, reader, dashboard.WithTokenLogin(token), dashboard.WithMonitor(monitor))
//	mux.Handle("/dashboard/", http.StripPrefix("/dashboard", pages))
//
// Pages are rendered by the server, by the zone data of the program: the browser's may be of another
// release. Everything works without JavaScript. With script, pages stay up to date by themselves.
// Nothing is loaded from elsewhere and nothing is inline, so a strict Content-Security-Policy holds.
//
// # Access
//
// [New] refuses to make a dashboard without a rule of access: [WithAuthentication],
// [WithTokenLogin] or [AllowAll]. [WithPermissions] decides what each viewer may see and do.
// Names, addresses and payloads are hidden unless it allows them. Each change is a POST from
// the origin of the dashboard. It is checked again when it is made, is logged with the viewer's
// principal, and has the principal in the audit trail (see [almanac.WithPrincipal]).
//
// # Cost
//
// All viewers share one read of the numbers, at most once every five seconds, and only while a page
// is open. Every list is in the order of an index. At most two calls of the reader run at a time.
package dashboard
