package almanacmail_test

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/signedlink"
)

// optOuts records what a handler was asked to store.
type optOuts struct {
	mu  sync.Mutex
	all []string
	err error
}

func (o *optOuts) store(_ context.Context, user uuid.UUID, eventType string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, user.String()+" "+eventType)
	return o.err
}

// page serves links as a host does, and returns what a request is answered.
func page(t *testing.T, h http.Handler, method, link, body string) *http.Response {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/unsubscribe", h)
	request := httptest.NewRequest(method, link, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, request)
	return recorder.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(body)
}

const oneClick = "List-Unsubscribe=One-Click"

// RFC 8058: a POST without cookies, and no redirect.
func TestOneClickOptsOutAndRepeatsDoNoHarm(t *testing.T) {
	t.Parallel()
	ada, stored := uuid.New(), new(optOuts)
	h := links(t).Handler(stored.store, nil)
	link := links(t).URL(ada, "BIRTHDAY")
	for range 2 {
		answer := page(t, h, http.MethodPost, link, oneClick)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Contains(t, text(t, answer), "You have been unsubscribed.")
	}
	require.Equal(t, []string{ada.String() + " BIRTHDAY", ada.String() + " BIRTHDAY"}, stored.all)

	require.Equal(t, http.StatusOK, page(t, h, http.MethodPost, links(t).URL(ada, ""), "").StatusCode)
	require.Equal(t, ada.String()+" ", stored.all[2], "every type")

	stored.err = &almanac.NotFoundError{Kind: "user", ID: ada}
	require.Equal(t, http.StatusOK, page(t, h, http.MethodPost, link, oneClick).StatusCode, "deleted: nothing more will come")
	stored.err = errors.New("the database is away")
	require.Equal(t, http.StatusInternalServerError, page(t, h, http.MethodPost, link, oneClick).StatusCode)
}

// One click on the link of a mail ends the user's mails of that type.
func TestOneClickEditsTheOptOutsOfTheUser(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	settings := s.settings(t)
	settings.Unsubscribe = links(t)
	d, _ := deliverer(t, settings)
	stage := newStage(t, d)
	require.Equal(t, almanac.Completed, stage.attempt().Status)
	link := strings.Trim(s.received()[0].header(t).Get("List-Unsubscribe"), "<>")
	_, err := stage.scheduler.Schedule(t.Context(), stage.event.UserID, "BIRTHDAY")
	require.NoError(t, err)
	almanactest.PendingEvent(t, stage.store, stage.event.UserID, "BIRTHDAY") // the next one

	h := links(t).Handler(func(ctx context.Context, user uuid.UUID, eventType string) error {
		_, err := stage.scheduler.OptOut(ctx, user, almanac.OptOut{Type: eventType, Reason: "unsubscribe link", Author: "user"})
		return err
	}, nil)
	for range 2 {
		require.Equal(t, http.StatusOK, page(t, h, http.MethodPost, link, oneClick).StatusCode)
	}
	u, err := stage.store.User(t.Context(), stage.event.UserID)
	require.NoError(t, err)
	require.Len(t, u.OptOuts, 1)
	require.Equal(t, "BIRTHDAY", u.OptOuts[0].Type)
	require.Equal(t, "unsubscribe link by user", u.OptOuts[0].Reason+" by "+u.OptOuts[0].Author)
	almanactest.FindEvents(t, stage.store, almanac.InStatus(almanac.Pending), 0)

	_, err = stage.scheduler.DeleteUser(t.Context(), u.ID, almanac.DeleteOptions{})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, page(t, h, http.MethodPost, link, oneClick).StatusCode)
}

// Scanners of mails fetch every link.
func TestGetOnlyShowsAPage(t *testing.T) {
	t.Parallel()
	stored := new(optOuts)
	h := links(t).Handler(stored.store, nil)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		answer := page(t, h, method, links(t).URL(uuid.New(), "BIRTHDAY"), "")
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Contains(t, text(t, answer), `<form method="post">`)
		require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
		require.Equal(t, "no-referrer", answer.Header.Get("Referrer-Policy"))
	}
	answer := page(t, h, http.MethodPut, links(t).URL(uuid.New(), "BIRTHDAY"), "")
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
	require.Equal(t, "GET, HEAD, POST", answer.Header.Get("Allow"))
	require.Empty(t, stored.all)

	own := template.Must(template.New("").Parse(`{{.EventType}} {{.Done}}`))
	require.Equal(t, "BIRTHDAY false", text(t, page(t, links(t).Handler(stored.store, own), http.MethodGet, links(t).URL(uuid.New(), "BIRTHDAY"), "")))
}

