package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// newHostFor returns a dashboard with the given rule of access.
func newHostFor(t *testing.T, options ...Option) host {
	t.Helper()
	h := newHost(t)
	made, err := New(h.scheduler, h.repository, append([]Option{WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
	require.NoError(t, err)
	h.Handler = made
	return h
}

// send sends a request with headers, and a form unless it is nil.
func (h host) send(t *testing.T, method, target string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// allExcept permits everything but the given actions.
func allExcept(refused ...Action) Option {
	return WithPermissions(func(_ *http.Request, a Action, _ uuid.UUID) (bool, error) { return !slices.Contains(refused, a), nil })
}

// failEvent lets an event fail.
func (h host) failEvent(t *testing.T, e almanac.Event, reason string) almanac.Event {
	t.Helper()
	claimed, err := e.Claim(uuid.New())
	require.NoError(t, err)
	claimed, err = h.repository.Update(t.Context(), claimed, e.Version)
	require.NoError(t, err)
	failed, err := claimed.Fail(reason)
	require.NoError(t, err)
	failed, err = h.repository.Update(t.Context(), failed, claimed.Version)
	require.NoError(t, err)
	return failed
}

// changeCase is a form that changes something.
type changeCase struct {
	route  string // in routes
	needs  []Action
	target func(t *testing.T, h host) (path string, form url.Values)
}

// changes has a form for each POST route. A route that is not here fails a test.
var changes = map[string]changeCase{
	"cancel": {"/events/{id}/{operation}", []Action{Look, Cancel}, func(t *testing.T, h host) (string, url.Values) {
		return "/events/" + h.createUser(t, ada()).Events[0].ID.String() + "/cancel", url.Values{"reason": {"asked to"}}
	}},
	"run now": {"/events/{id}/{operation}", []Action{Look, RunNow}, func(t *testing.T, h host) (string, url.Values) {
		return "/events/" + h.createUser(t, ada()).Events[0].ID.String() + "/run-now", url.Values{}
	}},
	"requeue": {"/events/{id}/{operation}", []Action{Look, Requeue}, func(t *testing.T, h host) (string, url.Values) {
		return "/events/" + h.failEvent(t, h.createUser(t, ada()).Events[0], "gone").ID.String() + "/requeue", url.Values{}
	}},
	"cancel many":  {"/operations", []Action{Look, Cancel}, confirmed("cancel", false)},
	"run many":     {"/operations", []Action{Look, RunNow}, confirmed("run-now", false)},
	"requeue many": {"/operations", []Action{Look, Requeue}, confirmed("requeue", true)},
	"reconcile": {"/zones/reconcile", []Action{Look, Reconcile}, func(t *testing.T, h host) (string, url.Values) {
		h.createUser(t, ada())
		return "/zones/reconcile", url.Values{"confirm": {"yes"}}
	}},
	"roll out": {"/roll-out", []Action{Look, RollOut}, func(t *testing.T, h host) (string, url.Values) {
		_, _, err := almanactest.CreateUser(t.Context(), h.repository, almanactest.User()) // without events
		require.NoError(t, err)
		return "/roll-out", url.Values{"type": {"BIRTHDAY"}, "confirm": {"yes"}}
	}},
	"start a broadcast": {"/broadcasts", []Action{Look, Broadcast}, func(*testing.T, host) (string, url.Values) {
		return "/broadcasts", url.Values{"do": {"start"}, "name": {"sale"}, "type": {"BIRTHDAY"}, "at": {"2999-01-02T10:00"}, "passed": {"skip"}, "confirm": {"yes"}}
	}},
	"stop a broadcast": {"/broadcasts", []Action{Look, Broadcast}, func(t *testing.T, h host) (string, url.Values) {
		h.startSale(t)
		return "/broadcasts", url.Values{"do": {"stop"}, "name": {"sale"}, "reason": {"wrong price"}}
	}},
	"resume a broadcast": {"/broadcasts", []Action{Look, Broadcast}, func(t *testing.T, h host) (string, url.Values) {
		h.startSale(t)
		_, err := h.sender.Stop(t.Context(), "sale", "")
		require.NoError(t, err)
		return "/broadcasts", url.Values{"do": {"resume"}, "name": {"sale"}}
	}},
	"pause": {"/pauses", []Action{Look, PauseTypes}, func(*testing.T, host) (string, url.Values) {
		return "/pauses", url.Values{"type": {"BIRTHDAY"}, "do": {"pause"}}
	}},
	"opt out": {"/users/{id}/opt-outs", []Action{Look, EditOptOuts}, func(t *testing.T, h host) (string, url.Values) {
		return "/users/" + h.createUser(t, ada()).User.ID.String() + "/opt-outs", url.Values{"do": {"out"}, "all": {"true"}}
	}},
	"opt in": {"/users/{id}/opt-outs", []Action{Look, EditOptOuts}, func(t *testing.T, h host) (string, url.Values) {
		p := ada()
		p.OptOuts = []almanac.OptOut{{Type: "BIRTHDAY"}}
		return "/users/" + h.createUser(t, p).User.ID.String() + "/opt-outs", url.Values{"do": {"in"}, "type": {"BIRTHDAY"}}
	}},
	"limit": {"/lanes", []Action{Look, PauseTypes}, func(*testing.T, host) (string, url.Values) {
		return "/lanes", url.Values{"lane": {"BIRTHDAY"}, "do": {"set"}, "rate": {"50"}}
	}},
	"resume": {"/pauses", []Action{Look, PauseTypes}, func(t *testing.T, h host) (string, url.Values) {
		require.NoError(t, h.scheduler.Pause(t.Context(), almanac.Pause{Lane: "BIRTHDAY"}))
		return "/pauses", url.Values{"type": {"BIRTHDAY"}, "do": {"resume"}}
	}},
}

// confirmed is a confirmed operation on the events of a new user.
func confirmed(operation string, failed bool) func(t *testing.T, h host) (string, url.Values) {
	return func(t *testing.T, h host) (string, url.Values) {
		e := h.createUser(t, ada()).Events[0]
		if failed {
			e = h.failEvent(t, e, "gone")
		}
		return "/operations", url.Values{"operation": {operation}, "user": {e.UserID.String()}, "seen": {"1"}, "last": {e.ID.String()}}
	}
}

// state is all that changes change.
func (h host) state(t *testing.T) any {
	t.Helper()
	found, err := h.repository.Find(t.Context(), nil, almanac.Page{Limit: 1000})
	require.NoError(t, err)
	paused, err := h.repository.Paused(t.Context())
	require.NoError(t, err)
	book, err := h.repository.ZoneRules(t.Context())
	require.NoError(t, err)
	lanes, err := h.repository.Lanes(t.Context())
	require.NoError(t, err)
	broadcasts, err := h.repository.Broadcasts(t.Context(), "", 1000)
	require.NoError(t, err)
	return []any{found.Items, paused, lanes, book.Rules, broadcasts}
}

func TestEveryRouteThatChangesIsTested(t *testing.T) {
	t.Parallel()
	d := newHost(t).Handler.(*dashboard)
	tested := map[string]bool{}
	for _, c := range changes {
		tested[c.route] = true
	}
	for _, one := range d.routes() {
		require.True(t, one.method == http.MethodGet || tested[one.path], "add %s to changes", one.path)
	}
}

func TestEachChangeNeedsItsPermission(t *testing.T) {
	t.Parallel()
	all := []Action{Look, SeeNames, SeePayloads, Cancel, RunNow, Requeue, PauseTypes, EditOptOuts, Reconcile, RollOut, Broadcast}
	for name, c := range changes {
		for _, missing := range append(all, "") {
			t.Run(name+" without "+string(missing), func(t *testing.T) {
				t.Parallel()
				h := newHost(t, allExcept(missing))
				path, form := c.target(t, h)
				before := h.state(t)
				w := h.send(t, http.MethodPost, path, form, "Sec-Fetch-Site", "same-origin")
				if !slices.Contains(c.needs, missing) {
					require.Less(t, w.Code, 400, w.Body)
					require.NotEqual(t, before, h.state(t))
					return
				}
				want := http.StatusForbidden
				if missing == Look && (strings.HasPrefix(path, "/events/") || strings.HasPrefix(path, "/users/")) {
					want = http.StatusNotFound
				}
				require.Equal(t, want, w.Code, w.Body)
				require.Equal(t, before, h.state(t))
			})
		}
	}
}

func TestChangesOfOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	origins := []struct {
		name    string
		headers []string
		allowed bool
	}{
		{"same-origin", []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"cross-site", []string{"Sec-Fetch-Site", "cross-site"}, false},
		{"same-site", []string{"Sec-Fetch-Site", "same-site"}, false},
		{"an Origin of another host", []string{"Origin", "http://evil.example"}, false},
		{"an Origin of nowhere", []string{"Origin", "null"}, false},
		{"the own Origin", []string{"Origin", "http://localhost"}, true},
		{"none, as of a program", nil, true},
		{"a trusted Origin", []string{"Origin", "https://admin.example.com", "Sec-Fetch-Site", "cross-site"}, true},
	}
	for name, c := range changes {
		for _, origin := range origins {
			t.Run(name+" from "+origin.name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, WithTrustedOrigin("https://admin.example.com"))
				path, form := c.target(t, h)
				before := h.state(t)
				w := h.send(t, http.MethodPost, path, form, origin.headers...)
				if origin.allowed {
					require.Less(t, w.Code, 400, w.Body)
					require.NotEqual(t, before, h.state(t))
					return
				}
				require.Equal(t, http.StatusForbidden, w.Code)
				require.Equal(t, before, h.state(t))
			})
		}
	}
}

func TestWithoutAuthenticationNothingIsShown(t *testing.T) {
	t.Parallel()
	h := newHostFor(t, WithAuthentication(func(*http.Request) (string, bool) { return "mallory", false }))
	for _, one := range h.Handler.(*dashboard).routes() {
		path := strings.NewReplacer("{$}", "", "{id}", uuid.NewString(), "{operation}", "cancel").Replace(one.path)
		w := h.send(t, one.method, path, nil)
		require.Equal(t, http.StatusUnauthorized, w.Code, path)
		require.NotContains(t, w.Body.String(), "mallory")
	}
	for _, path := range []string{"/live?page=now", "/nothing"} {
		require.Equal(t, http.StatusUnauthorized, h.send(t, http.MethodGet, path, nil).Code, path)
	}
}

func TestAnErrorOfPermissionsIsAFailure(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{errors.New("directory is down"), &almanac.NotFoundError{Kind: "directory"}, fmt.Errorf("directory: %w", sqlError("42501"))} {
		var log bytes.Buffer
		h := newHost(t, WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			WithPermissions(func(*http.Request, Action, uuid.UUID) (bool, error) { return true, failure }))
		for _, path := range []string{"/", "/operations", "/pauses"} {
			log.Reset()
			w := h.send(t, http.MethodGet, path, nil)
			require.Equal(t, http.StatusServiceUnavailable, w.Code, path)
			require.Contains(t, w.Body.String(), "A permission could not be checked. Try again in a moment.")
			require.NotContains(t, w.Body.String(), "directory")
			require.Contains(t, log.String(), "directory")
		}
	}
}

func TestOtherHostsAreMisdirectedWithoutALogin(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for name, allowed := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST.": true, "127.0.0.1": true, "127.1.2.3:80": true, "[::1]": true, "[::1]:80": true,
		"[::ffff:127.0.0.1]:80": true, "evil.example": false, "localhost.evil.example": false, "192.168.0.1": false, "0.0.0.0": false, "": false,
		"127.0.0.1.evil.example": false, "[fe80::1]": false,
	} {
		for _, path := range []string{"/", "/live?page=nothing", "/assets/x/dashboard.css"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
			r.Host = name
			status, _ := h.do(t, r)
			require.Equal(t, !allowed, status == http.StatusMisdirectedRequest, "%s %s", name, path)
		}
	}
}

