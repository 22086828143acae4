package icalendar_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/icalendar"
	"github.com/almanac-go/almanac/signedlink"
)

func key(id, letter string) signedlink.Key {
	return signedlink.Key{ID: id, Secret: bytes.Repeat([]byte(letter), 32)}
}

func links(t *testing.T, keys ...signedlink.Key) *icalendar.Links {
	t.Helper()
	if len(keys) == 0 {
		keys = []signedlink.Key{key("2027", "k")}
	}
	l, err := icalendar.NewLinks("https://example.com/calendar/", keys...)
	require.NoError(t, err)
	return l
}

// ask serves a feed as a host does, and returns the answer with its body.
func ask(t *testing.T, h http.Handler, method, link string, headers ...string) (*http.Response, string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/calendar/", h)
	server := httptest.NewServer(mux)
	defer server.Close()
	at, err := url.Parse(link)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+at.EscapedPath(), nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := server.Client().Do(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(body)
}

func TestCalendarIsServedAndNotSentAgainUnchanged(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{})
	ada, l := s.ada(t), links(t)
	h := s.feed(t, icalendar.Settings{}).Handler(l)
	require.True(t, strings.HasPrefix(l.URL(ada), "https://example.com/calendar/2027."), l.URL(ada))
	require.True(t, strings.HasSuffix(l.URL(ada), ".ics"), l.URL(ada))

	answer, body := ask(t, h, http.MethodGet, l.URL(ada))
	require.Equal(t, http.StatusOK, answer.StatusCode)
	_, all := parse(t, body)
	require.Len(t, all, 10)
	for name, want := range map[string]string{
		"Content-Type": "text/calendar; charset=utf-8", "Cache-Control": "private, max-age=21600",
		"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex", "X-Content-Type-Options": "nosniff",
	} {
		require.Equal(t, want, answer.Header.Get(name))
	}
	tag := answer.Header.Get("ETag")
	head, none := ask(t, h, http.MethodHead, l.URL(ada))
	require.Equal(t, http.StatusOK, head.StatusCode)
	require.Equal(t, tag, head.Header.Get("ETag"))
	require.Equal(t, int64(len(body)), head.ContentLength)
	require.Empty(t, none)

	again, none := ask(t, h, http.MethodGet, l.URL(ada), "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, again.StatusCode)
	require.Empty(t, none)
	zone := "Asia/Tokyo"
	_, err := s.UpdateUser(t.Context(), ada, almanac.ProfileChange{Timezone: &zone})
	require.NoError(t, err)
	again, _ = ask(t, h, http.MethodGet, l.URL(ada), "If-None-Match", tag)
	require.Equal(t, http.StatusOK, again.StatusCode)

	answer, _ = ask(t, h, http.MethodPost, l.URL(ada))
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
	require.Equal(t, "GET, HEAD", answer.Header.Get("Allow"))
}

// Nothing in an answer says whether a user exists.
func TestWrongAndMissingCalendarsHaveOneAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{})
	ada, l := s.ada(t), links(t)
	h := s.feed(t, icalendar.Settings{}).Handler(l)
	missing, want := ask(t, h, http.MethodGet, l.URL(uuid.New()))
	require.Equal(t, http.StatusNotFound, missing.StatusCode)
	missing.Header.Del("Date")

	token := func(link string) string { return strings.TrimSuffix(path.Base(link), ".ics") }
	mine, theirs := strings.Split(token(l.URL(ada)), "."), strings.Split(token(l.URL(uuid.New())), ".")
	require.Len(t, mine, 3)
	other, unknown := links(t, key("2027", "o")), links(t, key("2026", "k"))
	for name, forged := range map[string]string{
		"none":               ".ics",
		"another key":        token(other.URL(ada)) + ".ics",
		"an unknown key":     token(unknown.URL(ada)) + ".ics",
		"another user":       mine[0] + "." + theirs[1] + "." + mine[2] + ".ics",
		"no signature":       mine[0] + "." + mine[1] + "..ics",
		"a shorter one":      token(l.URL(ada))[:len(token(l.URL(ada)))-1] + ".ics",
		"more":               token(l.URL(ada)) + ".x.ics",
		"nonsense":           "2027.!!!.!!!.ics",
		"less than a user":   "2027.AAAA.AAAA.ics",
		"without a key's id": "." + mine[1] + "." + mine[2] + ".ics",
		"without the suffix": token(l.URL(ada)),
	} {
		answer, body := ask(t, h, http.MethodGet, "https://example.com/calendar/"+forged)
		answer.Header.Del("Date")
		require.Equal(t, http.StatusNotFound, answer.StatusCode, name)
		require.Equal(t, want, body, name)
		require.Equal(t, missing.Header, answer.Header, name)
	}
	answer, _ := ask(t, h, http.MethodGet, l.URL(ada))
	require.Equal(t, http.StatusOK, answer.StatusCode)
	_, err := s.DeleteUser(t.Context(), ada, almanac.DeleteOptions{})
	require.NoError(t, err)
	answer, body := ask(t, h, http.MethodGet, l.URL(ada))
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.Equal(t, want, body)
}

func TestKeysAreReplacedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{})
	ada, f := s.ada(t), s.feed(t, icalendar.Settings{})
	given := links(t, key("2026", "o")).URL(ada)
	both := links(t, key("2027", "y"), key("2026", "o"))
	require.Contains(t, both.URL(ada), "/2027.")
	for l, want := range map[*icalendar.Links]int{both: http.StatusOK, links(t, key("2027", "y")): http.StatusNotFound} {
		answer, _ := ask(t, f.Handler(l), http.MethodGet, given)
		require.Equal(t, want, answer.StatusCode)
	}
}

// A failure is logged with the user's id. The answer and the log have no token and no name.
func TestFailuresAreLoggedWithoutSecretsAndNames(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{})
	ada, l := s.ada(t), links(t)
	var log bytes.Buffer
	f, err := icalendar.New(s, away{s.store}, s.registry, icalendar.Settings{Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	answer, body := ask(t, f.Handler(l), http.MethodGet, l.URL(ada))
	require.Equal(t, http.StatusInternalServerError, answer.StatusCode)
	require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
	require.NotContains(t, body, "database")
	require.Contains(t, log.String(), `msg="Making a calendar failed" user_id=`+ada.String()+` error="the database is away"`)
	require.NotContains(t, log.String(), path.Base(l.URL(ada)))
	require.NotContains(t, log.String(), "Ada")

	log.Reset()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	f.Handler(l).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, http.MethodGet, l.URL(ada), nil))
	require.Empty(t, log.String(), "the client has gone")
}

func TestNewLinksNamesEveryWrongSetting(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte("k"), 32)
	_, err := icalendar.NewLinks("http://example.com", signedlink.Key{ID: "a.b", Secret: secret},
		signedlink.Key{ID: "1", Secret: secret[:31]}, signedlink.Key{ID: "1", Secret: secret})
	for _, want := range []string{"https URL", `key id "a.b"`, `secret of key "1" is shorter`, `two keys have the id "1"`} {
		require.ErrorContains(t, err, want)
	}
	_, err = icalendar.NewLinks("https://example.com/?a=b")
	require.ErrorContains(t, err, "https URL")
	require.ErrorContains(t, err, "need a key")
}

func TestLinksMayBeTriedOutOnThisMachine(t *testing.T) {
	t.Parallel()
	for target, allowed := range map[string]bool{
		"http://localhost:8080/calendar/": true, "http://127.0.0.1:8080/calendar/": true, "http://[::1]:8080/calendar/": true,
		"http://example.com/calendar/": false, "http://localhost.example.com/": false, "http://192.168.0.1/": false, "ftp://localhost/": false,
		"http:///calendar/": false, "https:///calendar/": false, "/calendar/": false,
	} {
		_, err := icalendar.NewLinks(target, key("2027", "k"))
		require.Equal(t, allowed, err == nil, "%s: %v", target, err)
	}
}
