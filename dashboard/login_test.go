package dashboard

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const secret = "a token that is hard to guess"

// logIn sends a token from an address.
func (h host) logIn(t *testing.T, token, address string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = address
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// sessionCookieOf returns the cookie of a login.
func sessionCookieOf(t *testing.T, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Len(t, w.Result().Cookies(), 1)
	return w.Result().Cookies()[0]
}

const address = "192.0.2.7:1000"

func TestATokenBeginsASession(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := newHostFor(t, WithTokenLogin(secret), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	w := h.send(t, http.MethodGet, "/pauses", nil)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "./login", w.Header().Get("Location"))
	status, body := h.get(t, "/login")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `autocomplete="current-password"`)
	require.NotContains(t, body, "<nav")

	w = h.logIn(t, secret, address)
	require.Equal(t, "./", w.Header().Get("Location"))
	c := sessionCookieOf(t, w)
	require.Equal(t, "almanac_session", c.Name)
	require.Len(t, c.Value, 43)
	require.True(t, c.HttpOnly)
	require.False(t, c.Secure)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	require.Empty(t, c.Path, "the browser takes the folder of the form")
	w = h.send(t, http.MethodGet, "/", nil, "Cookie", c.String())
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "operator")
	require.Equal(t, "./", h.send(t, http.MethodGet, "/login", nil, "Cookie", c.String()).Header().Get("Location"))

	w = h.send(t, http.MethodPost, "/logout", url.Values{}, "Cookie", c.String(), "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, w.Code)
	w = h.send(t, http.MethodPost, "/logout", url.Values{}, "Cookie", c.String())
	require.Equal(t, "./login", w.Header().Get("Location"))
	require.Negative(t, sessionCookieOf(t, w).MaxAge)
	require.Equal(t, http.StatusSeeOther, h.send(t, http.MethodGet, "/", nil, "Cookie", c.String()).Code)
	require.Empty(t, log.String())
}

func TestACookieIsSecureBehindHTTPS(t *testing.T) {
	t.Parallel()
	h := newHostFor(t, WithTokenLogin(secret))
	require.True(t, sessionCookieOf(t, h.logIn(t, secret, address, "X-Forwarded-Proto", "https")).Secure)
	require.True(t, sessionCookieOf(t, h.logIn(t, secret, address, "X-Forwarded-Proto", "HTTPS, http")).Secure)
	require.False(t, sessionCookieOf(t, h.logIn(t, secret, address, "X-Forwarded-Proto", "http")).Secure)
}

func TestOnlyTheBodyOfTheFormHasAToken(t *testing.T) {
	t.Parallel()
	h := newHostFor(t, WithTokenLogin(secret))
	query := "?token=" + url.QueryEscape(secret)
	require.Equal(t, http.StatusUnauthorized, h.send(t, http.MethodPost, "/login"+query, url.Values{}).Code)
	require.Equal(t, http.StatusSeeOther, h.send(t, http.MethodGet, "/"+query, nil).Code)
	require.Equal(t, http.StatusForbidden, h.send(t, http.MethodPost, "/login", url.Values{"token": {secret}}, "Sec-Fetch-Site", "cross-site").Code)
	for _, wrong := range []string{"", secret + " ", secret[1:], strings.ToUpper(secret)} {
		w := newHostFor(t, WithTokenLogin(secret)).logIn(t, wrong, address)
		require.Equal(t, http.StatusUnauthorized, w.Code)
		require.Empty(t, w.Result().Cookies())
		require.Contains(t, w.Body.String(), "This token is wrong.")
		require.NotContains(t, w.Body.String(), secret[1:])
	}
}

func TestAProgramSendsTheTokenInAHeader(t *testing.T) {
	t.Parallel()
	h := newHostFor(t, WithTokenLogin(secret))
	require.Equal(t, http.StatusOK, h.send(t, http.MethodGet, "/", nil, "Authorization", "bearer "+secret).Code)
	w := h.send(t, http.MethodPost, "/pauses", url.Values{"type": {"BIRTHDAY"}, "do": {"pause"}}, "Authorization", "Bearer "+secret)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, http.StatusSeeOther, h.send(t, http.MethodGet, "/", nil, "Authorization", "Basic "+secret).Code)
	for range maxTries - 1 {
		w := h.send(t, http.MethodGet, "/", nil, "Authorization", "Bearer wrong")
		require.Equal(t, http.StatusUnauthorized, w.Code)
		require.NotContains(t, w.Body.String(), "operator")
	}
	h.send(t, http.MethodGet, "/", nil, "Authorization", "Bearer wrong")
	w = h.send(t, http.MethodGet, "/", nil, "Authorization", "Bearer "+secret)
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
}

func TestWrongTokensAreThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHostFor(t, WithTokenLogin(secret))
		for range maxTries {
			require.Equal(t, http.StatusUnauthorized, h.logIn(t, "wrong", address).Code)
			time.Sleep(time.Second)
		}
		w := h.logIn(t, secret, address)
		require.Equal(t, http.StatusTooManyRequests, w.Code, "not even the right token")
		require.Equal(t, "55", w.Header().Get("Retry-After"))
		sessionCookieOf(t, h.logIn(t, secret, "192.0.2.8:1"))
		time.Sleep(55 * time.Second)
		sessionCookieOf(t, h.logIn(t, secret, address))

		time.Sleep(time.Minute)
		for i := range maxAllTries {
			require.Equal(t, http.StatusUnauthorized, h.logIn(t, "wrong", fmt.Sprintf("198.51.100.%d:1", i)).Code)
		}
		require.Equal(t, http.StatusTooManyRequests, h.logIn(t, secret, "203.0.113.1:1").Code)
		require.Len(t, h.Handler.(*dashboard).login.wrong, maxAllTries, "memory is bounded")
		time.Sleep(time.Minute)
		for i := range maxTries { // of one network of IPv6
			require.Equal(t, http.StatusUnauthorized, h.logIn(t, "wrong", "[2001:db8::"+strconv.Itoa(i)+"]:1").Code)
		}
		require.Equal(t, http.StatusTooManyRequests, h.logIn(t, secret, "[2001:db8::ffff]:1").Code)
		sessionCookieOf(t, h.logIn(t, secret, "[2001:db8:0:1::1]:1"))
	})
}

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHostFor(t, WithTokenLogin(secret))
		in := func(c *http.Cookie, path string) bool {
			w := h.send(t, http.MethodGet, path, nil, "Cookie", c.String())
			return w.Code != http.StatusSeeOther && w.Code != http.StatusUnauthorized
		}
		idle, busy := sessionCookieOf(t, h.logIn(t, secret, address)), sessionCookieOf(t, h.logIn(t, secret, address))
		for range 11 {
			time.Sleep(sessionIdle - time.Second)
			require.True(t, in(busy, "/pauses"))
		}
		require.False(t, in(idle, "/pauses"))
		time.Sleep(sessionIdle - time.Second)
		require.True(t, in(busy, "/pauses"))
		time.Sleep(12 * time.Second)
		require.False(t, in(busy, "/pauses"), "after twelve hours")

		watching := sessionCookieOf(t, h.logIn(t, secret, address))
		for range 59 {
			time.Sleep(time.Minute)
			require.True(t, in(watching, "/live?page=nothing"))
		}
		time.Sleep(time.Minute)
		require.False(t, in(watching, "/live?page=nothing"), "streams do not count")
		require.False(t, in(&http.Cookie{Name: sessionCookie, Value: "forged"}, "/"))
	})
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHostFor(t, WithTokenLogin(secret))
		first, second := sessionCookieOf(t, h.logIn(t, secret, address)), sessionCookieOf(t, h.logIn(t, secret, address))
		time.Sleep(time.Second)
		h.send(t, http.MethodGet, "/pauses", nil, "Cookie", first.String())
		for range maxSessions - 1 {
			h.logIn(t, secret, address)
		}
		require.Len(t, h.Handler.(*dashboard).login.sessions, maxSessions)
		require.Equal(t, http.StatusOK, h.send(t, http.MethodGet, "/pauses", nil, "Cookie", first.String()).Code)
		require.Equal(t, http.StatusSeeOther, h.send(t, http.MethodGet, "/pauses", nil, "Cookie", second.String()).Code, "used least recently")
	})
}

func TestEveryCookieOfASessionIsTried(t *testing.T) {
	t.Parallel()
	h := newHostFor(t, WithTokenLogin(secret))
	c := sessionCookieOf(t, h.logIn(t, secret, address))
	w := h.send(t, http.MethodGet, "/", nil, "Cookie", "almanac_session=of-another-dashboard; "+c.String())
	require.Equal(t, http.StatusOK, w.Code)
}
