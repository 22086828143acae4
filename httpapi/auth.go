package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Authenticator decides who may use the API. It must be safe for concurrent use.
type Authenticator interface {
	// Authenticate reports whether r may be answered. If it may not, the challenge is
	// what the WWW-Authenticate header of the refusal says.
	Authenticate(r *http.Request) (challenge string, ok bool)
}

// NoAuthentication lets everybody in. It is for servers that nobody but their own
// programs can reach, such as those that listen on loopback only.
type NoAuthentication struct{}

// Authenticate returns true.
func (NoAuthentication) Authenticate(*http.Request) (challenge string, ok bool) { return "", true }

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
