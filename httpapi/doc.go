// Package httpapi serves people and what they are owed as JSON over HTTP.
//
//	POST   /user                 {firstName, lastName, dateOfBirth, timezone} → 201 {user, nextBirthdayEvent}
//	GET    /user/{id}            → 200 {user}
//	PUT    /user/{id}            any of those fields → 200 {user, reschedule}
//	PATCH  /user/{id}            the same as application/merge-patch+json → 200 {user, reschedule}
//	DELETE /user/{id}            ?erase=now → 204
//	GET    /user/{id}/events     ?status= type= limit= cursor= → 200 {events, nextCursor}
//	GET    /events               ?status= type= limit= cursor= → 200 {events, nextCursor}
//	GET    /events/{id}          → 200 {event}
//	GET    /healthz              → 200 while the process answers and, by [WithLiveness], lives, else 503
//	GET    /readyz               → 200 while the repository answers and, by [WithReadiness], the program is ready, else 503
//
// A person may also be given attributes, a JSON object of facts that handlers
// need. PUT replaces them as a whole; PATCH, by the rules of RFC 7396, changes those
// that it names and removes those that it names null. Instants are RFC 3339 in UTC with milliseconds, as 2026-03-15T14:00:00.000Z;
// wall times carry no offset, as 2026-03-15T09:00:00. A nextCursor that is not
// null asks for the page that follows. Events are listed in order of creation; see
// [almanac.EventRepository] for what that promises to a program that reads on.
//
// Whoever is deleted cannot be found any more from then on. Their rows stay until
// what is being delivered to them has ended, unless erase=now asks that nothing be
// left of them when the answer comes; see [almanac.Delete].
//
// All but the last two routes, of which an answer is repeated for a second, ask the
// [Authenticator]. Whoever passes it may do
// everything, as suits a host's own programs, unless [WithAuthorization] says who
// may do what to whom. [WithRate] and [WithLimit] bound how much they may do. Under
// [NoAuthentication] only requests for localhost and loopback addresses are answered,
// the last two routes included; others get a 421. The connection of a request whose
// body comes in chunks ends with its answer: see [CloseAfterChunks].
//
// Errors are problem details of RFC 9457, as application/problem+json, with the
// request id of the X-Request-Id header in requestId. Their type is about:blank
// and their title says the status, except for those of three sections below. A path
// has one spelling: with empty or dotted segments it is not found, like any other
// that is unknown, and nobody is sent on.
//
// # Changed by one at a time
//
// A person's version is also the entity tag of GET /user/{id} and of the answers
// to POST, PUT and PATCH, in ETag. A request to change or delete a person whose
// If-Match header does not name the present one is answered 412, as is one whose
// If-None-Match does (RFC 9110, section 13.1). The version is compared once more in
// the transaction, so of two changes that are for one version only one is made.
// GET answers 304 to an If-None-Match that names the present tag. [RequireIfMatch]
// makes the header a duty: without it the answer is 428.
//
// # Created once
//
// POST /user with an Idempotency-Key header, of 1 to 255 ASCII characters in quotes
// (draft-ietf-httpapi-idempotency-key-header-07), creates one person however often
// it is sent. Whoever has no answer can send it again, and is answered 201 as if it
// were the first time, with the person as stored and the birthday event that is open
// now. With the same key and another profile the answer is 422, also after the user was
// changed. While the user of the key is being deleted, the answer is 409. It is 403 where
// [WithAuthorization] says that the request may not be about that user. A refused request
// uses up no key.
//
// The id of the user is made from the key and the principal ([WithPrincipal]), and a
// digest of the first request is stored with the user
// ([almanac.Profile].CreationDigest). Once a user was deleted, their key creates
// another. Under [WithAuthorization] a request without a principal can have no key.
//
// # Locked
//
// A change or deletion of a user whose row another transaction holds is answered 409
// with Retry-After, and nothing is changed. The repository decides how long the request
// waits before: see postgres.WithLockTimeout. A process makes the changes of one user one
// after the other, so they hold at most one connection of the repository. A change that
// has waited five seconds for the one before it gets the same answer.
//
// # Invalid input
//
// A request with a bad body, path, query, entity tag or key is answered 400, with
// every bad field in errors, and nothing is stored:
//
//	{
//	  "type": "https://pkg.go.dev/github.com/almanac-go/almanac/httpapi#hdr-Invalid_input",
//	  "title": "Invalid input",
//	  "status": 400,
//	  "detail": "2 fields are not as they must be",
//	  "errors": [
//	    {"field": "dateOfBirth", "detail": "is in the future"},
//	    {"field": "timezone", "detail": "is not a known time zone; did you mean \"Asia/Tokyo\"?"}
//	  ],
//	  "requestId": "K5RMBQPN7QVFWEAFGTHXXWQWZC"
//	}
//
// The body as a whole is the field "body", a query that cannot be read, or that has
// a parameter without a name, "query", and a header goes by its name.
package httpapi
