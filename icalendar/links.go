package icalendar

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"

	"github.com/google/uuid"
)

// Links makes and verifies the URLs of calendars. A URL names a user, and is signed with a
// key of the host's, so it cannot be guessed. It never expires: to withdraw URLs, retire the
// key. Links is safe for concurrent use. Every process that gives or serves URLs needs the
// same keys.
type Links struct {
	base *url.URL
	keys []LinkKey // the first signs
}

// LinkKey is a key for URLs. Keep a retired key until its URLs are replaced. The keys may be
// those of unsubscribe links in contrib/mail: the links of one are not valid for the other.
type LinkKey struct {
	ID     string // 1 to 16 letters, digits, hyphens or underscores; part of the URLs
	Secret []byte // at least 32 random bytes
}

// suffix is the end of each URL, by which programs recognize a calendar.
const suffix = ".ics"

// NewLinks returns links below a URL, such as https://example.com/calendar/, at which the
// host serves [Feed.Handler]. The URL must be https, because the links are secrets. It may be
// http for localhost and loopback addresses, to try it out. The first key signs; all keys
// verify. The error names everything that is wrong.
func NewLinks(target string, keys ...LinkKey) (*Links, error) {
	base, err := url.Parse(target)
	var errs []error
	if err != nil || !isSecure(base) || base.RawQuery != "" || base.Fragment != "" {
		errs = append(errs, errors.New("icalendar: the URL of links is not an absolute https URL without query and fragment"))
	}
	if len(keys) == 0 {
		errs = append(errs, errors.New("icalendar: links need a key"))
	}
	known := make(map[string]bool)
	for _, k := range keys {
		switch {
		case len(k.ID) < 1 || len(k.ID) > 16 || strings.Trim(k.ID, alphabet) != "":
			errs = append(errs, fmt.Errorf("icalendar: key id %q is not 1 to 16 letters, digits, hyphens or underscores", k.ID))
		case known[k.ID]:
			errs = append(errs, fmt.Errorf("icalendar: two keys have the id %q", k.ID))
		case len(k.Secret) < sha256.Size:
			errs = append(errs, fmt.Errorf("icalendar: the secret of key %q is shorter than %d bytes", k.ID, sha256.Size))
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

// URL returns the URL of the calendar of a user. Everyone who knows it can read the calendar.
func (l *Links) URL(user uuid.UUID) string {
	return l.base.JoinPath(l.keys[0].token(user) + suffix).String()
}

// verify returns the user of the URL with the given path.
func (l *Links) verify(target string) (user uuid.UUID, ok bool) {
	token, named := strings.CutSuffix(path.Base(target), suffix)
	id, rest, _ := strings.Cut(token, ".")
	subject, _, _ := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.DecodeString(subject)
	if err != nil || len(raw) != len(user) || !named {
		return uuid.Nil, false
	}
	user = uuid.UUID(raw)
	for _, k := range l.keys {
		if k.ID == id {
			return user, hmac.Equal([]byte(token), []byte(k.token(user)))
		}
	}
	return uuid.Nil, false
}

// token returns <key id>.<user>.<HMAC>, the last two in base64.
func (k LinkKey) token(user uuid.UUID) string {
	signed := k.ID + "." + base64.RawURLEncoding.EncodeToString(user[:])
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write([]byte("almanac calendar " + signed)) // no other use of the secret gives the same
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