func TestAChangeIsLoggedWithIdsOnly(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := newHostFor(t, WithAuthentication(func(*http.Request) (string, bool) { return "grace", true }), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	e := h.createUser(t, ada()).Events[0]
	status, _ := h.post(t, "/events/"+e.ID.String()+"/cancel", url.Values{"reason": {"Ada asked to"}})
	require.Equal(t, http.StatusSeeOther, status)
	require.Contains(t, log.String(), "principal=grace action=cancel event="+e.ID.String()+" user="+e.UserID.String())
	require.NotContains(t, log.String(), "Ada")
}

func TestNewRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	var missing context.Context
	h := newHost(t)
	let := func(*http.Request) (string, bool) { return "", true }
	for name, c := range map[string]struct {
		scheduler almanac.Scheduler
		reader    Reader
		options   []Option
		want      []string
	}{
		"no scheduler":       {nil, h.repository, []Option{AllowAll()}, []string{"scheduler is nil"}},
		"no reader":          {h.scheduler, nil, []Option{AllowAll()}, []string{"reader is nil"}},
		"no rule":            {h.scheduler, h.repository, nil, []string{"exactly one of"}},
		"two rules":          {h.scheduler, h.repository, []Option{AllowAll(), WithAuthentication(let)}, []string{"exactly one of"}},
		"a login and a rule": {h.scheduler, h.repository, []Option{WithTokenLogin(secret), AllowAll()}, []string{"exactly one of"}},
		"nil authentication": {h.scheduler, h.repository, []Option{WithAuthentication(nil)}, []string{"authentication is nil"}},
		"nil permissions":    {h.scheduler, h.repository, []Option{AllowAll(), WithPermissions(nil)}, []string{"permissions are nil"}},
		"a bad origin":       {h.scheduler, h.repository, []Option{AllowAll(), WithTrustedOrigin("admin.example.com/x")}, []string{"admin.example.com/x"}},
		"a short token":      {h.scheduler, h.repository, []Option{WithTokenLogin("123456789012345")}, []string{"15 bytes"}},
		"no logger":          {h.scheduler, h.repository, []Option{AllowAll(), WithLogger(nil)}, []string{"logger is nil"}},
		"no context":         {h.scheduler, h.repository, []Option{AllowAll(), WithContext(missing)}, []string{"context is nil"}}, //nolint:staticcheck // that is the test
		"everything": {nil, nil, []Option{WithPermissions(nil), WithLogger(nil)},
			[]string{"exactly one of", "permissions are nil", "scheduler is nil", "reader is nil", "logger is nil"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := New(c.scheduler, c.reader, c.options...)
			require.Nil(t, made)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "123456789012345")
		})
	}
	_, err := New(h.scheduler, h.repository, AllowAll(), WithHealth(nil), WithMonitor(nil), WithTrail(nil), WithContext(context.Background()))
	require.NoError(t, err, "these have defaults")
}

// A route without a user or an event in its path is about all users. The wrapper look checks
// it, so a route that lacks the wrapper fails here.
func TestEveryPageAboutAllUsersNeedsALook(t *testing.T) {
	t.Parallel()
	h := newHost(t, allExcept(Look))
	for _, one := range new(dashboard).routes() {
		if one.method != http.MethodGet || strings.Contains(one.path, "{id}") {
			continue
		}
		target := strings.NewReplacer("{$}", "", "{date}", "2027-03-15", "{name...}", "Europe/London").Replace(one.path)
		status, _ := h.get(t, target)
		require.Equal(t, http.StatusForbidden, status, one.path)
	}
	d := h.Handler.(*dashboard)
	for name, do := range d.livePages() {
		_, err := do(d.requestOf(httptest.NewRequest(http.MethodGet, "http://localhost/live", nil), ""))
		require.ErrorContains(t, err, "You may not do this: look.", name)
	}
}
