// Package httpapi serves people and what they are owed as JSON over HTTP.
//
//	POST   /user                 {firstName, lastName, dateOfBirth, timezone} → 201 {user, nextBirthdayEvent}
//	GET    /user/{id}            → 200 {user}
//	PUT    /user/{id}            any of those fields → 200 {user, reschedule}
//	DELETE /user/{id}            → 204
//	GET    /user/{id}/events     ?status= type= limit= cursor= → 200 {events, nextCursor}
//	GET    /events               ?status= type= limit= cursor= → 200 {events, nextCursor}
//	GET    /events/{id}          → 200 {event}
//	GET    /healthz              → 200 while the process answers
//	GET    /readyz               → 200 while the repository answers, else 503
//
// A person may also be given attributes, a JSON object of facts that handlers
// need. Instants are RFC 3339 in UTC with milliseconds, as 2026-03-15T14:00:00.000Z;
// wall times carry no offset, as 2026-03-15T09:00:00. A nextCursor that is not
// null asks for the page that follows.
//
// All but the last two routes ask the [Authenticator]. Whoever passes it may do
// everything: the API is for a host's own programs, not for the people in it.
//
// Errors are problem details of RFC 9457, as application/problem+json, with the
// request id of the X-Request-Id header in requestId. Their type is about:blank
// and their title says the status, except for one.
//
// # Invalid input
//
// A request with a bad body, path or query is answered 400, with every bad field
// in errors, and nothing is stored:
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
// The body as a whole is the field "body", a query that cannot be read "query".
package httpapi
