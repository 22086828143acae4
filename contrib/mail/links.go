package almanacmail

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/signedlink"
)

// Links makes and verifies the links by which users unsubscribe. A link names a user, an
// event type and the locale of its mail, and is signed with a key of the host's. It never
// expires. Links is safe for concurrent use. Every process that sends mails, or serves the
// links, needs the same keys.
type Links struct {
	base   *url.URL
	signer *signedlink.Signer
}

// tokenParameter is the parameter of links that has the token.
const tokenParameter = "token"

// NewLinks returns links to a URL, at which the host serves [Links.Handler]. See
// [signedlink.New] for the URL, the keys and the error. RFC 8058 requires https too. Keep
// retired keys as long as mails with their links are read.
func NewLinks(target string, keys ...signedlink.Key) (*Links, error) {
	signer, base, err := signedlink.New("unsubscribe", target, keys...)
	if err != nil {
		return nil, fmt.Errorf("almanacmail: %w", err)
	}
	return &Links{base, signer}, nil
}

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

// localeMark is between the event type and the locale in tokens that have a locale. The
// database stores no event type that contains it.
const localeMark = "\x00"

func (l *Links) url(about subject) string {
	signed := append(about.user[:], about.eventType...)
	if about.locale != "" {
		signed = append(signed, localeMark+about.locale...)
	}
	u, query := *l.base, l.base.Query()
	query.Set(tokenParameter, l.signer.Token(signed))
	u.RawQuery = query.Encode()
	return u.String()
}

// verify returns the subject of a token.
func (l *Links) verify(token string) (about subject, ok bool) {
	signed, ok := l.signer.Verify(token)
	if !ok || len(signed) < len(about.user) {
		return subject{}, false
	}
	about.user = uuid.UUID(signed[:len(about.user)])
	about.eventType, about.locale, _ = strings.Cut(string(signed[len(about.user):]), localeMark)
	return about, true
}
