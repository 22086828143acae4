package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/httpapi"
)

const stranger = "018f6a2b-7c1d-7e3f-8a4b-5c6d7e8f9a0b"

func TestUnknownUsersAndPathsAreNotFound(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, request := range []struct{ method, target, body string }{
		{"GET", "/user/" + stranger, ""},
		{"PUT", "/user/" + stranger, `{"firstName":"A"}`},
		{"PUT", "/user/" + stranger, `{}`},
		{"PUT", "/user/" + stranger, `{"firstName":1}`},
		{"DELETE", "/user/" + stranger, ""},
		{"GET", "/user/" + stranger + "/events", ""},
		{"GET", "/events/" + stranger, ""},
		{"GET", "/", ""},
		{"GET", "/users", ""},
		{"POST", "/user/", grace},
	} {
		s.problem(s.send(request.method, request.target, request.body), http.StatusNotFound)
	}
}

// net/http would redirect to a cleaned path, as plain text and before authentication.
func TestUncleanPathsAreNotFoundAndNotRedirected(t *testing.T) {
	t.Parallel()
	s, guarded := open(t), openOn(t, newRepository(), httpapi.BearerToken("secret"))
	for _, path := range []string{
		"//", "/./", "/../", "/.", "//events", "/events//", "/user/../events", "/user//events", "/user/./x", "/events/..", "/healthz/../user",
		"//example.com/events", "/%2e%2e//x", "/healthz//", "//readyz",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "CONNECT", "DELETE"} {
			// Not parsed: in a URL that starts with two slashes, a host follows.
			ask := func(s *site, header ...string) answer {
				return s.ask(method, &url.URL{Path: path, RawQuery: "x=y"}, header...)
			}

			s.problem(ask(s), http.StatusNotFound)
			s.problem(ask(guarded), http.StatusUnauthorized)
			s.problem(ask(guarded, "Authorization: Bearer secret"), http.StatusNotFound)
		}
	}
	require.Equal(t, http.StatusOK, s.send("GET", "/events", "").status)
	s.problem(s.send("GET", "/user/%2e%2e/events", ""), http.StatusBadRequest) // an invalid id
}

func TestWrongMethodsAreAnsweredWithTheAllowedOnes(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"/user":                         "POST",
		"/user/" + stranger:             "GET, HEAD, PUT, PATCH, DELETE",
		"/user/" + stranger + "/events": "GET, HEAD",
		"/events":                       "GET, HEAD",
		"/events/" + stranger:           "GET, HEAD",
		"/healthz":                      "GET, HEAD",
		"/readyz":                       "GET, HEAD",
	}
	s := open(t)
	for path, allowed := range tests {
		a := s.send("OPTIONS", path, "")

		s.problem(a, http.StatusMethodNotAllowed)
		require.Equal(t, allowed, a.header.Get("Allow"), path)
	}
}

func TestTheContentTypeOfABodyIsIgnored(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"application/json", "application/x-www-form-urlencoded", "text/plain", "what;;"} {
		s := open(t)
		require.Equal(t, http.StatusCreated, s.send("POST", "/user", grace, "Content-Type: "+kind).status, kind)
	}
}

func TestPagesOfAnotherOriginChangeNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header []string
		status int
	}{
		"a program":                        {nil, http.StatusCreated},
		"a page of ours":                   {[]string{"Sec-Fetch-Site: same-origin"}, http.StatusCreated},
		"a page of another site":           {[]string{"Sec-Fetch-Site: cross-site"}, http.StatusForbidden},
		"a page in an older browser":       {[]string{"Origin: https://evil.example"}, http.StatusForbidden},
		"a form, which needs no preflight": {[]string{"Sec-Fetch-Site: cross-site", "Content-Type: text/plain"}, http.StatusForbidden},
	}
	for name, tt := range tests {
		s := open(t)

		a := s.send("POST", "/user", grace, tt.header...)

		require.Equal(t, tt.status, a.status, name)
		if tt.status != http.StatusCreated {
			s.problem(a, tt.status)
			s.nothing()
		}
	}
}

