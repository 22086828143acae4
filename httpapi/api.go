package httpapi

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/ops"
)

// Reader is the part of an [almanac.Repository] that the API reads from.
type Reader interface {
	// User returns a user, or an [*almanac.NotFoundError].
	User(ctx context.Context, id uuid.UUID) (almanac.User, error)
	// Event returns an event, or an [*almanac.NotFoundError].
	Event(ctx context.Context, id uuid.UUID) (almanac.Event, error)
	// Find returns a page of the events that match spec.
	Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error)
	// Now returns the repository's time. /readyz reports whether the call succeeds.
	Now(ctx context.Context) (time.Time, error)
}

// Option is a setting of the API.
type Option func(*api)

// WithLogger sets the logger: a line per request at Debug, and failures at Error with the request
// id. Lines contain routes and ids, never names, bodies or queries. The default is [slog.Default],
// taken when [New] or [NewAdmin] is called. A logger with [slog.DiscardHandler] writes nothing.
func WithLogger(log *slog.Logger) Option { return func(a *api) { a.log = log } }

// WithReadiness adds a condition to /readyz: while ready returns an error, the answer is
// 503. The error is logged at Debug and not sent to the client.
//
// The conditions are checked at most once a second; in between, /readyz and /healthz repeat their
// last answer. A program that is about to stop should report that here before it stops accepting
// requests. A program that runs a scheduler should check its [almanac.Health]. The function must be
// safe for concurrent use and must return when its context ends, which is after two seconds.
func WithReadiness(ready func(context.Context) error) Option {
	return func(a *api) { a.ready = append(a.ready, ready) }
}

// WithLiveness adds a condition to /healthz, as [WithReadiness] does to /readyz. It is for
// conditions that only a restart clears, such as [almanac.ErrStuck]: a supervisor restarts the
// process when /healthz answers 503.
func WithLiveness(alive func(context.Context) error) Option {
	return func(a *api) { a.alive = append(a.alive, alive) }
}

// WithOptionalProfile accepts users without firstName, lastName or dateOfBirth, and dates
// of birth without the year. By default all three are required. The planner must have the
// option [almanac.WithOptionalProfile]; otherwise it still refuses such users.
func WithOptionalProfile() Option { return func(a *api) { a.optional = true } }

// WithOptionalTimezone accepts users without timezone; null or "" in a change withdraws the zone. By default
// it is required. The planner must have the option [almanac.WithZoneGuess]; otherwise it still refuses such
// users. The member zoneSource of a user says where the zone comes from.
func WithOptionalTimezone() Option { return func(a *api) { a.zoneless = true } }

// rules returns the options by which profiles are checked. No zone that they guess is stored.
func (a *api) rules() (rules []almanac.Option) {
	if a.optional {
		rules = append(rules, almanac.WithOptionalProfile())
	}
	if a.zoneless {
		rules = append(rules, almanac.WithZoneGuess("Pacific/Kiritimati", nil))
	}
	return rules
}

// New returns the API as a handler, safe for concurrent use. Users are stored through the planner. Users
// and events are read from the reader, which usually is the planner's repository. The authenticator
// decides which requests are let in: [BearerToken], a rule of the host's own, or [NoAuthentication].
//
// Under [NoAuthentication] a request is answered 421 unless its Host header names localhost
// or a loopback address: see [NoAuthentication.AllowsHost].
//
// Every request has ten seconds. Slow clients must be bounded by the server: see [Server].
//
// The error names every nil argument, every setting that is out of bounds, and a missing
// [WithPrincipal] with [WithAuthorization].
func New(planner almanac.Planner, reader Reader, auth Authenticator, options ...Option) (http.Handler, error) {
	a := newAPI(planner, reader, auth, options)
	if err := a.check("planner"); err != nil {
		return nil, err
	}
	a.route(a.routes())
	return a, nil
}

func newAPI(planner almanac.Planner, reader Reader, auth Authenticator, options []Option) *api {
	a := &api{planner: planner, reader: reader, access: accessBy(auth), log: slog.Default()}
	for _, option := range options {
		option(a)
	}
	return a
}

type api struct {
	planner almanac.Planner
	reader  Reader
	access
	editing
	mustMatch bool // changes need an If-Match header
	profiles
	hosting
	log *slog.Logger
	bad []error // wrong options
	mux *http.ServeMux
	// unknown answers for paths that mux would redirect.
	unknown http.Handler
	// A body is read as JSON whatever its Content-Type. Therefore the type cannot keep web
	// pages of other origins from posting here, and origins must.
	origins http.CrossOriginProtection
}

