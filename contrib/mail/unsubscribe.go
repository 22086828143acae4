package almanacmail

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/signedlink"
)

// Page is what the page of a link is executed with.
type Page struct {
	EventType string // "" stands for every type
	// Locale is that of the mail with the link, such as "pt-BR": the templates' locale that
	// suits the user. It is "" for a link of [Links.URL].
	Locale string
	Done   bool // whether the user has been opted out; otherwise the page asks for it
}

// unsubscribePage is the page of links without a page of the host's.
var unsubscribePage = template.Must(template.New("unsubscribe").Funcs(template.FuncMap{"words": words}).Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Unsubscribe</title>
{{if .Done}}<p>You have been unsubscribed. You will receive no more mails{{with .EventType}} of the kind “{{words .}}”{{end}}.</p>
{{else}}<form method="post"><p>Do you want to receive no more mails{{with .EventType}} of the kind “{{words .}}”{{end}}?</p><button>Unsubscribe</button></form>
{{end}}</html>
`))

// words returns an event type as users may read it: RENT_DUE as "rent due".
func words(eventType string) string {
	return strings.ToLower(strings.NewReplacer("_", " ", "-", " ").Replace(eventType))
}

// Handler serves the links. Mount it at the URL of the links, without authentication: mail
// programs send no cookies.
//
//   - POST calls optOut, which stores that the user wants no more events of a type, as
//     [almanac.Planner] does. The type "" stands for every type. The answer is 200. A repeat
//     calls optOut again and is answered 200 too, and so is the link of a user who was
//     deleted (optOut returns [almanac.ErrNotFound]).
//   - GET only shows a page with a button that does so, because scanners of mails follow
//     links.
//
// A link with an invalid signature is answered 404, and an error of optOut 500. The page is
// executed with a [Page]; nil is a page in plain English, which names the event type. The page
// must have a form that sends a POST to the same URL.
func (l *Links) Handler(optOut func(ctx context.Context, user uuid.UUID, eventType string) error, page *template.Template) http.Handler {
	if page == nil {
		page = unsubscribePage
	}
	return &unsubscriber{l, optOut, page}
}

type unsubscriber struct {
	links  *Links
	optOut func(ctx context.Context, user uuid.UUID, eventType string) error
	page   *template.Template
}

func (h *unsubscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer") // the URL is as good as the button
	header.Set("X-Robots-Tag", "noindex")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		header.Set("Allow", "GET, HEAD, POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	about, ok := h.links.verify(r.URL.Query().Get(tokenParameter))
	if !ok {
		http.Error(w, "this link is not valid", http.StatusNotFound)
		return
	}
	shown := Page{EventType: about.eventType, Locale: about.locale, Done: r.Method == http.MethodPost}
	if shown.Done {
		if err := h.optOut(r.Context(), about.user, about.eventType); err != nil && !errors.Is(err, almanac.ErrNotFound) {
			slog.ErrorContext(r.Context(), "Unsubscribing failed",
				slog.String("user_id", about.user.String()), slog.String("event_type", about.eventType), slog.Any("error", err))
			http.Error(w, "please try again later", http.StatusInternalServerError)
			return
		}
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	_ = h.page.Execute(w, shown) // the client may be gone
}

// Links makes and verifies the links by which users unsubscribe. A link names a user, an event type and
// the locale of its mail, and is signed with a key of the host's. It never expires. Links is safe for
// concurrent use. Every process that sends mails, or serves the links, needs the same keys.
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

// URL returns the link that opts a user out of an event type. The type "" stands for every type.
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
