// Package almanacjetstream delivers events in more processes than the one that
// claims them, by a stream of NATS JetStream between: a [Dispatcher] claims what is
// due and publishes it, and any number of a [Worker], anywhere, take it, deliver it and
// store the outcome.
//
// Both are schedulers from within, and take the options of one:
//
//	settings := almanacjetstream.Settings{JetStream: js, Repository: store, Registry: registry}
//	dispatcher, err := almanacjetstream.NewDispatcher(settings)
//	…
//	worker, err := almanacjetstream.NewWorker(settings,
//		almanac.WithDeliverer(almanac.ChannelWebhook, deliverer), almanac.WithWorkers(200))
//
// The database stays the truth, and the lease token of the event the fence: a message
// is only an invitation to work on an event that is PROCESSING, which one worker accepts
// by exchanging the token in the database. What is promised of a
// scheduler holds: one terminal transition is accepted, a delivery is made at least
// once and always with the same idempotency key and payload, and never early. The
// README says what a crash at each step does.
package almanacjetstream
