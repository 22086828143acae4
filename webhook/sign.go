package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

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

// key returns the signature of a delivery by one secret, as it is sent. It is a function
// because the values that a function captures are not printed, so no log can contain the
// secret.
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