func TestOnlyAValidTokenIsLetIn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header    []string
		challenge string // "" means let in
	}{
		"no credentials":       {nil, `Bearer realm="almanac"`},
		"another scheme":       {[]string{"Authorization: Basic c2VjcmV0"}, `Bearer realm="almanac"`},
		"a wrong token":        {[]string{"Authorization: Bearer secret2"}, `Bearer realm="almanac", error="invalid_token"`},
		"a part of the token":  {[]string{"Authorization: Bearer secre"}, `Bearer realm="almanac", error="invalid_token"`},
		"an empty token":       {[]string{"Authorization: Bearer "}, `Bearer realm="almanac", error="invalid_token"`},
		"the token":            {[]string{"Authorization: Bearer secret"}, ""},
		"the token to come":    {[]string{"Authorization: bearer next"}, ""},
		"two headers with one": {[]string{"Authorization: Bearer x", "Authorization: Bearer secret"}, `Bearer realm="almanac"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openOn(t, newRepository(), httpapi.BearerToken("", "secret", "next"))

			a := s.send("POST", "/user", grace, tt.header...)

			if tt.challenge == "" {
				require.Equal(t, http.StatusCreated, a.status, a.body)
				return
			}
			s.problem(a, http.StatusUnauthorized)
			require.Equal(t, tt.challenge, a.header.Get("WWW-Authenticate"))
			s.nothing()
		})
	}
}

func TestEveryRouteButHealthAsksForTheToken(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.BearerToken())
	for _, target := range []string{"/user/" + stranger, "/user/x/events", "/events", "/events/x", "/nowhere", "/user"} {
		s.problem(s.send("GET", target, ""), http.StatusUnauthorized)
	}
	for _, target := range []string{"/healthz", "/readyz"} {
		require.Equal(t, http.StatusOK, s.send("GET", target, "").status, target)
	}
}

// broken is a repository that fails with a given error.
type broken struct {
	almanac.Repository
	fail func(ctx context.Context) error
}

func (b broken) User(ctx context.Context, _ uuid.UUID) (almanac.User, error) {
	return almanac.User{}, b.fail(ctx)
}

func (b broken) Now(ctx context.Context) (time.Time, error) { return today, b.fail(ctx) }

// driverError is an error as a database driver returns it.
type driverError struct{ code string }

func (e driverError) Error() string    { return "ERROR: SELECT secret FROM vault (" + e.code + ")" }
func (e driverError) SQLState() string { return e.code }

func TestInternalErrorsAreLoggedAndNotSent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fail   func(ctx context.Context) error
		status int
	}{
		"an error of the database": {func(context.Context) error { return driverError{"42P01"} }, 500},
		"an unknown error":         {func(context.Context) error { return errors.New("secret") }, 500},
		"a panic":                  {func(context.Context) error { panic("secret") }, 500},
		"too many connections":     {func(context.Context) error { return fmt.Errorf("x: %w", driverError{"53300"}) }, 503},
		"a server that stops":      {func(context.Context) error { return driverError{"57P01"} }, 503},
		"a deadline":               {func(context.Context) error { return fmt.Errorf("secret: %w", context.DeadlineExceeded) }, 503},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openOn(t, broken{newRepository(), tt.fail}, httpapi.NoAuthentication{})

			a := s.send("GET", "/user/"+stranger, "", "X-Request-Id: a.b-c_1")

			s.problem(a, tt.status)
			require.NotContains(t, a.body, "secret")
			require.NotContains(t, a.body, "SELECT")
			require.NotContains(t, a.body, ".go")
			require.Contains(t, s.log.String(), "request_id=a.b-c_1")
			require.Contains(t, s.log.String(), "level=ERROR")
		})
	}
}

// The answer says that its id leads to the reason in the log. It does without WithLogger too.
func TestFailuresAreLoggedByDefault(t *testing.T) { // not parallel: the default logger is global
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	scheduler := open(t).scheduler
	api, err := httpapi.New(scheduler, broken{newRepository(), func(context.Context) error { return errors.New("the disk is full") }}, httpapi.NoAuthentication{})
	require.NoError(t, err)
	s := &site{t: t, handler: api}

	s.problem(s.send("GET", "/user/"+stranger, "", "X-Request-Id: a.b-c_1"), http.StatusInternalServerError)

	require.Contains(t, log.String(), "request_id=a.b-c_1")
	require.Contains(t, log.String(), "the disk is full")
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "lines at Debug are not written")
}

func TestRequestsHaveADeadline(t *testing.T) {
	t.Parallel()
	var deadline time.Time
	s := openOn(t, broken{newRepository(), func(ctx context.Context) error {
		deadline, _ = ctx.Deadline()
		return nil
	}}, httpapi.NoAuthentication{})

	for path, limit := range map[string]time.Duration{"/user/" + stranger: 10 * time.Second, "/readyz": 2 * time.Second} {
		began := time.Now()
		s.send("GET", path, "")
		require.WithinRange(t, deadline, began.Add(limit), time.Now().Add(limit), path)
	}
}

func TestAnExistingIdIsAConflict(t *testing.T) {
	t.Parallel()
	s := openOn(t, broken{newRepository(), func(context.Context) error {
		return fmt.Errorf("create: %w", almanac.ErrExists)
	}}, httpapi.NoAuthentication{})

	s.problem(s.send("GET", "/user/"+stranger, ""), http.StatusConflict)
}

func TestEveryAnswerHasARequestIDAndIsNotCached(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ sent, want string }{
		"a good id is kept":       {"Trace_1.2-3", `^Trace_1\.2-3$`},
		"a missing one is made":   {"", `^[A-Z2-7]{26}$`},
		"a bad one is replaced":   {"a b\"", `^[A-Z2-7]{26}$`},
		"a long one is replaced":  {strings.Repeat("x", 65), `^[A-Z2-7]{26}$`},
		"a split one is replaced": {"a\nlevel=INFO", `^[A-Z2-7]{26}$`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for _, target := range []string{"/healthz", "/events", "/nowhere"} {
				a := s.send("GET", target, "", "X-Request-Id: "+tt.sent)

				require.Regexp(t, tt.want, a.header.Get("X-Request-Id"))
				require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
				require.Equal(t, "no-store", a.header.Get("Cache-Control"))
			}
		})
	}
}

func TestLogsContainNoPersonalData(t *testing.T) {
	t.Parallel()
	s := open(t)
	user, _ := s.create(grace)
	s.send("PUT", "/user/"+user["id"].(string), `{"firstName":"Amazing"}`)
	s.send("GET", "/user/Hopper", "")
	s.send("GET", "/events?type=Hopper", "")
	s.send("GET", "/Hopper", "")

	require.Contains(t, s.log.String(), `route="PUT /user/{id}"`)
	for _, name := range []string{"Grace", "Hopper", "Amazing"} {
		require.NotContains(t, s.log.String(), name)
	}
}

func TestReadyzReturnsOnlyAStatus(t *testing.T) {
	t.Parallel()
	down := func(context.Context) error { return driverError{"57P03"} }
	up := func(context.Context) error { return nil }
	tests := map[string]struct {
		repository, condition func(context.Context) error
		status                int
	}{
		"all is well":                {up, up, http.StatusOK},
		"the repository is away":     {down, up, http.StatusServiceUnavailable},
		"the program is not willing": {up, down, http.StatusServiceUnavailable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openOn(t, broken{newRepository(), tt.repository}, httpapi.BearerToken(), httpapi.WithReadiness(tt.condition))

			a := s.send("GET", "/readyz", "")

			require.Equal(t, tt.status, a.status)
			if tt.status != http.StatusOK {
				require.ElementsMatch(t, []string{"type", "title", "status", "requestId"}, keys(s.problem(a, tt.status)))
			}
			require.Equal(t, http.StatusOK, s.send("GET", "/healthz", "").status)
		})
	}
}

func TestHealthzReportsLiveness(t *testing.T) {
	t.Parallel()
	stuck := func(context.Context) error { return almanac.ErrStuck }
	s := openOn(t, newRepository(), httpapi.BearerToken(), httpapi.WithLiveness(stuck))

	a := s.send("GET", "/healthz", "")

	require.ElementsMatch(t, []string{"type", "title", "status", "requestId"}, keys(s.problem(a, http.StatusServiceUnavailable)))
	require.Equal(t, http.StatusOK, s.send("GET", "/readyz", "").status)
}

func keys(object map[string]any) []string {
	var names []string
	for name := range object {
		names = append(names, name)
	}
	return names
}

func TestServerBoundsSlowClients(t *testing.T) {
	t.Parallel()

	s := httpapi.Server("127.0.0.1:0", http.NotFoundHandler())

	require.Equal(t, 5*time.Second, s.ReadHeaderTimeout)
	require.Positive(t, s.ReadTimeout)
	require.Positive(t, s.WriteTimeout)
	require.Positive(t, s.IdleTimeout)
	require.Positive(t, s.MaxHeaderBytes)
}

// incurable is a planner whose refusal contains internal details.
type incurable struct{ almanac.Repository }

func (incurable) CreateUsers(context.Context, []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	cause := errors.New("open /secret/zoneinfo: permission denied")
	zone := &calendar.InvalidTimezoneError{Name: "America/New_York", NoData: true, Err: cause}
	return nil, &almanac.ValidationError{Fields: []almanac.FieldError{{Field: "timezone", Problem: "is bad: " + cause.Error(), Err: zone}}}
}

func TestTheReasonForMissingZoneDataIsNotSent(t *testing.T) {
	t.Parallel()
	s := openOn(t, incurable{newRepository()}, httpapi.NoAuthentication{})

	got := s.complaints(s.send("POST", "/user", grace))

	require.Equal(t, map[string]string{"timezone": "is a time zone for which there is no data here"}, got)
}
