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

// Authenticator decides who may use the API. It must be safe for concurrent use.
type Authenticator interface {
	// Authenticate reports whether r may be answered. If it may not, the challenge is
	// what the WWW-Authenticate header of the refusal says.
	Authenticate(r *http.Request) (challenge string, ok bool)
}

// NoAuthentication lets in every request for localhost or a loopback address. It is
// for servers that nobody but their own programs can reach, such as those that listen
// on loopback only. A request with any other Host header is answered 421, since it
// may come from a page in a browser on this machine: see [NoAuthentication.Answers].
type NoAuthentication struct {
	// Hosts are further names and addresses, without ports, under which programs reach
	// the server. None of them may be a name that somebody else can give an address.
	Hosts []string
}

// Authenticate returns true.
func (NoAuthentication) Authenticate(*http.Request) (challenge string, ok bool) { return "", true }

// WithPrincipal sets how the requests that the [Authenticator] let in are told
// apart: who returns the name of the program, the tenant or the person that sent
// one. Each has idempotency keys and a rate (see [WithRate]) of their own. The name
// should outlast the credentials: a request that is repeated with a new token is
// still the same. Under [WithAuthorization] a request of which it is "" can have no
// idempotency key. The function must be safe for concurrent use. The default is that
// all are one.
func WithPrincipal(who func(r *http.Request) string) Option {
	return func(a *api) { a.principal, a.tellsApart = who, true }
}

// WithAuthorization sets who may do what to whom: may is asked about each request
// that the [Authenticator] let in, with the id of the person that it is about, or
// with [uuid.Nil] when it is about somebody new (POST /user) or everybody (GET
// /events). A person of whom a request may not be is answered 404, as if there were
// none, and so are their events: nobody finds out by guessing who there is. About
// somebody new or everybody, the answer is 403. An error is a failure of the server.
//
// A request with an Idempotency-Key that was used before is about the user that the
// first request created: if it may not be about that user, the answer is 403. So
// whoever may create users and repeats requests must be allowed to see those users.
//
// WithAuthorization needs [WithPrincipal], since keys of different callers must not
// meet. The function must be safe for concurrent use. The default is that whoever is
// let in may do everything.
func WithAuthorization(may func(r *http.Request, user uuid.UUID) (bool, error)) Option {
	return func(a *api) { a.may, a.authorizes = may, true }
}

// access is who may do what, and how often.
type access struct {
	auth      Authenticator
	may       func(*http.Request, uuid.UUID) (bool, error)
	principal func(*http.Request) string
	limits    []func(*http.Request) (time.Duration, bool)
	refusals  []*spending // what requests that are not let in take of each rate

	authorizes, tellsApart bool // what was set
}

// accessBy is access to everything for whom auth lets in.
func accessBy(auth Authenticator) access {
	return access{
		auth:      auth,
		may:       func(*http.Request, uuid.UUID) (bool, error) { return true, nil },
		principal: func(*http.Request) string { return "" },
	}
}

// authorize asks whether the request may be about the person, and returns the
// refusal if it may not.
func (a *api) authorize(r *http.Request, user uuid.UUID, refusal error) error {
	may, err := a.may(r, user)
	if err == nil && !may {
		return refusal
	}
	return err
}

// ofEverybody is protected for what is about nobody in particular.
func (a *api) ofEverybody(do endpoint) endpoint {
	return a.protected(func(r *http.Request) (reply, error) {
		if err := a.authorize(r, uuid.Nil, newProblem(http.StatusForbidden, "the credentials do not suffice for this")); err != nil {
			return reply{}, err
		}
		return do(r)
	})
}

// ofPerson is protected for what is about the person in the path. An id that is
// none is for the endpoint to refuse.
func (a *api) ofPerson(do endpoint) endpoint {
	return a.protected(func(r *http.Request) (reply, error) {
		if id, ok := parseID(r.PathValue("id")); ok {
			if err := a.authorize(r, id, &almanac.NotFoundError{Kind: "user", ID: id}); err != nil {
				return reply{}, err
			}
		}
		return do(r)
	})
}

// BearerToken lets in whoever sends one of the tokens, as RFC 6750 has it:
// "Authorization: Bearer" and the token. Two tokens serve while one replaces the
// other. An empty token is nobody's, so without a token nobody gets in. How long a
// comparison takes says nothing about the tokens.
func BearerToken(tokens ...string) Authenticator {
	var b bearer
	for _, token := range tokens {
		if token != "" {
			b = append(b, sha256.Sum256([]byte(token)))
		}
	}
	return b
}

// bearer holds digests, which are of one length, whatever is presented.
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
