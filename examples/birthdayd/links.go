package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/google/uuid"

	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/icalendar"
	"github.com/almanac-go/almanac/signedlink"
)

// linksConfig is the configuration of the links for users. The zero value means no links.
type linksConfig struct {
	publicURL string
	secret    string // base64; retired secrets follow after commas
}

func (l *linksConfig) settings() []setting {
	return []setting{
		{name: "public-url", arg: "URL", take: take(&l.publicURL),
			usage: "where users reach birthdayd: with -link-secret, mails have links and users have calendars"},
		{name: "link-secret", arg: "SECRET", secret: true, take: take(&l.secret),
			usage: "what links are signed with: base64 of 32 random bytes; retired secrets follow after commas"},
	}
}

// The paths below the public URL.
const (
	unsubscribePath = "/unsubscribe"
	calendarPath    = "/calendar/"
)

// links makes and verifies the links of users.
type links struct {
	unsubscribe *almanacmail.Links
	calendar    *icalendar.Links
	plain       bool // links are http, on this machine
}

// check returns what is wrong. The links of mails must be https (RFC 8058).
func (l linksConfig) check(mails bool) error {
	made, err := l.links()
	if err == nil && made != nil && made.plain && mails {
		return errors.New("-public-url is http, and the links of mails must be https")
	}
	return err
}

// links returns the links, or nil if none are configured.
func (l linksConfig) links() (*links, error) {
	if l == (linksConfig{}) {
		return nil, nil
	}
	if l.publicURL == "" || l.secret == "" {
		return nil, errors.New("-public-url and -link-secret need each other")
	}
	base, plain, err := l.base()
	keys, bad := l.keys()
	if err := errors.Join(err, bad); err != nil {
		return nil, err
	}
	made := &links{plain: plain}
	if made.unsubscribe, err = almanacmail.NewLinks(base.JoinPath(unsubscribePath).String(), keys...); err != nil {
		return nil, fmt.Errorf("-public-url, -link-secret: %w", err)
	}
	if made.calendar, err = icalendar.NewLinks(base.JoinPath(calendarPath).String(), keys...); err != nil {
		return nil, fmt.Errorf("-public-url, -link-secret: %w", err)
	}
	return made, nil
}

// base returns the public URL as https, and whether it is http. The error does not contain
// the URL, which may have a password.
func (l linksConfig) base() (base *url.URL, plain bool, err error) {
	base, err = url.Parse(l.publicURL)
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, false, errors.New("-public-url is not an absolute URL without login, query and fragment")
	}
	plain = base.Scheme == "http" && onLoopback(net.JoinHostPort(base.Hostname(), "0"))
	if base.Scheme != "https" && !plain {
		return nil, false, errors.New("-public-url is not https; http is only for this machine")
	}
	base.Scheme = "https"
	return base, plain, nil
}

// keys returns the keys of all secrets. The id of a key is a digest of its secret, so a
// retired secret keeps its id.
func (l linksConfig) keys() ([]signedlink.Key, error) {
	var keys []signedlink.Key
	for text := range strings.SplitSeq(l.secret, ",") {
		secret, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(secret) < sha256.Size {
			return nil, fmt.Errorf("-link-secret is not base64 of at least %d bytes; openssl rand -base64 32 makes one", sha256.Size)
		}
		id := sha256.Sum256(append([]byte("birthdayd link key "), secret...))
		keys = append(keys, signedlink.Key{ID: hex.EncodeToString(id[:4]), Secret: secret})
	}
	return keys, nil
}

// calendarURL returns the URL of the calendar of a user.
func (l *links) calendarURL(user uuid.UUID) string {
	made := l.calendar.URL(user)
	if l.plain {
		return "http" + strings.TrimPrefix(made, "https")
	}
	return made
}
