// Package httpapi serves users and their events as JSON over HTTP. [New] returns an API for
// programs, which this section describes. [NewAdmin] returns one for operators: see Administration.
//
//	POST   /user                 {firstName, lastName, dateOfBirth, timezone} → 201 {user, nextBirthdayEvent}
//	GET    /user/{id}            → 200 {user}
//	PUT    /user/{id}            any of those fields → 200 {user, reschedule}
//	PATCH  /user/{id}            the same as application/merge-patch+json → 200 {user, reschedule}
//	DELETE /user/{id}            ?erase=now → 204
//	POST   /user/{id}/opt-out    {type, channel}, each optional → 200 {user, reschedule}
//	POST   /user/{id}/opt-in     the same → 200 {user, reschedule}
//	GET    /user/{id}/events     ?status= type= limit= cursor= → 200 {events, nextCursor}
//	GET    /events               ?status= type= limit= cursor= → 200 {events, nextCursor}
//	GET    /events/{id}          → 200 {event}
//	GET    /openapi.json         → 200, this API as OpenAPI 3.1
//	GET    /healthz              → 200 while the process is alive (see [WithLiveness]), else 503
//	GET    /readyz               → 200 while the repository answers and the program is ready (see [WithReadiness]), else 503
//
// To serve the API below a path of the host, strip that path with [http.StripPrefix]. The
// Location of a created user has the path that was stripped.
//
// firstName, lastName, dateOfBirth (1990-03-15) and timezone are required. Under
// [WithOptionalProfile] only the timezone is. The others are absent from answers when the user has
// none, and null or "" in a request means none. A date of birth may lack its year (--03-15).
// nextBirthdayEvent is null for a user without a date of birth. Under
// [WithOptionalTimezone] the timezone is optional, too. The zoneSource of a user is declared if a
// request gave the timezone, else guessed or default. Null or "" in a change withdraws it. A change may
// have the zoneSource beside the timezone. If the user has both, and the zone is guessed or default, it
// stays so: a client can store back what it has read. Otherwise the zoneSource has no effect. Send If-Match with
// such a change. Without it, the change declares the zone that the client read, even if the zone was guessed anew
// since then.
//
// A date of birth may be by another calendar, which the member calendar names: "hebrew" with
// 5774-05L-08, with an L behind the number of a leap month. It is stored as given. The program knows the
// calendars that it registered ([calendar.RegisterSystems]). A change of the calendar needs the
// date of birth, too. So does a change of a date by another calendar than the Gregorian one need the
// calendar. Events whose keys are years of another calendar have their local day by it in
// calendarDate, and its name in calendar. Both are absent if the program does not know the calendar.
//
// A user may also have a locale (a language tag of BCP 47), an email and an externalId, the
// client's own id of the user as a text; [almanac.Profile] has their formats. They are absent
// from answers when the user has none. In every request, null or "" means none. If another
// user has the externalId, the answer is 409 with the field in errors, and nothing is stored.
//
// A user may have attributes too, a JSON object of facts that handlers need. PUT replaces the
// attributes as a whole. PATCH follows the rules of RFC 7396: it changes the attributes that it
// names and removes those that it sets to null.
//
// Instants are RFC 3339 in UTC with milliseconds, as 2026-03-15T14:00:00.000Z. Wall times carry no
// offset, as 2026-03-15T09:00:00. Pass a nextCursor that is not null as cursor to get the next
// page. Events are listed in order of creation. [almanac.EventRepository] says what that order
// promises to a program that follows a list.
//
// Opt-out stores that the user refuses the events of a type, of a channel, or of a type by
// a channel; {} means everything. With until, a date, the events of that day and later are owed
// again. Opt-in removes exactly the opt-out of the same type and channel. Both can be repeated. The
// optOuts of a user are an array of these objects, which also say since when, by whom (author) and
// for what reason. It is absent if there is none.
// [almanac.Planner] says what becomes of the user's events.
//
// A request that changes a user is answered after the user's events are rescheduled, in the
// same transaction. So reschedule says what has moved.
//
// A deleted user cannot be found any more. The user's rows stay until deliveries under
// way have ended. With erase=now, all rows are deleted before the answer is sent, unless
// there are too many; see [almanac.DeleteOptions].
//
// The [Authenticator] decides about requests to all routes except /healthz and /readyz. These two
// repeat their last answer for a second. An authenticated request may do everything, as suits a
// host's own programs, unless [WithAuthorization] restricts it. [WithRate] and [WithLimit] limit
// requests. Under [NoAuthentication] only requests for localhost and loopback addresses are
// answered, also on /healthz and /readyz; other requests get a 421. The connection of a request
// with a chunked body is closed after the answer: see [CloseAfterChunks].
//
// Errors are problem details of RFC 9457, as application/problem+json, with the request id of the
// X-Request-Id header in requestId. Their type is about:blank and their title says the status,
// except for the errors of three sections below. The errors that net/http answers before it calls
// the handler, such as a 431 for a header that is too large, are plain text. A path with empty or
// dotted segments is not found, like any unknown path, and is not redirected.
//
// # Changed by one at a time
//
// A user's version is also the entity tag of GET /user/{id} and of the answers to POST, PUT and
// PATCH, in ETag. A request to change or delete a user is answered 412 if its If-Match header does
// not name the present tag, or if its If-None-Match header does (RFC 9110, section 13.1). The
// version is compared once more in the transaction, so of two changes for one version only one is
// made. GET answers 304 to an If-None-Match that names the present tag. [RequireIfMatch] makes the
// If-Match header mandatory: without it the answer is 428.
//
// # Created once
//
// POST /user with an Idempotency-Key header, of 1 to 255 ASCII characters in quotes
// (draft-ietf-httpapi-idempotency-key-header-07), creates one user however often it is sent. A
// client that got no answer can send the request again. The answer is 201 as the first time,
// with the user as stored and the birthday event that is open now. A request with the same key
// and another profile is answered 422, also after the user was changed. While the user of the
// key is being deleted, the answer is 409. The answer is 403 if [WithAuthorization] does not
// allow the request for that user. A refused request uses up no key.
//
// The id of the user is made from the key and the principal ([WithPrincipal]), and a digest of the first
// request is stored with the user ([almanac.Profile].CreationDigest). After a user was deleted, the key
// creates another user. Under [WithAuthorization] a request without a principal can have no key.
//
// # Locked
//
// A change or deletion of a user whose row another transaction holds is answered 409 with
// Retry-After, and nothing is changed. The repository decides how long the request waits
// first: see postgres.WithLockTimeout. A process makes the changes of one user one after
// the other, so these changes hold at most one connection of the repository. A change
// that has waited five seconds for an earlier change gets the same answer. An import waits for no
// other change of the process, and holds a connection of its own.
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
// The field "body" means the body as a whole. The field "query" means a query that cannot be read,
// or that has a parameter without a name. For a header, the field is the name of the header.
//
// # Administration
//
// [NewAdmin] returns the admin API, for tools of operators:
//
//	GET    /users                 ?name= email= externalId= zoneSource= limit= cursor= → 200 {users, nextCursor}
//	GET    /users/{id}            → 200 {user}
//	GET    /users/{id}/events     ?status= type= zone= from= until= reason= order= limit= cursor= → 200 {events, nextCursor}
//	POST   /users/{id}/events     {type, at, timezone, followUser, key, payload, gap, fold, move}, all but type and at optional
//	                              → 201 {event, existed, moved}
//	POST   /users/{id}/reschedule → 200 {user, reschedule}
//	GET    /users/{id}/preview    ?type= n= → 200 {occurrences, incomplete, leftOut}
//	GET    /users/{id}/why        ?type= day= → 200 {userId, eventType, day, timezone, at, answers, more, next}
//	POST   /users/{id}/opt-out    {type, channel}, each optional → 200 {user, reschedule}
//	POST   /users/{id}/opt-in     the same → 200 {user, reschedule}
//	GET    /events                ?user= and the parameters of /users/{id}/events → 200 {events, nextCursor}
//	GET    /events/{id}           → 200 {event, lane, wait}
//	POST   /events/{id}/cancel    {reason, version, endSeries}, each optional → 200 {event, successor, unplanned}
//	POST   /events/{id}/run-now   {force}, optional → 200 {event}
//	POST   /events/{id}/requeue   {force}, optional → 201 {event}
//	POST   /types/{type}/backfill {cursor, rate}, each optional
//	                              → 200 {users, events, refused, nextCursor, stopped}
//	POST   /imports               ?existing= line= dryRun=, and a user on each line of the body
//	                              → 200 {dryRun, lines, created, edited, unchanged, refused, refusedLines, stopped, nextLine}
//	POST   /operations            {operation, filter, dryRun, limit, reason, endSeries, force}
//	                              → 200 {operation, dryRun, events, refused, more, stopped, unplanned, requeuedBefore}
//	POST   /roll-outs             {type, dryRun, passed, rate, cursor}
//	                              → 200 {type, dryRun, counts, moves, examples, refused, refusedUsers, stopped, nextCursor}
//	GET    /broadcasts            ?limit= cursor= → 200 {broadcasts, nextCursor}
//	POST   /broadcasts            {name, type, at, instant, passed, payload, audience, newcomers, dryRun}
//	                              → 201 {dryRun, broadcast, existed, preview}
//	GET    /broadcasts/{name}     → 200 {broadcast, progress}
//	DELETE /broadcasts/{name}     → 204
//	POST   /broadcasts/{name}/users    {ids, externalIds} → 200 {added, unknown, unknownExternalIds}
//	POST   /broadcasts/{name}/complete → 200 {broadcast}
//	POST   /broadcasts/{name}/stop     {reason}, optional → 200 {broadcast}
//	POST   /broadcasts/{name}/resume   → 200 {broadcast}
//	GET    /pauses                → 200 {pauses}
//	PUT    /lanes/{lane}/pause    {reason, until} → 204
//	DELETE /lanes/{lane}/pause    → 204
//	GET    /lanes                 → 200 {lanes}
//	PUT    /lanes/{lane}          {rate, burst, places, daily, weight}, one but burst → 204
//	DELETE /lanes/{lane}          → 204
//	GET    /openapi.json          → 200, this API as OpenAPI 3.1
//	GET    /healthz               as above
//	GET    /readyz                as above
//
// What is said above about requests, answers and errors holds here too. Lists of users take
// the beginning of a name, or a whole email or externalId ([almanac.UserFilter]). An unknown
// user is no error, but an empty list.
//
// Lists of events take a range of due instants (from is included, until is not), the beginning of a
// failureReason, and an order: oldest (the default), newest, or next. The order next lists PENDING
// events as they can be claimed ([almanac.NextFirst]). A preview has the next n occurrences, 1 to 1,000,
// by default 10. If a policy refuses a wall time, the preview ends there, and incomplete says why. So it
// does for a birthday by a calendar that the program does not know. An explanation (why) is that of [ops.Why].
//
// POST /users/{id}/events stores one event at a wall time, as [almanac.Planner].ScheduleAt does. The same
// request again is answered 200, with existed true. So is a request with move true, which changes the
// event that has the key. A request that names an event with other options is answered 409, and so is a
// move of an event that was claimed.
//
// POST /types/{type}/backfill stores the events of a type that users lack, as [almanac.Planner].Backfill
// does. The rate is users a second, 1 to 1,000,000; without one there is no limit. The request ends after
// eight seconds. To go on, send nextCursor as cursor, until nextCursor is null.
//
// [almanac.Operator] says what cancel, run-now and requeue do, and [almanac.Operator] what a
// pause does. A request that the state of the event does not allow is answered 409. So a
// cancel or a requeue that is sent again does nothing more. With a version, cancel is
// answered 409 if the event has another one. PUT and DELETE of a pause can be repeated.
//
// In the answer to GET /events/{id}, lane is the lane of the event unless it is that of the type. If the event is available and waits for
// its lane, wait says since when, and how many events of the lane start before it. It also has an estimate of when the event starts.
// GET /lanes has the lanes with limits or a weight, the paused lanes, and those whose receiver fails. It says how many events wait in
// each, and until when. Both need a reader that has these statistics (see [AdminReader]).
//
// POST /operations applies one operation (cancel, run-now or requeue) to the events that match the
// filter, an object with at least one of type, user, zone, from, until and reason. The member dryRun is
// required: true changes nothing, and lists the events that the operation would be applied to. The limit
// is 1 to 10,000, by default 1,000. In the answer, events have no payload, and refused has each event
// that was left unchanged, with the reason. The request ends after eight seconds at the latest. If it
// ends early, stopped says why; more is true if more events may match. Cancelled and delivered events
// have successors, which can match the same filter. So give until, or a repeated cancel cancels the
// successors too, and a repeated run-now delivers them long before their time. A requeue leaves the old
// event FAILED. A repeated requeue leaves it out, and requeuedBefore counts it, so a request that is sent
// again goes on beyond the limit. It meets refused events again: narrow the filter if there are many.
//
// POST /roll-outs plans the pending events of a type again, for all users, as [ops.RollOut] does. The
// members type and dryRun are required, and passed is edit, now or skip. The request ends after eight
// seconds at the latest. Then nextCursor is not null: send it as cursor to go on, and add the counts up.
//
// With [WithBroadcasts], POST /broadcasts starts a broadcast, as [broadcast.Sender] does: name, type, passed,
// dryRun, and at or instant are required. A dry run answers 200 with a preview of when and how many users it would
// reach. A repeated request with the same content answers 200 with the stored broadcast; another content is
// refused with 409. Without the option, these routes are answered 404.
//
// POST /imports takes JSON lines (application/x-ndjson): on each line a user as in POST /user, with an id or
// an externalId or both. The user of a line is known by the id, or else by the externalId.
//
//   - A new user is created.
//   - A user who exists stays unchanged. If the line says the same, unchanged counts it. Otherwise the line
//     is refused with 409.
//   - With existing=edit, a line is a merge patch of a user who exists, as in PATCH /user/{id}. Only what
//     differs is written.
//   - With dryRun=true, nothing is stored. The answer counts what would be done. Each line is compared with
//     what is stored now, so two lines of a new user count as two.
//
// Each line has one outcome, so created, edited, unchanged and refusedLines add up to the lines that are
// not empty. Refused lists the first 1,000 lines that were refused, as they would have been answered
// alone; the field "line" means the line as a whole. Lines of one user are applied in their order.
//
// A user who is locked, or whose handler does not return, delays an import by a few seconds at most. The
// line is then refused with 409. If a handler or the repository panics, the request is answered 500.
//
// A line may have 256 KiB. The body may have any length and is read as a stream, but the request ends after
// eight seconds. Then stopped says why. To go on, send the lines from nextLine on with the parameter line,
// which is the number of the first line of a body. A request can end in the middle of a page, such as when
// the database fails, the connection breaks or users are locked. Then some of these lines may be stored
// already. They count as unchanged.
//
// Under [WithAuthorization], lists, imports, operations, roll-outs, broadcasts and pauses are requests for all users. Other
// requests are for the user in the path, or for the user of the event. Names and addresses in
// a query can get into the access logs of proxies. This package does not log queries.
package httpapi
