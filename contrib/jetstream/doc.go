// Package almanacjetstream separates the claiming of events from their delivery, with a stream
// of NATS JetStream between them. A [Dispatcher] claims due events and publishes them. Any
// number of workers ([Worker]), on any machine, take them, deliver them and store the outcomes.
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
//
// # Design
//
// Each event has a lease of its own while it is in the stream (LeaseEach). Under one token for
// a batch, renewing one message would keep every event of the batch. Dispatchers renew the
// leases of the messages that wait, whichever dispatcher has published them, and keep no list of
// them: a list would be lost with its process. What is not in the stream any more is not renewed,
// and becomes claimable again. Workers store the outcomes themselves, because a second stream
// back to the dispatcher would be another place to lose one.
package almanacjetstream
