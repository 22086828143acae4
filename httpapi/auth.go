package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Authenticator decides which requests may use the API. It must be safe for concurrent use.
type Authenticator interface {
	// Authenticate reports whether r may be answered. If not, challenge is the value of the
	// WWW-Authenticate header in the refusal.
	Authenticate(r *http.Request) (challenge string, ok bool)
}

// NoAuthentication lets in every request for localhost or a loopback address. It is for
// servers that only the host's own programs can reach, such as those that listen on
// loopback. A request with any other Host header is answered 421, because it may come from
// a web page in a browser on this machine: see [NoAuthentication.AllowsHost].
type NoAuthentication struct {
	// Hosts are further names and addresses, without ports, under which programs reach the
	// server. None of them may be a name whose address someone else can set.
	Hosts []string
}

// Authenticate returns true.
func (NoAuthentication) Authenticate(*http.Request) (challenge string, ok bool) { return "", true }

// WithPrincipal sets how requests are attributed to callers. The function principal returns the name of
// the program or user that sent a request. It is called for requests that the [Authenticator] let in.
// Each principal has its own idempotency keys and its own rate (see [WithRate]). The name should outlast
// the credentials: a request that is repeated with a new token must have the same principal.
//
// The principal is also that of [almanac.WithPrincipal], so the audit trail names it with
// every change that the request makes.
//
// Under [WithAuthorization] a request with the principal "" cannot have an idempotency key. The
// function must be safe for concurrent use. By default all requests have the same principal.
func WithPrincipal(principal func(r *http.Request) string) Option {
	return func(a *api) { a.principal, a.hasPrincipal = principal, true }
}

// WithAuthorization sets which requests may access which users. The function allow is called for each
// request that the [Authenticator] let in, with the id of the user that the request accesses. The id is
// [uuid.Nil] for a request that accesses a new user (POST /user) or all users (GET /events).
//
// When allow returns false for a user, the answer is 404, as if the user did not exist. The same
// holds for events of the user. A caller therefore cannot find existing users by guessing ids. When
// allow returns false for [uuid.Nil], the answer is 403. An error is a failure of the server.
//
// A request with an Idempotency-Key that was used before accesses the user that the first
// request created. When allow returns false for that user, the answer is 403. Callers that
// create users and repeat requests must therefore be allowed to access those users.
//
// WithAuthorization needs [WithPrincipal], because the idempotency keys of different
// callers must not collide. The function must be safe for concurrent use. By default a
// request that is let in may do everything.
func WithAuthorization(allow func(r *http.Request, user uuid.UUID) (bool, error)) Option {
	return func(a *api) { a.may, a.authorizes = allow, true }
}

// access decides which requests are let in, what they may do, and how often.
type access struct {
	auth      Authenticator
	may       func(*http.Request, uuid.UUID) (bool, error)
	principal func(*http.Request) string
	limits    []func(*http.Request) (time.Duration, bool)
	refusals  []*spending // for each rate: the requests that were not let in

	authorizes, hasPrincipal bool // whether WithAuthorization and WithPrincipal were given
}

// accessBy allows everything to the requests that auth lets in.
func accessBy(auth Authenticator) access {
	return access{
		auth:      auth,
		may:       func(*http.Request, uuid.UUID) (bool, error) { return true, nil },
		principal: func(*http.Request) string { return "" },
	}
}

// authorize returns refusal if the request may not access the user.
func (a *api) authorize(r *http.Request, user uuid.UUID, refusal error) error {
	may, err := a.may(r, user)
	if err == nil && !may {
		return refusal
	}
	return err
}

// ofAllUsers is protected for endpoints that access no particular user.
func (a *api) ofAllUsers(do endpoint) endpoint {
	return a.protected(func(r *http.Request) (reply, error) {
		if err := a.authorize(r, uuid.Nil, newProblem(http.StatusForbidden, "the credentials do not suffice for this")); err != nil {
			return reply{}, err
		}
		return do(r)
	})
}

// ofUser is protected for endpoints that access the user in the path. The endpoint itself
// refuses an id that is not a UUID.
func (a *api) ofUser(do endpoint) endpoint {
	return a.protected(func(r *http.Request) (reply, error) {
		if id, ok := parseID(r.PathValue("id")); ok {
			if err := a.authorize(r, id, &almanac.NotFoundError{Kind: "user", ID: id}); err != nil {
				return reply{}, err
			}
		}
		return do(r)
	})
}

// BearerToken lets in requests with one of the tokens, according to RFC 6750: "Authorization:
// Bearer" and the token. Give two tokens while one replaces the other. Empty tokens are
// ignored; without any token no request is let in. The comparison takes constant time.
func BearerToken(tokens ...string) Authenticator {
	var b bearer
	for _, token := range tokens {
		if token != "" {
			b = append(b, sha256.Sum256([]byte(token)))
		}
	}
	return b
}

// bearer holds digests of the tokens, so that all comparisons have the same length.
type bearer [][sha256.Size]byte

const (
	challengeMissing = `Bearer realm="almanac"`
	challengeWrong   = `Bearer realm="almanac", error="invalid_token"`
)

func (b bearer) Authenticate(r *http.Request) (challenge string, ok bool) {
	header := r.Header.Values("Authorization")
	if len(header) == 0 {
		return challengeMissing, false
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return challengeMissing, false
	}
	presented := sha256.Sum256([]byte(strings.TrimSpace(token)))
	match := 0
	for _, known := range b {
		match |= subtle.ConstantTimeCompare(presented[:], known[:])
	}
	return challengeWrong, match == 1
}
