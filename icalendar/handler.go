package icalendar

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/almanac-go/almanac"
)

// patience is the time of one request.
const patience = 10 * time.Second

// Handler serves the calendars at the URLs of links. Mount it at the URL of the links,
// without authentication: calendar programs send no credentials. Keep the paths out of access
// logs, because they are secrets.
//
// GET and HEAD are answered 200 with the calendar as text/calendar and an entity tag, or 304
// to an If-None-Match that names the tag. A URL that is not of links and the URL of a user who
// does not exist have the same answer, 404. Errors of the repository and of handlers are
// logged and answered 500. A request has ten seconds.
func (f *Feed) Handler(links *Links) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Referrer-Policy", "no-referrer") // the URL is the secret
		header.Set("X-Robots-Tag", "noindex")
		header.Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		text, err := f.linked(r, links)
		if errors.Is(err, almanac.ErrNotFound) {
			http.Error(w, "there is no calendar here", http.StatusNotFound)
			return
		}
		if err != nil {
			http.Error(w, "please try again later", http.StatusInternalServerError)
			return
		}
		header.Set("Content-Type", "text/calendar; charset=utf-8")
		header.Set("Cache-Control", fmt.Sprintf("private, max-age=%d", int(f.settings.Refresh.Seconds())))
		header.Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(text)))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
}

// linked returns the calendar that the URL of a request names. It logs errors other than
// [almanac.ErrNotFound], unless the client has gone.
func (f *Feed) linked(r *http.Request, links *Links) ([]byte, error) {
	user, ok := links.verify(r.URL.Path)
	if !ok {
		return nil, almanac.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	text, err := f.Calendar(ctx, user)
	if err != nil && !errors.Is(err, almanac.ErrNotFound) && r.Context().Err() == nil {
		f.settings.Log.ErrorContext(ctx, "Making a calendar failed", slog.String("user_id", user.String()), slog.Any("error", err))
	}
	return text, err
}
