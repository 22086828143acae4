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

// key is a secret, decoded. It formats as nothing, lest a log repeat it.
type key []byte

func (key) String() string   { return "(secret)" }
func (key) GoString() string { return "(secret)" }

// parseSecrets decodes secrets; the error names them by their place.
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
		keys[i] = decoded
	}
	return keys, errors.Join(errs...)
}

// sign returns the value of the signature header: one signature for each key.
func sign(keys []key, id, timestamp string, body []byte) string {
	signatures := make([]string, len(keys))
	for i, k := range keys {
		signatures[i] = k.signature(id, timestamp, body)
	}
	return strings.Join(signatures, " ")
}

// signature returns the signature by one key, as it is sent.
func (k key) signature(id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, k)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return version + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
