package almanacmail

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// Links makes and verifies the links by which users unsubscribe. A link names a user, an
// event type and the locale of its mail, and is signed with a key of the host's. It never
// expires. Links is safe for concurrent use. Every process that sends mails, or serves the
// links, needs the same keys.
type Links struct {
	base *url.URL
	keys []LinkKey // the first signs
}

// LinkKey is a key for links. Keep retired keys as long as mails with their links are read.
type LinkKey struct {
	ID     string // 1 to 16 letters, digits, hyphens or underscores; part of the links
	Secret []byte // at least 32 random bytes
}

// tokenParameter is the parameter of links that has the token.
const tokenParameter = "token"

// NewLinks returns links to a URL, at which the host serves [Links.Handler]. The URL must be
// https, as RFC 8058 requires. It may be http for localhost and loopback addresses, to try it
// out. The first key signs; all keys verify.
func NewLinks(target string, keys ...LinkKey) (*Links, error) {
	base, err := url.Parse(target)
	var errs []error
	if err != nil || !isSecure(base) || base.Fragment != "" {
		errs = append(errs, errors.New("almanacmail: the URL of links is not an absolute https URL without fragment"))
	}
	if len(keys) == 0 {
		errs = append(errs, errors.New("almanacmail: links need a key"))
	}
	known := make(map[string]bool)
	for _, k := range keys {
		switch {
		case len(k.ID) < 1 || len(k.ID) > 16 || strings.Trim(k.ID, alphabet) != "":
			errs = append(errs, fmt.Errorf("almanacmail: key id %q is not 1 to 16 letters, digits, hyphens or underscores", k.ID))
		case known[k.ID]:
			errs = append(errs, fmt.Errorf("almanacmail: two keys have the id %q", k.ID))
		case len(k.Secret) < sha256.Size:
			errs = append(errs, fmt.Errorf("almanacmail: the secret of key %q is shorter than %d bytes", k.ID, sha256.Size))
		}
		known[k.ID] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Links{base, keys}, nil
}

// isSecure reports whether no third party between a browser and the host can read a URL.
func isSecure(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && loopback)
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// URL returns the link that opts a user out of an event type. The type "" stands for every
// type.
func (l *Links) URL(user uuid.UUID, eventType string) string {
	return l.url(subject{user: user, eventType: eventType})
}

// subject is what a link is about.
type subject struct {
	user      uuid.UUID
	eventType string // "" stands for every type
	locale    string // of the mail; "" if it is not known
}

func (l *Links) url(about subject) string {
	u, query := *l.base, l.base.Query()
	query.Set(tokenParameter, l.keys[0].token(about))
	u.RawQuery = query.Encode()
	return u.String()
}

// verify returns the subject of a token.
func (l *Links) verify(token string) (subject, bool) {
	id, rest, _ := strings.Cut(token, ".")
	encoded, _, _ := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(raw) < len(uuid.UUID{}) {
		return subject{}, false
	}
	about := subject{user: uuid.UUID(raw[:len(uuid.UUID{})])}
	about.eventType, about.locale, _ = strings.Cut(string(raw[len(about.user):]), localeMark)
	for _, k := range l.keys {
		if k.ID == id {
			return about, hmac.Equal([]byte(token), []byte(k.token(about)))
		}
	}
	return subject{}, false
}

// localeMark is between the event type and the locale in tokens that have a locale. The
// database stores no event type that contains it.
const localeMark = "\x00"

// token returns <key id>.<user, event type and locale>.<HMAC>, the last two in base64.
func (k LinkKey) token(about subject) string {
	raw := append(about.user[:], about.eventType...)
	if about.locale != "" {
		raw = append(raw, localeMark+about.locale...)
	}
	signed := k.ID + "." + base64.RawURLEncoding.EncodeToString(raw)
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write([]byte("almanac unsubscribe " + signed)) // no other use of the secret gives the same
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
