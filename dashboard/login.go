package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// leastToken is how many bytes a token has at least.
	leastToken = 16
	// operator is the principal of every viewer with the token.
	operator = "operator"
	// sessionCookie is the name of the cookie with a session.
	sessionCookie = "almanac_session"
	// sessionLife is how long a session lasts at most.
	sessionLife = 12 * time.Hour
	// sessionIdle is how long a session lasts without a request. Streams do not count, so a
	// forgotten live page does not keep its session.
	sessionIdle = time.Hour
	// maxSessions is how many sessions there are. One more ends the session that was used least recently.
	maxSessions = 1000
	// tryWindow is how long a wrong token counts.
	tryWindow = time.Minute
	// maxTries is how many wrong tokens one address may send within tryWindow.
	maxTries = 5
	// maxAllTries is how many wrong tokens all addresses may send within tryWindow. It also
	// bounds the memory.
	maxAllTries = 30
)

// WithTokenLogin lets in every viewer with a secret token of at least 16 bytes. The viewer
// enters it in a form. A session then lasts 12 hours, and ends after an hour without a
// request; a live page alone does not count as a request. Sessions are kept in memory, so
// they end with the process, and each process has its own. A program can send the header
// "Authorization: Bearer" with the token instead. The principal of all is "operator".
//
// After five wrong tokens from an address within a minute, or thirty from all, the answer is
// 429. The address is that of the connection, so all viewers behind a proxy have one. The
// form sends the token as it is: serve it by HTTPS. Make the token at random, for example
// by "openssl rand -base64 32".
func WithTokenLogin(token string) Option {
	return func(d *dashboard) {
		d.rules++
		if len(token) < leastToken {
			d.bad = append(d.bad, fmt.Errorf("dashboard: token has %d bytes, fewer than %d", len(token), leastToken))
		}
		d.login = &login{want: sha256.Sum256([]byte(token)), now: func() time.Time { return d.now() }, sessions: make(map[sessionKey]session)}
		d.authenticate = d.login.authenticate
	}
}

// login has the sessions of WithTokenLogin, and the wrong tokens of the last minute.
type login struct {
	want [sha256.Size]byte // the hash of the token
	now  func() time.Time

	mu       sync.Mutex
	sessions map[sessionKey]session
	wrong    []wrongTry // oldest first, at most maxAllTries
}

// sessionKey is the hash of the value of a cookie.
type sessionKey [sha256.Size]byte

type session struct{ begun, used time.Time }

func (s session) over(now time.Time) bool {
	return now.Sub(s.begun) >= sessionLife || now.Sub(s.used) >= sessionIdle
}

// wrongTry is a wrong token.
type wrongTry struct {
	from string
	at   time.Time
}

// authenticate lets in a request with the token, or with the cookie of a session.
func (l *login) authenticate(r *http.Request) (string, bool) {
	if token := bearer(r); token != "" {
		return operator, l.try(r, token) == nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, key := range sessionsOf(r) {
		s, ok := l.sessions[key]
		switch {
		case !ok:
			continue
		case s.over(now):
			delete(l.sessions, key)
			continue
		case r.URL.Path != "/live":
			s.used = now
			l.sessions[key] = s
		}
		return operator, true
	}
	return "", false
}

// bearer returns the token of the header Authorization, or "".
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// sessionsOf returns the keys of the cookies. There can be several: the cookie of a
// dashboard at / is also sent to a dashboard below.
func sessionsOf(r *http.Request) []sessionKey {
	var keys []sessionKey
	for _, cookie := range r.CookiesNamed(sessionCookie) {
		keys = append(keys, sha256.Sum256([]byte(cookie.Value)))
	}
	return keys
}

var (
	errWrongToken   = errors.New("dashboard: wrong token")
	errTooManyTries = errors.New("dashboard: too many wrong tokens")
)

// try compares a token. After too many wrong tokens it refuses the right one too: otherwise
// guessing would go on.
func (l *login) try(r *http.Request, token string) error {
	given := sha256.Sum256([]byte(token)) // hashes are equally long, so the time tells nothing
	l.mu.Lock()
	defer l.mu.Unlock()
	from := addressOf(r)
	switch {
	case l.waitOf(from) > 0:
		return errTooManyTries
	case subtle.ConstantTimeCompare(given[:], l.want[:]) == 1:
		return nil
	}
	l.wrong = append(l.wrong, wrongTry{from, l.now()})
	return errWrongToken
}

// wait returns how long no token from the address of a request is compared.
func (l *login) wait(r *http.Request) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waitOf(addressOf(r))
}

