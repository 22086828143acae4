// Package webhook delivers events by HTTP, signed after the Standard Webhooks
// specification, and verifies such deliveries for receivers.
//
// A delivery is a POST of a JSON object. Its headers are
//
//	X-Idempotency-Key   the event's key, the same on every attempt
//	webhook-id          the same key
//	webhook-timestamp   seconds since 1970, by the database's clock, of this attempt
//	webhook-signature   "v1," and the base64 of HMAC-SHA256 over id.timestamp.body,
//	                    one for each secret, separated by spaces
//
// The body holds eventId, eventType, and the members of the event's payload. It is
// byte for byte the same on every attempt. It names neither the user nor the
// instant: whom the receiver needs to know, the payload says.
//
// One attempt can reach the receiver twice: where a connection that was kept open
// breaks before an answer came, the request is sent again on another.
//
// # What counts as delivered
//
// Any 2xx, and nothing else. 408, 425, 429, 5xx, 3xx, timeouts and network errors
// are worth another attempt, no sooner than a Retry-After header says. Any other
// answer is final. Redirects are not followed.
//
// # How long it takes
//
// Five seconds to connect, five for the handshake of TLS, ten from the request to
// the end of the answer's header, and 15 for all of it, or as [WithTimeout] says. A
// receiver that is slow can take every worker for so long: [WithConcurrency] leaves
// some to the others.
//
// # Where it may connect
//
// The address is judged when it is dialled, after every name was resolved, so
// neither a name that points inside nor one that changes its mind gets through:
// only public addresses are dialled, at port 443, and no proxy of the environment
// is used. [AllowPrivate] opens loopback and private networks, [AllowPorts] further
// ports. A refusal is final, for it tells of a wrong setting or a hostile name, not
// of a bad moment.
//
// # At the receiver
//
// Deliveries repeat. A receiver stores the key in the transaction that has the effect,
// and keeps it for longer than the sender retries. [Verifier.Once] does both for a
// receiver with a PostgreSQL database of its own. By hand, and in any database, it is:
//
//	BEGIN;
//	INSERT INTO seen (key) VALUES ($1) ON CONFLICT DO NOTHING; -- no row: answer 200, do nothing
//	… the effect …
//	COMMIT;
//
// The key to store is the webhook-id: the signature covers it, and not X-Idempotency-Key.
package webhook
