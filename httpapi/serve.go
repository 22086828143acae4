package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

// requestLimit is how long one request may take, including its database calls.
const requestLimit = 10 * time.Second

// Server returns a server for the handler, with limits for slow clients. They are five
// seconds for the header, ten for the whole request, thirty until the answer is read, and
// two minutes between requests. A header may have 16 KiB, plus the 4 KiB that net/http
// adds. The caller starts the server and shuts it down.
func Server(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// CloseAfterChunks closes the connection after the answer to a request whose body comes in chunks.
// A request with both Transfer-Encoding and Content-Length may be half of an attack on a proxy, and
// its connection must not be reused (RFC 9112, section 6.1). net/http removes the Content-Length
// before the handler is called, so the function treats every chunked request in this way. The API
// calls it itself. Other handlers on the same server should call it too.
func CloseAfterChunks(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
}

// ServeHTTP answers one request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set(requestIDHeader, requestID(r))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	CloseAfterChunks(w, r)

	ctx, cancel := context.WithTimeout(r.Context(), requestLimit)
	defer cancel()
	r = r.WithContext(context.WithValue(ctx, readDeadlineKey{}, http.NewResponseController(w).SetReadDeadline))
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(cause)
		}
		a.fail(w, r, fmt.Errorf("httpapi: panic: %v\n%s", cause, debug.Stack()))
	}()
	if err := a.misdirected(r); err != nil {
		a.fail(w, r, a.refuse(err))
		return
	}
	if err := a.origins.Check(r); err != nil {
		a.fail(w, r, a.refuse(newProblem(http.StatusForbidden, "a page of another origin may not change anything here")))
		return
	}
	if !clean(r.URL.EscapedPath()) {
		a.unknown.ServeHTTP(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// clean reports whether ServeMux accepts a path as it is. ServeMux would redirect any other
// path, before the request is authenticated.
func clean(p string) bool {
	shortest := path.Clean(p)
	return strings.HasPrefix(p, "/") && (p == shortest || shortest != "/" && p == shortest+"/")
}

const requestIDHeader = "X-Request-Id"

var acceptableID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID returns the id that the client sent, if it is safe in a log, or a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get(requestIDHeader); acceptableID.MatchString(id) {
		return id
	}
	return rand.Text()
}

// endpoint answers a request with a reply or with an error, which becomes a problem. It
// does not write, so that nothing is sent before the answer is complete.
type endpoint func(r *http.Request) (reply, error)

// reply is a successful answer.
type reply struct {
	status   int    // of the created resource
	location string // of what was created
	etag     string // of the user's current version
	body     any    // sent as JSON; nil sends no body
	failure  error  // what kept the answer from being complete; logged and not sent
}

// protected authenticates the request first, and then applies the limits. The endpoint's
// context has the request's principal, for the audit trail.
func (a *api) protected(do endpoint) endpoint {
	return func(r *http.Request) (reply, error) {
		if challenge, ok := a.auth.Authenticate(r); !ok {
			p := newProblem(http.StatusUnauthorized, "the request carries no valid credentials")
			p.header = http.Header{"Www-Authenticate": {challenge}}
			return reply{}, a.refuse(p)
		}
		if err := a.within(r); err != nil {
			return reply{}, err
		}
		if name := a.principal(r); name != "" {
			r = r.WithContext(almanac.WithPrincipal(r.Context(), name))
		}
		return do(r)
	}
}

// answer returns a handler that writes the reply of an endpoint.
func (a *api) answer(do endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		re, err := do(r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		if re.failure != nil {
			a.logFailure(w, r, re.failure)
		}
		if re.location != "" {
			w.Header().Set("Location", re.location)
		}
		if re.etag != "" {
			w.Header().Set("Etag", re.etag)
		}
		if re.body == nil {
			w.WriteHeader(re.status)
			a.logRequest(w, r, re.status)
			return
		}
		body, err := encode(re.body)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(re.status)
		_, _ = w.Write(body) // an error means that the client is gone
		a.logRequest(w, r, re.status)
	})
}

// fail answers with the problem for err. Errors that the client cannot correct are logged and not sent.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	p, complete := problemOf(r, err)
	p.RequestID = w.Header().Get(requestIDHeader)
	if !complete && !errors.Is(r.Context().Err(), context.Canceled) { // a client that left gets no answer
		a.logFailure(w, r, err)
	}
	body, err := encode(p)
	if err != nil { // strings and numbers only: it cannot happen
		body = []byte("{}")
	}
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
	a.logRequest(w, r, p.Status)
}

func (a *api) logFailure(w http.ResponseWriter, r *http.Request, err error) {
	a.log.ErrorContext(r.Context(), "request failed", slog.String("request_id", w.Header().Get(requestIDHeader)),
		slog.String("route", r.Pattern), slog.Any("error", err))
}

func (a *api) logRequest(w http.ResponseWriter, r *http.Request, status int) {
	a.log.DebugContext(r.Context(), "request", slog.String("request_id", w.Header().Get(requestIDHeader)),
		slog.String("method", r.Method), slog.String("route", r.Pattern), slog.Int("status", status))
}

// AllowsHost reports whether a request with the given Host header is accepted. It allows
// localhost and loopback addresses, with any port, and the names of Hosts.
func (n NoAuthentication) AllowsHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	}
	if ip, err := netip.ParseAddr(name); err == nil && ip.Unmap().IsLoopback() {
		return true
	}
	name = strings.TrimSuffix(name, ".")
	is := func(known string) bool { return strings.EqualFold(name, known) }
	return is("localhost") || name != "" && slices.ContainsFunc(n.Hosts, is)
}

// misdirected refuses a request for an unknown host without authentication. Otherwise a web
// page whose host name resolves to this machine could read and write everything (DNS
// rebinding): a browser takes both for one origin.
func (a *api) misdirected(r *http.Request) error {
	if none, ok := a.auth.(NoAuthentication); ok && !none.AllowsHost(r.Host) {
		return newProblem(http.StatusMisdirectedRequest, "without authentication only localhost and loopback addresses are answered")
	}
	return nil
}
