package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/httpapi"
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

// linked serves the links of users, and passes all other requests to the API. Links are separate from
// the API: they carry no token, and do not count as its requests. Nothing of a link is logged.
type linked struct {
	api         http.Handler
	unsubscribe http.Handler
	calendar    http.Handler
	calendarURL func(user uuid.UUID) string
	slots       chan struct{} // bounds the requests that use the database
}

// linksAtOnce bounds the links that are followed at once; further ones wait. Otherwise a few
// links could use every connection of the API.
const linksAtOnce = 2

// linkLimit is how long unsubscribing may take. Calendars have the same limit.
const linkLimit = 10 * time.Second

// addLinks adds the links of users to the HTTP server, if they are configured.
func (d *deployment) addLinks(c config, registry almanac.Registry, log *slog.Logger) error {
	made, err := c.links.links()
	if err != nil || made == nil {
		return err
	}
	slog.SetDefault(log) // the handler of unsubscribe links logs there
	source := feedSource{reader{d.store, d.probe}, d.scheduler.With(d.store), !c.byWebhook()}
	feed, err := icalendar.New(source, source, registry, icalendar.Settings{
		Name:    "Greetings",
		Types:   withoutSuffix(registry.EventTypes()),
		Summary: summary,
		Log:     log,
	})
	if err != nil {
		return err
	}
	d.server.Handler = &linked{
		api:         d.server.Handler,
		unsubscribe: made.unsubscribe.Handler(d.refuseMails, nil),
		calendar:    feed.Handler(made.calendar),
		calendarURL: made.calendarURL,
		slots:       make(chan struct{}, linksAtOnce),
	}
	return nil
}

// refuseMails stores that a user wants no more mails of a type. The type of a mail depends on
// whether webhooks are sent too, and the user refuses both types.
func (d *deployment) refuseMails(ctx context.Context, user uuid.UUID, eventType string) error {
	ctx, cancel := context.WithTimeout(ctx, linkLimit)
	defer cancel()
	refused := almanac.OptOut{Type: eventType, Channel: almanacmail.Channel, Reason: "unsubscribe link", Author: "user"}
	beside := refused
	beside.Type += mailSuffix
	_, err := d.planner.UpdateUser(ctx, user, almanac.ProfileChange{OptOut: []almanac.OptOut{refused, beside}})
	return err
}

func (l *linked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == unsubscribePath:
		l.follow(l.unsubscribe, w, r)
	case strings.HasPrefix(r.URL.Path, calendarPath):
		l.follow(l.calendar, w, r)
	default:
		if user, ok := userOfCalendar(r); ok {
			l.tellURL(w, r, user)
			return
		}
		l.api.ServeHTTP(w, r)
	}
}

// follow serves a link when a slot is free.
func (l *linked) follow(link http.Handler, w http.ResponseWriter, r *http.Request) {
	httpapi.CloseAfterChunks(w, r)
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
		link.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

// userOfCalendar returns the id in a request for the URL of a calendar.
func userOfCalendar(r *http.Request) (id string, ok bool) {
	rest, ours := strings.CutPrefix(r.URL.Path, "/user/")
	id, named := strings.CutSuffix(rest, "/calendar")
	return id, ours && named && id != "" && !strings.Contains(id, "/") && r.Method == http.MethodGet
}

// tellURL answers with the URL of a user's calendar. It asks the API for the user, so the
// token, the rate and the refusals are those of the API.
func (l *linked) tellURL(w http.ResponseWriter, r *http.Request, id string) {
	question := r.Clone(r.Context())
	question.URL = &url.URL{Path: "/user/" + id}
	for _, condition := range []string{"If-Match", "If-None-Match"} {
		question.Header.Del(condition)
	}
	got := &answer{header: make(http.Header), status: http.StatusOK}
	l.api.ServeHTTP(got, question)
	if got.status != http.StatusOK {
		got.send(w)
		return
	}
	var found struct {
		User struct {
			ID uuid.UUID `json:"id"`
		} `json:"user"`
	}
	err := json.Unmarshal(got.body.Bytes(), &found)
	body, bad := json.Marshal(map[string]string{"url": l.calendarURL(found.User.ID)})
	if err != nil || bad != nil || found.User.ID == uuid.Nil { // the API always names its user
		http.Error(w, "the user cannot be read", http.StatusInternalServerError)
		return
	}
	got.header.Del("Etag") // of the user
	got.body.Reset()
	got.body.Write(append(body, '\n'))
	got.send(w)
}

// answer is an answer that is not sent yet.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // an error means that the client is gone
}

// feedSource is what calendars are made of. If types go by mail only, the events that their
// user unsubscribed from are not in the calendar.
type feedSource struct {
	reader
	scheduler almanac.Scheduler
	byMail    bool
}

// User returns a user who refuses a type if the user refuses its mails.
func (s feedSource) User(ctx context.Context, id uuid.UUID) (almanac.User, error) {
	u, err := s.reader.User(ctx, id)
	refused := slices.Clone(u.OptOuts)
	for _, o := range u.OptOuts {
		if s.byMail && o.Channel == almanacmail.Channel {
			o.Channel = ""
			refused = append(refused, o)
		}
	}
	u.OptOuts = refused
	return u, err
}

// Preview returns the next occurrences of a type that the user does not refuse.
func (s feedSource) Preview(ctx context.Context, id uuid.UUID, eventType string, n int) (almanac.PreviewResult, error) {
	u, err := s.User(ctx, id)
	if _, owed := u.OwedFrom(eventType); err != nil || !owed {
		return almanac.PreviewResult{}, err
	}
	return s.scheduler.PreviewUser(ctx, u, eventType, n)
}

// withoutSuffix returns the types without those of mails that are sent beside webhooks: a
// calendar shows each greeting once.
func withoutSuffix(types []string) []string {
	return slices.DeleteFunc(slices.Clone(types), func(t string) bool { return strings.HasSuffix(t, mailSuffix) })
}

// summary returns the title of an event in a calendar.
func summary(u almanac.User, e almanac.Event) string {
	if e.Type == almanac.TypeAnniversary {
		return "Anniversary of " + u.Name()
	}
	return "Birthday of " + u.Name()
}
