package webhook

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Why a delivery is not to be trusted.
var (
	ErrUnsigned  = errors.New("webhook: a signature header is missing or malformed")
	ErrSignature = errors.New("webhook: the signature is not ours")
	ErrTimestamp = errors.New("webhook: the timestamp is too far from now")
)

// Tolerance is how far a delivery's timestamp may be from the receiver's clock.
// It bounds how long a delivery that somebody recorded can be played again.
const Tolerance = 5 * time.Minute

// Verifier tells genuine deliveries from others. It is safe for concurrent use.
type Verifier struct{ keys []key }

// NewVerifier returns a verifier that accepts what was signed with any of the
// secrets, which have the form that [WithSecrets] takes.
func NewVerifier(secrets ...string) (*Verifier, error) {
	keys, err := parseSecrets(secrets)
	if err != nil {
		return nil, err
	}
	return &Verifier{keys}, nil
}

// Verify returns nil when the headers carry a signature of the body by one of the
// verifier's secrets, made within [Tolerance] of now. Otherwise the error matches
// [ErrUnsigned], [ErrSignature] or [ErrTimestamp].
func (v *Verifier) Verify(header http.Header, body []byte, now time.Time) error {
	id, timestamp := header.Get(headerID), header.Get(headerTimestamp)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || err != nil {
		return ErrUnsigned
	}
	if !v.signed(header.Get(headerSignature), id, timestamp, body) {
		return ErrSignature
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > Tolerance || age < -Tolerance {
		return fmt.Errorf("%w: by %v", ErrTimestamp, age.Round(time.Second))
	}
	return nil
}

// signed reports whether one of the space-separated signatures is by one of the
// keys, in a time that does not tell how nearly.
func (v *Verifier) signed(signatures, id, timestamp string, body []byte) bool {
	for signature := range strings.FieldsSeq(signatures) {
		encoded, known := strings.CutPrefix(signature, version)
		mac, err := base64.StdEncoding.DecodeString(encoded)
		if !known || err != nil {
			continue
		}
		for _, k := range v.keys {
			if hmac.Equal(mac, k.mac(id, timestamp, body)) {
				return true
			}
		}
	}
	return false
}

// maxDelivery is more than any delivery of this package has: a payload is at most
// 64 KiB.
const maxDelivery = 128 << 10

// Handler returns a handler that passes on to next only what the verifier accepts,
// the body still to be read. It answers 401 to the rest, and 413 to what is larger
// than any delivery.
func (v *Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDelivery))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusRequestEntityTooLarge)
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
