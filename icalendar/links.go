package icalendar

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/signedlink"
)

// Links makes and verifies the URLs of calendars. A URL names a user, and is signed with a
// key of the host's, so it cannot be guessed. It never expires: to withdraw URLs, retire the
// key. Links is safe for concurrent use. Every process that gives or serves URLs needs the
// same keys.
type Links struct {
	base   *url.URL
	signer *signedlink.Signer
}

// suffix is the end of each URL, by which programs recognize a calendar.
const suffix = ".ics"

// NewLinks returns links below a URL without query, such as https://example.com/calendar/, at
// which the host serves [Feed.Handler]. See [signedlink.New] for the URL, the keys and the
// error. The keys may be those of unsubscribe links in contrib/mail.
func NewLinks(target string, keys ...signedlink.Key) (*Links, error) {
	signer, base, err := signedlink.New("calendar", target, keys...)
	if base != nil && base.RawQuery != "" {
		err = errors.Join(errors.New("the URL of links is not an https URL without query"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("icalendar: %w", err)
	}
	return &Links{base, signer}, nil
}

// URL returns the URL of the calendar of a user. Everyone who knows it can read the calendar.
func (l *Links) URL(user uuid.UUID) string {
	return l.base.JoinPath(l.signer.Token(user[:]) + suffix).String()
}

// verify returns the user of the URL with the given path.
func (l *Links) verify(target string) (uuid.UUID, bool) {
	token, named := strings.CutSuffix(path.Base(target), suffix)
	subject, signed := l.signer.Verify(token)
	user, err := uuid.FromBytes(subject)
	return user, named && signed && err == nil
}
