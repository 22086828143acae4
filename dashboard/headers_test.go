package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	t.Parallel()
	h := newHostFor(t, WithTokenLogin(secret))
	e := h.createUser(t, ada()).Events[0]
	session := sessionCookieOf(t, h.logIn(t, secret, address)).String()
	for _, path := range []string{
		"/", "/pauses", "/operations", "/operations?operation=cancel", "/events/" + e.ID.String() + "/cancel", "/login", "/nothing", "//", "",
		"/live?page=nothing", "/assets/none/dashboard.css", "/" + assetPath("dashboard.css"), "/" + assetPath("dashboard.js"),
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			for _, cookie := range []string{"", session} {
				r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil)
				r.URL.Path, _, _ = strings.Cut(path, "?")
				r.Header.Set("Cookie", cookie)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				what := method + " " + path
				got := w.Header()
				require.Equal(t, policy, got.Get("Content-Security-Policy"), what)
				require.Equal(t, "nosniff", got.Get("X-Content-Type-Options"), what)
				require.Equal(t, "same-origin", got.Get("Referrer-Policy"), what)
				if w.Code == http.StatusOK && strings.HasPrefix(path, "/assets/") {
					require.Equal(t, "private, max-age=31536000, immutable", got.Get("Cache-Control"), what)
				} else {
					require.Equal(t, "no-store", got.Get("Cache-Control"), what)
				}
			}
		}
	}
	for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} {
		require.Contains(t, policy, directive)
	}
	require.NotContains(t, policy, "unsafe")
}

func TestAssetsHaveFixedTypes(t *testing.T) {
	t.Parallel()
	h := newHostFor(t, WithTokenLogin(secret)) // the login page needs them too
	for name := range assets {
		w := h.send(t, http.MethodGet, "/"+assetPath(name), nil)
		require.Equal(t, http.StatusOK, w.Code)
		require.NotEmpty(t, w.Header().Get("Content-Type"), name)
		require.NotEmpty(t, w.Body.Bytes())
	}
	require.Equal(t, "text/javascript; charset=utf-8", h.send(t, http.MethodGet, "/"+assetPath("dashboard.js"), nil).Header().Get("Content-Type"))
	require.Equal(t, http.StatusNotFound, h.send(t, http.MethodGet, "/assets/old/dashboard.js", nil).Code)
	require.Equal(t, http.StatusNotFound, h.send(t, http.MethodGet, "/assets/"+assets["dashboard.js"].hash+"/dashboard.css", nil).Code)
}

func TestAssetsAreSmall(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, len(assets["dashboard.css"].content), 16<<10)
	require.LessOrEqual(t, len(assets["dashboard.js"].content), 8<<10)
}

func TestNothingIsInline(t *testing.T) {
	t.Parallel()
	entries, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, entry := range entries {
		content, err := templateFiles.ReadFile("templates/" + entry.Name())
		require.NoError(t, err)
		text := strings.ToLower(string(content))
		for _, inline := range []string{"<style", " style=", " onclick=", " onload=", " onchange=", " onsubmit=", "javascript:", "<iframe"} {
			require.NotContains(t, text, inline, entry.Name())
		}
		require.Equal(t, strings.Count(text, "<script"), strings.Count(text, "<script src="), entry.Name())
	}
}

// panicking is a reader that panics with what it was given.
type panicking struct {
	Reader
	with any
}

func (p panicking) Event(context.Context, uuid.UUID) (almanac.Event, error) { panic(p.with) }

