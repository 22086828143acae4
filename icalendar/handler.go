package icalendar

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/signedlink"
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

// Links makes and verifies the URLs of calendars. A URL names a user, and is signed with a key
// of the host's, so it cannot be guessed. It never expires: to withdraw URLs, retire the key.
// Links is safe for concurrent use. Every process that gives or serves URLs needs the same keys.
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
