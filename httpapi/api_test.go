package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/httpapi"
)

// today is the repository's time in all tests: a Sunday, and already Monday in Auckland.
var today = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// grace is a valid user.
const grace = `{"firstName":"Grace","lastName":"Hopper","dateOfBirth":"1906-12-09","timezone":"America/New_York"}`

// site is an API with an in-memory repository.
type site struct {
	t          *testing.T
	repository almanac.Repository
	scheduler  almanac.Scheduler
	log        *bytes.Buffer
	handler    http.Handler
	admin      http.Handler
}

// open returns a site whose API needs no authentication.
func open(t *testing.T) *site {
	t.Helper()
	return openOn(t, newRepository(), httpapi.NoAuthentication{})
}

func newRepository() almanac.Repository {
	return almanactest.NewRepository(func() time.Time { return today })
}

func openOn(t *testing.T, r almanac.Repository, auth httpapi.Authenticator, options ...httpapi.Option) *site {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	deliver := almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(nil))
	// The API keeps its own rule, whatever the scheduler accepts.
	scheduler, err := almanac.NewScheduler(r, registry, deliver, almanac.WithOptionalProfile(), almanac.WithZoneGuess("Etc/UTC", ofVienna))
	require.NoError(t, err)
	return openWith(t, scheduler, r, auth, options...)
}

// ofVienna guesses the zone of users whose locale is Austrian.
func ofVienna(u almanac.User) string {
	if strings.HasSuffix(u.Locale, "-AT") {
		return "Europe/Vienna"
	}
	return ""
}

func openWith(t *testing.T, scheduler almanac.Scheduler, r almanac.Repository, auth httpapi.Authenticator, options ...httpapi.Option) *site {
	t.Helper()
	s := &site{t: t, repository: r, scheduler: scheduler, log: new(bytes.Buffer)}
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	options = append(options, httpapi.WithLogger(log))
	var err error
	s.handler, err = httpapi.New(scheduler, r, auth, options...)
	require.NoError(t, err)
	s.admin, err = httpapi.NewAdmin(scheduler, r, auth, options...)
	require.NoError(t, err)
	return s
}

// administration returns the site whose requests go to the admin API.
func (s *site) administration() *site {
	admin := *s
	admin.handler = s.admin
	return &admin
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request; header lines are "Name: value".
func (s *site) send(method, target, body string, header ...string) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(body))
	return s.do(r, header...)
}

// ask sends a request for a URL that http.NewRequest might refuse to parse.
func (s *site) ask(method string, target *url.URL, header ...string) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, "/", nil)
	r.URL = target
	return s.do(r, header...)
}

func (s *site) do(r *http.Request, header ...string) answer {
	s.t.Helper()
	r.Host = "localhost"
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	response := w.Result()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return answer{response.StatusCode, response.Header, string(text)}
}

// object decodes an answer as a JSON object.
func (s *site) object(a answer) map[string]any {
	s.t.Helper()
	var object map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(a.body), &object), a.body)
	return object
}

// problem decodes an answer as a problem of the given status.
func (s *site) problem(a answer, status int) map[string]any {
	s.t.Helper()
	require.Equal(s.t, status, a.status, a.body)
	require.Equal(s.t, "application/problem+json", a.header.Get("Content-Type"))
	p := s.object(a)
	require.EqualValues(s.t, status, p["status"])
	require.NotEmpty(s.t, p["type"])
	require.NotEmpty(s.t, p["title"])
	require.Equal(s.t, a.header.Get("X-Request-Id"), p["requestId"])
	return p
}

// complaints returns the details of a 400, by field.
func (s *site) complaints(a answer) map[string]string {
	s.t.Helper()
	errs, ok := s.problem(a, http.StatusBadRequest)["errors"].([]any)
	require.True(s.t, ok, a.body)
	byField := make(map[string]string)
	for _, e := range errs {
		field := e.(map[string]any)
		byField[field["field"].(string)] = field["detail"].(string)
	}
	require.Len(s.t, byField, len(errs), "each field is named once")
	return byField
}

// create stores a user and returns the user and the event of the answer.
func (s *site) create(body string) (user, event map[string]any) {
	s.t.Helper()
	a := s.send("POST", "/user", body)
	require.Equal(s.t, http.StatusCreated, a.status, a.body)
	object := s.object(a)
	return object["user"].(map[string]any), object["nextBirthdayEvent"].(map[string]any)
}

// nothing requires that nothing is stored.
func (s *site) nothing() {
	s.t.Helper()
	n, err := s.repository.Count(s.t.Context(), nil)
	require.NoError(s.t, err)
	require.Zero(s.t, n, "events stored")
}

func TestNewNamesEveryMissingArgument(t *testing.T) {
	t.Parallel()

	options := []httpapi.Option{httpapi.WithLogger(nil), httpapi.WithReadiness(nil),
		httpapi.WithAuthorization(nil), httpapi.WithPrincipal(nil), httpapi.WithLimit(nil)}
	common := []string{"reader", "authenticator", "logger", "readiness", "authorization", "principal", "limit"}

	_, err := httpapi.New(nil, nil, nil, options...)
	for _, what := range append(common, "planner") {
		require.ErrorContains(t, err, what+" is nil")
	}
	_, err = httpapi.NewAdmin(nil, nil, nil, options...)
	for _, what := range append(common, "scheduler") {
		require.ErrorContains(t, err, what+" is nil")
	}
}
