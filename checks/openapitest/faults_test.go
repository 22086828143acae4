package openapitest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/httpapi"
)

// opener opens one of the APIs of an office.
type opener func(*office, *testing.T, ...httpapi.Option) http.Handler

// faults sends a valid request for every operation to APIs that cannot answer it.
type faults struct {
	*described
	*office
	open        opener
	user, event string // ids
}

// bodies are those of valid requests, by the end of the path.
var bodies = map[operation]string{
	{"POST", "/user"}:              `{"firstName":"A","lastName":"B","dateOfBirth":"1990-01-01","timezone":"UTC"}`,
	{"PUT", "/user/{id}"}:          `{"firstName":"A"}`,
	{"PATCH", "/user/{id}"}:        `{"firstName":"A"}`,
	{"POST", "opt-out"}:            `{"type":"BIRTHDAY"}`,
	{"POST", "opt-in"}:             `{"channel":"mail"}`,
	{"PUT", "/lanes/{lane}"}:       `{"places":1}`,
	{"POST", "/users/{id}/events"}: `{"type":"ONE_OFF","at":"2099-12-09T09:00:00"}`,
	{"POST", "/operations"}:        `{"operation":"cancel","filter":{"type":"BIRTHDAY"},"dryRun":false}`,
	{"POST", "/broadcasts"}:        `{"name":"sale","type":"ONE_OFF","at":"2099-12-09T09:00:00","passed":"skip","dryRun":false}`,
	{"POST", "users"}:              `{"externalIds":["7"]}`,
	{"POST", "/imports"}:           `{"externalId":"7","firstName":"A","lastName":"B","dateOfBirth":"1990-01-01","timezone":"UTC"}`,
	{"POST", "/roll-outs"}:         `{"type":"BIRTHDAY","dryRun":false}`,
}

// valid returns a valid request for an operation.
func (f faults) valid(op operation) request {
	id := f.user
	if strings.HasPrefix(op.path, "/events/") {
		id = f.event
	}
	r := request{method: op.method, target: strings.NewReplacer("{id}", id, "{lane}", "BIRTHDAY", "{name}", "sale", "{type}", "BIRTHDAY").Replace(op.path)}
	last := op.path[strings.LastIndex(op.path, "/")+1:]
	if r.body = bodies[op]; r.body == "" {
		r.body = bodies[operation{op.method, last}]
	}
	switch last {
	case "preview":
		r.target += "?type=BIRTHDAY"
	case "why":
		r.target += "?type=BIRTHDAY&day=2026-12-09"
	}
	switch {
	case op.method == "PATCH":
		r.header = []string{"Content-Type: application/merge-patch+json"}
	case last == "imports":
		r.header = []string{lines}
	}
	return r
}

// test causes the documented faults of each operation.
func (f faults) test(t *testing.T) {
	t.Helper()
	refuse := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	full := httpapi.WithLimit(func(*http.Request) (time.Duration, bool) { return time.Minute, false })
	broken := []httpapi.Option{
		httpapi.WithLimit(func(*http.Request) (time.Duration, bool) { panic("limit") }),
		httpapi.WithLiveness(func(context.Context) error { panic("liveness") }), httpapi.WithReadiness(func(context.Context) error { panic("readiness") }),
	}
	denied := []httpapi.Option{
		httpapi.WithPrincipal(func(*http.Request) string { return "grace" }),
		httpapi.WithAuthorization(func(_ *http.Request, user uuid.UUID) (bool, error) { return user != uuid.Nil, nil }),
	}
	guarded := *f.office
	guarded.auth = httpapi.BearerToken("secret")
	away := openOffice(t, down{f.repository, context.DeadlineExceeded})
	handlers := map[int]http.Handler{
		400: f.open(f.office, t), 401: f.open(&guarded, t), 403: f.open(f.office, t, denied...), 404: f.open(f.office, t),
		409: f.open(openOffice(t, locked{f.repository}), t), 412: f.open(f.office, t), 421: f.open(f.office, t),
		428: f.open(f.office, t, httpapi.RequireIfMatch()), 429: f.open(f.office, t, full), 500: f.open(f.office, t, broken...),
		503: f.open(away, t, httpapi.WithLiveness(refuse(errors.New("stuck")))),
	}
	for op, statuses := range f.statuses {
		for _, status := range statuses {
			if h, ok := handlers[status]; ok && !f.seen[op][status] {
				f.send(t, h, status, f.fault(f.valid(op), op, status))
			}
		}
	}
}

// fault changes a valid request so that its answer has the given status, if the API alone is
// not the reason.
func (f faults) fault(r request, op operation, status int) request {
	switch {
	case status == http.StatusBadRequest && strings.Contains(r.target, "?"):
		r.target += "&x=1"
	case status == http.StatusBadRequest:
		r.target += "?x=1"
	case status == http.StatusForbidden && op.method != http.MethodGet:
		r.header = append(r.header, "Sec-Fetch-Site: cross-site")
	case status == http.StatusNotFound:
		r.target = strings.NewReplacer(f.user, stranger, f.event, stranger, "BIRTHDAY/pause", "RENEWAL/pause", "/lanes/BIRTHDAY", "/lanes/RENEWAL", "/types/BIRTHDAY", "/types/RENEWAL", "/sale", "/other").Replace(r.target)
	case status == http.StatusPreconditionFailed:
		r.header = append(r.header, `If-Match: "99"`)
	case status == http.StatusMisdirectedRequest:
		r.header = append(r.header, "Host: example.com")
	}
	return r
}

// Probes have no limit of their own: only the refusals of other hosts are counted.
func (f faults) testProbes(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz"} {
		h := f.open(f.office, t, httpapi.WithRate(0.001, 1))
		other := request{method: "GET", target: path, header: []string{"Host: example.com"}}
		f.send(t, h, http.StatusMisdirectedRequest, other)
		f.send(t, h, http.StatusTooManyRequests, other)
	}
}
