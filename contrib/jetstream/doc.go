// Package almanacjetstream separates the claiming of events from their delivery, with a
// stream of NATS JetStream between them. A [Dispatcher] claims due events and publishes
// them. Any number of workers ([Worker]), on any machine, take them, deliver them and store
// the outcomes.
//
// Both use a scheduler internally, and take its options:
//
//	settings := almanacjetstream.Settings{JetStream: js, Repository: store, Registry: registry}
//	dispatcher, err := almanacjetstream.NewDispatcher(settings)
//	…
//	worker, err := almanacjetstream.NewWorker(settings,
//		almanac.WithDeliverer(almanac.ChannelWebhook, deliverer), almanac.WithWorkers(200))
//
// The database stays authoritative, and the lease token of the event is the fence. A
// message offers an event that is PROCESSING. One worker accepts it by exchanging the token
// in the database. The promises of a scheduler hold: one terminal transition is accepted,
// and a delivery is never early. It is made at least once, always with the same idempotency
// key and payload. The README describes the effect of a crash at each step.
package almanacjetstream