// The page says which mails are meant, and a page of the host's is in the language of the mail.
func TestThePageKnowsTheMailsAndTheirLanguage(t *testing.T) {
	t.Parallel()
	h := links(t).Handler(new(optOuts).store, nil)
	for eventType, want := range map[string]string{"RENT_DUE": "no more mails of the kind “rent due”", "": "no more mails", "<b>": "“&lt;b&gt;”"} {
		for method, end := range map[string]string{http.MethodGet: "?", http.MethodPost: "."} {
			require.Contains(t, text(t, page(t, h, method, links(t).URL(uuid.New(), eventType), "")), want+end)
		}
	}

	parsed, err := almanacmail.ParseTemplates(files(map[string]string{
		"en/BIRTHDAY.txt": "Subject: x\n\n{{.Unsubscribe}}", "de/BIRTHDAY.txt": "Subject: x\n\n{{.Unsubscribe}}",
	}), "en")
	require.NoError(t, err)
	own := template.Must(template.New("").Parse(`{{.Locale}} {{.EventType}} {{.Done}}`))
	h = links(t).Handler(new(optOuts).store, own)
	for locale, want := range map[string]string{"de-AT": "de", "ja": "en", "": "en"} {
		s := sent(t, greeting(ada(almanactest.WithLocale(locale))), func(s *almanacmail.Settings) {
			s.Unsubscribe, s.Templates = links(t), parsed
		})
		link := strings.Trim(s.header(t).Get("List-Unsubscribe"), "<>")
		require.Equal(t, want+" BIRTHDAY false", text(t, page(t, h, http.MethodGet, link, "")))
		require.Equal(t, want+" BIRTHDAY true", text(t, page(t, h, http.MethodPost, link, oneClick)))
	}
	require.Equal(t, " BIRTHDAY false", text(t, page(t, h, http.MethodGet, links(t).URL(uuid.New(), "BIRTHDAY"), "")), "not known")
}

func TestALinkCannotBeForged(t *testing.T) {
	t.Parallel()
	stored := new(optOuts)
	h := links(t).Handler(stored.store, nil)
	other := links(t, signedlink.Key{ID: "2027", Secret: bytes.Repeat([]byte("o"), 32)})
	unknown := links(t, signedlink.Key{ID: "2026", Secret: bytes.Repeat([]byte("k"), 32)})
	ada := uuid.New()
	own := links(t).URL(ada, "BIRTHDAY")
	token := func(link string) string {
		u, err := url.Parse(link)
		require.NoError(t, err)
		require.Equal(t, "mail", u.Query().Get("from"), "the host's parameter stays")
		return u.Query().Get("token")
	}
	mine, theirs := strings.Split(token(own), "."), strings.Split(token(links(t).URL(uuid.New(), "BIRTHDAY")), ".")
	require.Len(t, mine, 3)
	for name, forged := range map[string]string{
		"none":               "",
		"another key":        token(other.URL(ada, "BIRTHDAY")),
		"an unknown key":     token(unknown.URL(ada, "BIRTHDAY")),
		"another user":       mine[0] + "." + theirs[1] + "." + mine[2],
		"another type":       mine[0] + "." + strings.Split(token(links(t).URL(ada, "RENEWAL")), ".")[1] + "." + mine[2],
		"no signature":       mine[0] + "." + mine[1] + ".",
		"a shorter one":      token(own)[:len(token(own))-1],
		"more":               token(own) + ".x",
		"nonsense":           "2027.!!!.!!!",
		"less than a user":   "2027.AAAA.AAAA",
		"without a key's id": "." + mine[1] + "." + mine[2],
	} {
		answer := page(t, h, http.MethodPost, "https://example.com/unsubscribe?token="+url.QueryEscape(forged), oneClick)
		require.Equal(t, http.StatusNotFound, answer.StatusCode, name)
	}
	require.Empty(t, stored.all)
	require.Equal(t, http.StatusOK, page(t, h, http.MethodPost, own, oneClick).StatusCode)
}

// A link works for as long as the key is kept.
func TestKeysAreReplacedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	old := signedlink.Key{ID: "2026", Secret: bytes.Repeat([]byte("o"), 32)}
	young := signedlink.Key{ID: "2027", Secret: bytes.Repeat([]byte("y"), 32)}
	stored := new(optOuts)
	sent := links(t, old).URL(uuid.New(), "BIRTHDAY")
	require.Equal(t, http.StatusOK, page(t, links(t, young, old).Handler(stored.store, nil), http.MethodPost, sent, oneClick).StatusCode)
	require.Equal(t, http.StatusNotFound, page(t, links(t, young).Handler(stored.store, nil), http.MethodPost, sent, oneClick).StatusCode)
	require.Contains(t, links(t, young, old).URL(uuid.New(), ""), "token=2027.")
}

func TestNewLinksNamesEveryWrongSetting(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte("k"), 32)
	_, err := almanacmail.NewLinks("http://example.com", signedlink.Key{ID: "a.b", Secret: secret},
		signedlink.Key{ID: "1", Secret: secret[:31]}, signedlink.Key{ID: "1", Secret: secret})
	for _, want := range []string{"https URL", `key id "a.b"`, `secret of key "1" is shorter`, `two keys have the id "1"`} {
		require.ErrorContains(t, err, want)
	}
	_, err = almanacmail.NewLinks("https://example.com#top")
	require.ErrorContains(t, err, "https URL")
	require.ErrorContains(t, err, "need a key")
}

func TestLinksMayBeTriedOutOnThisMachine(t *testing.T) {
	t.Parallel()
	key := signedlink.Key{ID: "2027", Secret: bytes.Repeat([]byte("k"), 32)}
	for target, allowed := range map[string]bool{
		"http://localhost:8080/unsubscribe": true, "http://127.0.0.1:8080/unsubscribe": true, "http://[::1]:8080/unsubscribe": true,
		"http://example.com/unsubscribe": false, "http://localhost.example.com/": false, "http://192.168.0.1/": false, "ftp://localhost/": false,
		"http:///unsubscribe": false, "https:///unsubscribe": false, "/unsubscribe": false,
	} {
		_, err := almanacmail.NewLinks(target, key)
		require.Equal(t, allowed, err == nil, "%s: %v", target, err)
	}
}
