package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Reasons for which a delivery is not genuine.
var (
	ErrUnsigned  = errors.New("webhook: a signature header is missing or malformed")
	ErrSignature = errors.New("webhook: the signature is by none of the secrets")
	ErrTimestamp = errors.New("webhook: the timestamp is too far from now")
)

// Tolerance is how far a delivery's timestamp may be from the receiver's clock. It bounds
// how long a recorded delivery can be replayed.
const Tolerance = 5 * time.Minute

// Verifier distinguishes genuine deliveries from others. It is safe for concurrent use.
type Verifier struct{ keys []key }

// NewVerifier returns a verifier that accepts deliveries signed with any of the secrets.
// The secrets have the form that [WithSecrets] takes.
func NewVerifier(secrets ...string) (*Verifier, error) {
	keys, err := parseSecrets(secrets)
	if err != nil {
		return nil, err
	}
	return &Verifier{keys}, nil
}

// Verify returns nil when the headers carry a signature of the body by one of the verifier's secrets, made
// within [Tolerance] of now. Otherwise the error matches [ErrUnsigned], [ErrSignature] or [ErrTimestamp].
func (v *Verifier) Verify(header http.Header, body []byte, now time.Time) error {
	id, timestamp, signatures := header.Get(headerID), header.Get(headerTimestamp), header.Get(headerSignature)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	// A dot in the id would make the signed text ambiguous.
	if id == "" || strings.Contains(id, ".") || err != nil || signatures == "" {
		return ErrUnsigned
	}
	if !v.signed(signatures, id, timestamp, body) {
		return ErrSignature
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > Tolerance || age < -Tolerance {
		return fmt.Errorf("%w: by %v", ErrTimestamp, age.Round(time.Second))
	}
	return nil
}

// signed reports whether one of the space-separated signatures is by one of the keys. The comparison
// takes constant time. The body is hashed once for each key, however many signatures an attacker sends.
func (v *Verifier) signed(signatures, id, timestamp string, body []byte) bool {
	for _, k := range v.keys {
		ours := []byte(k(id, timestamp, body))
		for theirs := range strings.FieldsSeq(signatures) {
			if hmac.Equal([]byte(theirs), ours) {
				return true
			}
		}
	}
	return false
}

// Handler returns a handler that passes genuine deliveries to next, with the body still to
// be read. It answers 401 to other requests, 413 to bodies of more than 1 MiB, which no
// [Deliverer] posts, and 400 when the body cannot be read.
func (v *Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			http.Error(w, "larger than any delivery", http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		if err := v.Verify(r.Header, body, time.Now()); err != nil {
			http.Error(w, "not a delivery of ours", http.StatusUnauthorized)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// The headers of the Standard Webhooks specification.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
	// version marks a signature as HMAC-SHA256.
	version = "v1,"
)

// key returns the signature of a delivery by one secret, as it is sent. It is a function because
// the values that a function captures are not printed, so no log can contain the secret.
type key func(id, timestamp string, body []byte) string

func newKey(secret []byte) key {
	return func(id, timestamp string, body []byte) string {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(id + "." + timestamp + "."))
		h.Write(body)
		return version + base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
}

// parseSecrets decodes secrets. Its error names them by their position.
func parseSecrets(secrets []string) ([]key, error) {
	var errs []error
	if len(secrets) == 0 {
		errs = append(errs, errors.New("webhook: no secret is given"))
	}
	keys := make([]key, len(secrets))
	for i, secret := range secrets {
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err != nil {
			errs = append(errs, fmt.Errorf("webhook: secret %d is not base64, as in %s$(openssl rand -base64 32)", i+1, secretPrefix))
			continue
		}
		if n := len(decoded); n < minSecret || n > maxSecret {
			errs = append(errs, fmt.Errorf("webhook: secret %d has %d bytes, not %d to %d", i+1, n, minSecret, maxSecret))
		}
		keys[i] = newKey(decoded)
	}
	return keys, errors.Join(errs...)
}

// sign returns the value of the signature header: one signature for each key.
func sign(keys []key, id, timestamp string, body []byte) string {
	signatures := make([]string, len(keys))
	for i, k := range keys {
		signatures[i] = k(id, timestamp, body)
	}
	return strings.Join(signatures, " ")
}