// hosting is what a host says about its program.
type hosting struct {
	probes
	explanations ops.WhyOptions    // of the admin API
	sender       *broadcast.Sender // of the admin API; nil means no broadcasts
}

// profiles says which users the API accepts.
type profiles struct {
	optional   bool                                    // users need neither names nor a date of birth
	zoneless   bool                                    // users need no zone
	attributes map[string]func(json.RawMessage) string // by attribute name: returns what is wrong with a value
}

// check returns an error that names every wrong argument and option. The planner has the given name.
func (a *api) check(planner string) error {
	errs := a.bad
	refuse := func(bad bool, what string) {
		if bad {
			errs = append(errs, errors.New("httpapi: "+what+" is nil"))
		}
	}
	refuse(a.planner == nil, planner)
	refuse(a.reader == nil, "reader")
	refuse(a.auth == nil, "authenticator")
	refuse(a.log == nil, "logger")
	refuse(a.may == nil, "authorization")
	refuse(a.principal == nil, "principal")
	refuse(slices.ContainsFunc(a.limits, func(f func(*http.Request) (time.Duration, bool)) bool { return f == nil }), "limit")
	for _, problem := range a.attributes {
		refuse(problem == nil, "problem of an attribute")
	}
	isNil := func(holds condition) bool { return holds == nil }
	refuse(slices.ContainsFunc(a.ready, isNil), "readiness")
	refuse(slices.ContainsFunc(a.alive, isNil), "liveness")
	if a.authorizes && !a.hasPrincipal {
		errs = append(errs, errors.New("httpapi: WithAuthorization needs WithPrincipal: idempotency keys of all callers would be the same"))
	}
	return errors.Join(errs...)
}

// route is one line of the table in the package documentation.
type route struct {
	method, path string
	do           endpoint
}

func (a *api) routes() []route {
	return []route{
		{http.MethodPost, "/user", a.ofAllUsers(a.createUser)},
		{http.MethodGet, "/user/{id}", a.ofUser(a.user)},
		{http.MethodPut, "/user/{id}", a.ofUser(a.updateUser)},
		{http.MethodPatch, "/user/{id}", a.ofUser(a.patchUser)},
		{http.MethodDelete, "/user/{id}", a.ofUser(a.deleteUser)},
		{http.MethodPost, "/user/{id}/opt-out", a.ofUser(a.optOut)},
		{http.MethodPost, "/user/{id}/opt-in", a.ofUser(a.optIn)},
		{http.MethodGet, "/user/{id}/events", a.ofUser(a.userEvents)},
		{http.MethodGet, "/events", a.ofAllUsers(a.events)},
		{http.MethodGet, "/events/{id}", a.protected(a.event)},
		{http.MethodGet, "/openapi.json", a.protected(document(apiDocument))},
		{http.MethodGet, "/healthz", a.healthz},
		{http.MethodGet, "/readyz", a.readyz},
	}
}

// route serves the routes, with JSON answers for wrong methods and unknown paths, which
// net/http would answer in plain text.
func (a *api) route(routes []route) {
	a.mux = http.NewServeMux()
	methods := make(map[string][]string)
	for _, r := range routes {
		a.mux.Handle(r.method+" "+r.path, a.answer(r.do))
		methods[r.path] = append(methods[r.path], r.method)
		if r.method == http.MethodGet { // GET includes HEAD
			methods[r.path] = append(methods[r.path], http.MethodHead)
		}
	}
	for path, allowed := range methods {
		a.mux.Handle(path, a.answer(a.protected(wrongMethod(strings.Join(allowed, ", ")))))
	}
	a.unknown = a.answer(a.protected(func(*http.Request) (reply, error) {
		return reply{}, newProblem(http.StatusNotFound, "there is no such resource")
	}))
	a.mux.Handle("/", a.unknown)
}

func wrongMethod(allowed string) endpoint {
	return func(r *http.Request) (reply, error) {
		p := newProblem(http.StatusMethodNotAllowed, "this resource does not know "+r.Method+"; it knows "+allowed)
		p.header = http.Header{"Allow": {allowed}}
		return reply{}, p
	}
}

// The descriptions of both APIs as OpenAPI 3.1, written by hand: a generator would own the handlers.
// A test compares them with the routes. The module checks compares answers with them.
var (
	//go:embed openapi/api.json
	apiDocument []byte
	//go:embed openapi/admin.json
	adminDocument []byte
)

// document answers with a JSON document.
func document(text []byte) endpoint {
	return func(r *http.Request) (reply, error) {
		var bad complaints
		if queryOf(r, &bad); bad.any() {
			return reply{}, bad.problem()
		}
		return reply{status: http.StatusOK, body: json.RawMessage(text)}, nil
	}
}