// waitOf is wait for an address. The caller holds mu.
func (l *login) waitOf(from string) (wait time.Duration) {
	now := l.now()
	l.wrong = slices.DeleteFunc(l.wrong, func(t wrongTry) bool { return now.Sub(t.at) >= tryWindow })
	own := slices.DeleteFunc(slices.Clone(l.wrong), func(t wrongTry) bool { return t.from != from })
	if len(own) >= maxTries {
		wait = own[0].at.Add(tryWindow).Sub(now)
	}
	if len(l.wrong) >= maxAllTries {
		wait = max(wait, l.wrong[0].at.Add(tryWindow).Sub(now))
	}
	return wait
}

// addressOf returns the address of a connection. One host has 2^64 addresses of IPv6, which count as one.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host[:min(len(host), 64)]
	}
	ip = ip.Unmap().WithZone("")
	if prefix, err := ip.Prefix(64); err == nil && ip.Is6() {
		return prefix.String()
	}
	return ip.String()
}

// begin begins a session, and returns the value of its cookie.
func (l *login) begin() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	value := base64.RawURLEncoding.EncodeToString(secret[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if len(l.sessions) >= maxSessions {
		l.evict(now)
	}
	l.sessions[sha256.Sum256([]byte(value))] = session{now, now}
	return value
}

// evict ends the sessions that are over, or else the one that was used least recently. The
// caller holds mu.
func (l *login) evict(now time.Time) {
	var oldest sessionKey
	for key, s := range l.sessions {
		if s.over(now) {
			delete(l.sessions, key)
		} else if kept, ok := l.sessions[oldest]; !ok || s.used.Before(kept.used) {
			oldest = key
		}
	}
	if len(l.sessions) >= maxSessions {
		delete(l.sessions, oldest)
	}
}

// end ends the sessions of a request.
func (l *login) end(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range sessionsOf(r) {
		delete(l.sessions, key)
	}
}

// cookie returns the header with a session. It has no Path: the browser then takes the
// folder of the form's address as it sees it. That is where the dashboard is mounted, also
// behind a proxy that removes a path, which this process cannot know.
func cookie(r *request, value string, life time.Duration) http.Header {
	proto, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	c := http.Cookie{
		Name: sessionCookie, Value: value, MaxAge: int(life.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(strings.TrimSpace(proto), "https"),
	}
	return http.Header{"Set-Cookie": {c.String()}}
}

func (d *dashboard) loginPage(r *request) (answer, error) {
	if _, ok := d.authenticate(r.Request); ok {
		return answer{redirect: r.root}, nil
	}
	return answer{title: "Log in", template: "login", data: []string(nil)}, nil
}

// logInPage begins a session. Only the body of the form is read, so a token in an address is no way in.
func (d *dashboard) logInPage(r *request) (answer, error) {
	switch err := d.login.try(r.Request, r.PostForm.Get("token")); {
	case errors.Is(err, errTooManyTries):
		return d.tooManyTries(r), nil
	case err != nil:
		return answer{title: "Log in", template: "login", status: http.StatusUnauthorized, data: []string{"This token is wrong."}}, nil
	}
	d.login.end(r.Request) // the session before this one
	return answer{redirect: r.root, header: cookie(r, d.login.begin(), sessionLife)}, nil
}

// tooManyTries says how long no token is compared.
func (d *dashboard) tooManyTries(r *request) answer {
	seconds := max(1, int((d.login.wait(r.Request)+time.Second-1)/time.Second))
	return answer{
		title: "Log in", template: "login", status: http.StatusTooManyRequests,
		header: http.Header{"Retry-After": {strconv.Itoa(seconds)}},
		data:   []string{fmt.Sprintf("There were too many wrong tokens. Try again in %d seconds.", seconds)},
	}
}

func (d *dashboard) logOutPage(r *request) (answer, error) {
	d.login.end(r.Request)
	return answer{redirect: r.root + "login", header: cookie(r, "", -time.Second)}, nil
}