// serveLogged returns a dashboard before a reader, and its log.
func serveLogged(t *testing.T, reader func(Reader) Reader) (host, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	h := newHost(t)
	made, err := New(h.scheduler, reader(h.repository), AllowAll(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	h.Handler = made
	return h, &log
}

func TestAPanicIsAPageAndALine(t *testing.T) {
	t.Parallel()
	var none map[string]int
	index := func() (cause any) { // an error of the runtime
		defer func() { cause = recover() }()
		none["x"] = 1
		return nil
	}()
	for _, cause := range []any{"ada@example.com", errors.New("ada@example.com"), almanac.User{Email: "ada@example.com"}, index} {
		h, log := serveLogged(t, func(r Reader) Reader { return panicking{r, cause} })
		w := h.send(t, http.MethodGet, "/events/"+uuid.NewString()+"/cancel?reason=ada@example.com", nil)
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.Contains(t, w.Body.String(), "<h1>Internal Server Error</h1>")
		require.NotContains(t, w.Body.String(), "ada@")
		require.Contains(t, log.String(), "Dashboard request failed")
		require.Contains(t, log.String(), `route="GET /events/{id}/{operation}"`)
		require.Contains(t, log.String(), "headers_test.go", "the line says where")
		require.NotContains(t, log.String(), "ada@")
	}
	h, _ := serveLogged(t, func(r Reader) Reader { return panicking{r, http.ErrAbortHandler} })
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { h.send(t, http.MethodGet, "/events/"+uuid.NewString()+"/cancel", nil) })
}

// failing is a reader that fails.
type failing struct {
	Reader
	err error
}

func (f failing) Event(context.Context, uuid.UUID) (almanac.Event, error) {
	return almanac.Event{}, f.err
}

func TestFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		says   string
		logged bool
	}{
		{errors.New("refused 10.0.0.7"), http.StatusServiceUnavailable, "Try again in a moment.", true},
		{sqlError("55P03"), http.StatusServiceUnavailable, "The database does not answer. Try again in a moment.", true},
		{sqlError("57P01"), http.StatusServiceUnavailable, "The database does not answer. Try again in a moment.", true},
		{fmt.Errorf("query: %w", sqlError("42501")), http.StatusInternalServerError, "The database refuses this. The log of the program says why.", true},
		{fmt.Errorf("query: %w", context.DeadlineExceeded), http.StatusGatewayTimeout, "Narrow the filter", true},
		{&almanac.NotFoundError{Kind: "event"}, http.StatusNotFound, "There is no such page, event or user.", false},
	} {
		h, log := serveLogged(t, func(r Reader) Reader { return failing{r, c.err} })
		w := h.send(t, http.MethodGet, "/events/"+uuid.NewString()+"/cancel", nil)
		require.Equal(t, c.status, w.Code)
		require.Contains(t, w.Body.String(), c.says)
		require.NotContains(t, w.Body.String(), "10.0.0.7")
		require.Equal(t, c.logged, log.Len() > 0, log)
		require.Equal(t, c.status > 500, w.Header().Get("Retry-After") == "5")
	}
}

func TestAFileThatFailsIsNotTakenForComplete(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.Handler.(*dashboard)
	failure := errors.New("connection lost")
	export := func(begin string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.write(&tracked{ResponseWriter: w}, d.requestOf(r, ""), answer{csv: func(w http.ResponseWriter) error {
				w.Header().Set("Content-Type", "text/csv")
				w.Header().Set("Content-Disposition", "attachment")
				if begin == "" {
					return failure
				}
				_, _ = io.WriteString(w, begin)
				return failure
			}})
		})
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { export("a,b\n").ServeHTTP(w, r) })
	w = httptest.NewRecorder()
	export("").ServeHTTP(w, r)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Empty(t, w.Header().Get("Content-Disposition"))
}

func TestAFormWithWrongFieldsKeepsThem(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.Handler.(*dashboard)
	w := httptest.NewRecorder()
	d.fail(w, d.requestOf(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil), ""), &problem{
		status: http.StatusBadRequest, detail: "no", form: answer{title: "Again", template: "login", data: []string{"Wrong."}},
	})
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "<h1>Again</h1>")
	require.Contains(t, w.Body.String(), "<li>Wrong.</li>")
}

func TestAFormIsBounded(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	status, _ := h.post(t, "/pauses", url.Values{"type": {"BIRTHDAY"}, "do": {"pause"}, "more": {strings.Repeat("x", maxForm)}})
	require.Equal(t, http.StatusBadRequest, status)
}

func TestDurationsAreForPeople(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 µs", 999 * time.Microsecond: "999 µs", 1500 * time.Microsecond: "1.5 ms", 999 * time.Millisecond: "999 ms",
		999900 * time.Microsecond: "1 s", -90 * time.Second: "−1 min 30 s", 47*time.Hour + time.Minute: "47 h 1 min", 50 * time.Hour: "2 d 2 h",
	} {
		require.Equal(t, want, duration(d))
	}
}

func TestAnUnknownZoneShowsOnlyUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	require.Equal(t, instant{At: at}, instantOf(at, "Mars/Olympus"))
	require.Equal(t, instant{At: at}, instantOf(at, ""))
	require.Equal(t, "Europe/Paris", instantOf(at, "Europe/Paris").Zone)
	require.Equal(t, "2026-07-01T14:00:00", fmt.Sprint(instantOf(at, "Europe/Paris").Wall))
}
