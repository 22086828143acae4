// Package webhook delivers events by HTTP, signed according to the Standard Webhooks
// specification. It also verifies such deliveries for receivers.
//
// A delivery is a POST of a JSON object. Its headers are
//
//	X-Idempotency-Key   the event's key, the same on every attempt
//	webhook-id          the same key
//	webhook-timestamp   the time of this attempt by the database clock, in seconds since 1970
//	webhook-signature   "v1," and the base64 of HMAC-SHA256 over id.timestamp.body,
//	                    one for each secret, separated by spaces
//
// The body holds eventId, eventType, and the members of the event's payload. It is byte for
// byte the same on every attempt. A requeued event is a new event under the same key: only its
// eventId differs. It contains neither the user nor the instant, unless the
// payload contains them. [WithTemplate] and [WithCloudEvents] make other bodies.
//
// One attempt can reach the receiver twice: if a kept-open connection breaks before the
// response, the request is sent again on another connection.
//
// [NewReceivers] posts to a receiver of each tenant. [Deliverer.DeliverBatch] posts several events in one request.
//
// # What counts as delivered
//
// Only a 2xx response counts as delivered. After 101, 3xx, 408, 425, 429, 5xx, a timeout or
// a network error, another attempt follows, no sooner than a Retry-After header asks for. Any
// other response is final. Redirects are not followed.
//
// # Timeouts
//
// A delivery has five seconds to connect, five for the TLS handshake, ten from the request to the end of
// the response header, and 15 for everything. [WithTimeout] changes the last limit. A slow receiver can
// occupy every worker for that long; [WithConcurrency] bounds the workers that it occupies.
//
// # Allowed addresses
//
// Only public addresses on port 443 are dialled. The address is checked when it is dialled, after
// the name was resolved, so neither a name of a private address nor a name that changes its address
// gets through. An IPv4-mapped address and an address of NAT64 (64:ff9b::/96, 64:ff9b:1::/48) count
// as the IPv4 address that they embed. Proxies of the environment are not used. [AllowPrivate]
// allows loopback and private networks, [AllowPorts] further ports. A refused address is final: it
// shows a wrong setting or a hostile name, and a retry cannot succeed.
//
// # At the receiver
//
// Deliveries can repeat. A receiver stores the key in the transaction that has the effect,
// and keeps it for longer than the sender retries. [Verifier.Once] does both for a receiver
// with its own PostgreSQL database. By hand, in any database:
//
//	BEGIN;
//	INSERT INTO seen (key) VALUES ($1) ON CONFLICT DO NOTHING; -- no row: answer 200, do nothing
//	… the effect …
//	COMMIT;
//
// The key to store is the webhook-id: the signature covers it, but not X-Idempotency-Key.
package webhook
