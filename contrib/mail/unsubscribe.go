package almanacmail

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
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
