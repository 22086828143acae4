package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

const (
	publicURL  = "https://greetings.example.com"
	linkSecret = "bGlua3MtYXJlLXNpZ25lZC13aXRoLXRoaXMtc2VjcmV0LTMy"
)

func linkFlags() []string { return []string{"-public-url", publicURL, "-link-secret", linkSecret} }

// follow requests a link as a proxy passes it on: the path and the query, under the public name.
func (p *process) follow(method, link, body string) (status int, header http.Header, text string) {
	p.t.Helper()
	u, err := url.Parse(link)
	require.NoError(p.t, err)
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+u.RequestURI(), strings.NewReader(body))
	require.NoError(p.t, err)
	r.Host = "greetings.example.com"
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Do(r)
	require.NoError(p.t, err)
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, response.Header, string(read)
}

// oneClick returns the link of a mail that a mail program follows by one click.
func oneClick(t *testing.T, m *mail.Message) string {
	t.Helper()
	require.Equal(t, "List-Unsubscribe=One-Click", m.Header.Get("List-Unsubscribe-Post"))
	link := strings.Trim(m.Header.Get("List-Unsubscribe"), "<>")
	require.True(t, strings.HasPrefix(link, publicURL+"/unsubscribe?token="), link)
	return link
}

func (p *process) created(body string) (id string, event map[string]any) {
	p.t.Helper()
	status, answer := p.send("POST", "/user", body)
	require.Equal(p.t, http.StatusCreated, status, answer)
	event, _ = answer["nextBirthdayEvent"].(map[string]any)
	return answer["user"].(map[string]any)["id"].(string), event
}

func (p *process) optOuts(id string) any {
	p.t.Helper()
	_, answer := p.send("GET", "/user/"+id, "")
	return refusals(answer["user"])
}

// refusals returns the opt-outs of a user without the time at which they were stored.
func refusals(user any) any {
	all, ok := user.(map[string]any)["optOuts"].([]any)
	if !ok {
		return nil
	}
	for _, one := range all {
		delete(one.(map[string]any), "since")
	}
	return all
}

func TestAMailUnsubscribesByOneClick(t *testing.T) {
	t.Parallel()
	box, h := openMailbox(t), listen(t, http.StatusOK)
	flags := append(append(box.flags("../mail/templates"), h.flags()...), linkFlags()...)
	p := launch(t, append(flags, "-log-level", "debug", "-database-url", pgtest.URL(t))...)
	id, _ := p.created(celebrant(soon(2 * time.Second)))
	m, _ := box.next()
	h.next()
	link := oneClick(t, m)

	status, header, page := p.follow("GET", link, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	require.Contains(t, page, `<form method="post">`)
	require.Nil(t, p.optOuts(id), "a scanner of mails follows links")

	for range 2 {
		status, _, page = p.follow("POST", link, "List-Unsubscribe=One-Click")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, page, "You have been unsubscribed")
	}

	// The other type is that of mails without webhooks, see the next test.
	require.Equal(t, []any{
		map[string]any{"type": "BIRTHDAY", "channel": "mail", "reason": "unsubscribe link", "author": "user"},
		map[string]any{"type": "BIRTHDAY_MAIL", "channel": "mail", "reason": "unsubscribe link", "author": "user"},
	}, p.optOuts(id))
	status, _, _ = p.follow("POST", link+"x", "")
	require.Equal(t, http.StatusNotFound, status)
	status, _, _ = p.follow("POST", publicURL+"/unsubscribe", "")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, 0, p.stop())
	_, token, _ := strings.Cut(link, "token=")
	require.NotContains(t, p.log.String()+p.out.String(), token)
}

// The user is greeted by webhook and not by mail, and with other flags by neither.
func TestAnUnsubscribedUserGetsNoMailUnderOtherFlags(t *testing.T) {
	t.Parallel()
	box, h := openMailbox(t), listen(t, http.StatusOK)
	flags := append(box.flags("../mail/templates"), append(linkFlags(), "-database-url", pgtest.URL(t))...)
	c, err := parse(append(flags, "-addr", "127.0.0.1:0"), environment())
	require.NoError(t, err)
	made, err := c.links.links()
	require.NoError(t, err)

	both := launch(t, append(flags, h.flags()...)...)
	id, _ := both.created(celebrant(soon(4 * time.Second)))
	user, err := uuid.Parse(id)
	require.NoError(t, err)
	link := made.unsubscribe.URL(user, "BIRTHDAY")
	status, _, _ := both.follow("POST", link, "List-Unsubscribe=One-Click")
	require.Equal(t, http.StatusOK, status)
	h.next()
	require.Eventually(t, func() bool {
		_, answer := both.send("GET", "/events?status=CANCELLED", "")
		return len(answer["events"].([]any)) == 1
	}, patience, pollEvery, "the mail was not called off")
	require.Equal(t, 0, both.stop())

	only := launch(t, flags...)
	id, event := only.created(strings.Replace(celebrant(soon(4*time.Second)), "zoe@", "zoe2@", 1))
	user, err = uuid.Parse(id)
	require.NoError(t, err)
	status, _, _ = only.follow("POST", made.unsubscribe.URL(user, "BIRTHDAY"), "List-Unsubscribe=One-Click")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "opted out", only.ends(event, "CANCELLED")["failureReason"])
	require.Empty(t, box.mails)
	h.silent()
	require.Equal(t, 0, only.stop())
}

func TestAUserHasACalendar(t *testing.T) {
	t.Parallel()
	box, h := openMailbox(t), listen(t, http.StatusOK)
	templates := filepath.Join(t.TempDir(), "en")
	require.NoError(t, os.Mkdir(templates, 0o700))
	for _, name := range []string{"BIRTHDAY.txt", "ANNIVERSARY.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(templates, name), []byte("Subject: Hey\n\n{{.Unsubscribe}}"), 0o600))
	}
	flags := append(append(box.flags(filepath.Dir(templates)), h.flags()...), linkFlags()...)
	p := launch(t, append(flags, "-anniversary", "hired", "-api-token", apiToken, "-log-level", "debug", "-database-url", pgtest.URL(t))...)
	const authorized = "Authorization: Bearer " + apiToken
	status, answer := p.send("POST", "/user", `{"firstName":"Ada","lastName":"Lovelace","dateOfBirth":"1992-05-06","timezone":"Asia/Tokyo",
		"email":"ada@example.com","attributes":{"hired":"2020-03-04"}}`, authorized)
	require.Equal(t, http.StatusCreated, status, answer)
	path := "/user/" + answer["user"].(map[string]any)["id"].(string)

	status, answer = p.send("GET", path+"/calendar", "")
	require.Equal(t, http.StatusUnauthorized, status)
	require.NotContains(t, answer, "url")
	for other, want := range map[string]int{
		"/user/" + uuid.NewString() + "/calendar": http.StatusNotFound, "/user/ada/calendar": http.StatusBadRequest,
		path + "/x/calendar": http.StatusNotFound, "/user//calendar": http.StatusNotFound,
	} {
		status, answer = p.send("GET", other, "", authorized)
		require.Equal(t, want, status, "%s: %v", other, answer)
	}
	status, answer = p.send("GET", path+"/calendar", "", authorized, `If-None-Match: "1"`)
	require.Equal(t, http.StatusOK, status)
	require.Len(t, answer, 1)
	link := answer["url"].(string)
	require.True(t, strings.HasPrefix(link, publicURL+"/calendar/"), link)

	status, header, text := p.follow("GET", link, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "text/calendar; charset=utf-8", header.Get("Content-Type"))
	require.Equal(t, 10, strings.Count(text, "SUMMARY:Birthday of Ada Lovelace\r\n"), "each greeting once: %s", text)
	require.Equal(t, 10, strings.Count(text, "SUMMARY:Anniversary of Ada Lovelace\r\n"))
	require.Contains(t, text, "0506T000000Z\r\n", "at nine in Tokyo")

	token := strings.TrimSuffix(strings.TrimPrefix(link, publicURL+"/calendar/"), ".ics")
	for _, wrong := range []string{strings.Replace(link, ".ics", "x.ics", 1), publicURL + "/calendar/", publicURL + "/unsubscribe?token=" + token} {
		status, _, _ = p.follow("GET", wrong, "")
		require.Equal(t, http.StatusNotFound, status, wrong)
	}
	status, _, _ = p.follow("POST", link, "")
	require.Equal(t, http.StatusMethodNotAllowed, status)
	require.Equal(t, 0, p.stop())
	require.NotContains(t, p.log.String()+p.out.String(), token)
}

func TestACalendarLacksMailsThatItsUserRefuses(t *testing.T) {
	t.Parallel()
	box := openMailbox(t)
	flags := append(box.flags("../mail/templates"), append(linkFlags(), "-database-url", pgtest.URL(t))...)
	p := launch(t, flags...)
	id, _ := p.created(celebrant(soon(time.Hour)))
	_, answer := p.send("GET", "/user/"+id+"/calendar", "")
	calendar := answer["url"].(string)
	_, _, text := p.follow("GET", calendar, "")
	require.Equal(t, 10, strings.Count(text, "BEGIN:VEVENT"))

	c, err := parse(flags, environment())
	require.NoError(t, err)
	made, err := c.links.links()
	require.NoError(t, err)
	status, _, _ := p.follow("POST", made.unsubscribe.URL(uuid.MustParse(id), "BIRTHDAY"), "List-Unsubscribe=One-Click")
	require.Equal(t, http.StatusOK, status)

	status, _, text = p.follow("GET", calendar, "")
	require.Equal(t, http.StatusOK, status)
	require.Zero(t, strings.Count(text, "BEGIN:VEVENT"), text)
	require.Equal(t, 0, p.stop())
}

func TestAFailedUnsubscriptionIsLoggedWithoutItsLink(t *testing.T) {
	t.Parallel()
	box, w := openMailbox(t), lay(t, pgtest.URL(t))
	flags := append(box.flags("../mail/templates"), append(linkFlags(), "-database-url", w.url, "-lease", "3s")...)
	p := launch(t, flags...)
	id, _ := p.created(celebrant(soon(time.Hour)))
	c, err := parse(flags, environment())
	require.NoError(t, err)
	made, err := c.links.links()
	require.NoError(t, err)
	link := made.unsubscribe.URL(uuid.MustParse(id), "BIRTHDAY")
	w.cut()

	status, _, text := p.follow("POST", link, "List-Unsubscribe=One-Click")

	require.Equal(t, http.StatusInternalServerError, status)
	require.Equal(t, "please try again later\n", text)
	logged := func() bool { return len(p.lines("Unsubscribing failed")) == 1 }
	require.Eventually(t, logged, patience, pollEvery, "in the form of the other lines") // the answer may be quicker
	require.Equal(t, id, p.lines("Unsubscribing failed")[0]["user_id"])
	_, token, _ := strings.Cut(link, "token=")
	require.NotContains(t, p.log.String(), token)
	w.mend()
	require.Equal(t, 0, p.stop())
}

func TestWithoutLinksTheirPathsAreUnknown(t *testing.T) {
	t.Parallel()
	box := openMailbox(t)
	p := launch(t, append(box.flags("../mail/templates"), "-database-url", pgtest.URL(t))...)
	id, _ := p.created(celebrant(soon(2 * time.Second)))
	for _, path := range []string{"/unsubscribe?token=x", "/calendar/x.ics", "/user/" + id + "/calendar"} {
		status, answer := p.send("GET", path, "")
		require.Equal(t, http.StatusNotFound, status, path)
		require.Equal(t, "Not Found", answer["title"], path)
	}
	m, _ := box.next()
	require.Empty(t, m.Header.Get("List-Unsubscribe"))
	require.Equal(t, 0, p.stop())
}

func TestLinksOfRetiredSecretsAreValid(t *testing.T) {
	t.Parallel()
	const young = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	user := uuid.New()
	old, err := linksConfig{publicURL, linkSecret}.links()
	require.NoError(t, err)
	both, err := linksConfig{publicURL, young + "," + linkSecret}.links()
	require.NoError(t, err)
	alone, err := linksConfig{publicURL, young}.links()
	require.NoError(t, err)
	visit := func(l *links, target string) int {
		w := httptest.NewRecorder()
		l.unsubscribe.Handler(nil, nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		return w.Code
	}
	require.Equal(t, http.StatusOK, visit(both, old.unsubscribe.URL(user, "BIRTHDAY")))
	require.Equal(t, http.StatusOK, visit(alone, both.unsubscribe.URL(user, "BIRTHDAY")), "the first secret signs")
	require.Equal(t, http.StatusNotFound, visit(alone, old.unsubscribe.URL(user, "BIRTHDAY")))
	require.NotContains(t, old.calendarURL(user), linkSecret)
}

func TestThePublicURLIsHTTPSUnlessItIsThisMachine(t *testing.T) {
	t.Parallel()
	user := uuid.New()
	for base, want := range map[string]string{
		"https://example.com":       "https://example.com/calendar/",
		"https://example.com/a/":    "https://example.com/a/calendar/",
		"https://example.com:8443/": "https://example.com:8443/calendar/",
		"http://127.0.0.1:8080":     "http://127.0.0.1:8080/calendar/",
		"http://[::1]:8080/":        "http://[::1]:8080/calendar/",
		"http://localhost":          "http://localhost/calendar/",
	} {
		c, err := parse([]string{"-demo", "-public-url", base, "-link-secret", linkSecret}, environment())
		require.NoError(t, err, base)
		made, err := c.links.links()
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(made.calendarURL(user), want), made.calendarURL(user))
	}
	short := base64.StdEncoding.EncodeToString(make([]byte, 31))
	for complaint, args := range map[string][]string{
		"-public-url and -link-secret need each other":                            {"-public-url", publicURL},
		"-public-url and -link-secret need each other ":                           {"-link-secret", linkSecret},
		"-public-url is not https; http is only for this machine":                 {"-public-url", "http://example.com", "-link-secret", linkSecret},
		"-public-url is not https; http is only for this machine ":                {"-public-url", "ftp://localhost", "-link-secret", linkSecret},
		"-public-url is not an absolute URL":                                      {"-public-url", "example.com", "-link-secret", linkSecret},
		"-public-url is not an absolute URL without login":                        {"-public-url", "https://a:hunter2@example.com", "-link-secret", linkSecret},
		"-public-url is not an absolute URL without login, query":                 {"-public-url", "https://example.com/?a", "-link-secret", linkSecret},
		"-link-secret is not base64 of at least 32 bytes":                         {"-public-url", publicURL, "-link-secret", short},
		"-link-secret is not base64 of at least 32 bytes; openssl rand -base64 3": {"-public-url", publicURL, "-link-secret", "hunter2"},
		"two keys have the id":                                                    {"-public-url", publicURL, "-link-secret", linkSecret + "," + linkSecret},
		"-public-url is http, and the links of mails must be https": {"-public-url", "http://localhost", "-link-secret", linkSecret,
			"-smtp", "localhost:25", "-mail-from", "a@example.com", "-mail-templates", "../mail/templates"},
	} {
		_, err := parse(append(args, "-webhook-url", "https://example.com/"), environment())
		require.ErrorContains(t, err, strings.TrimSpace(complaint), args)
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), linkSecret)
	}
}

func TestLinksLeaveConnectionsToTheAPI(t *testing.T) {
	t.Parallel()
	inside, gate := make(chan struct{}, 10), make(chan struct{})
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	l := &linked{api: ok, slots: make(chan struct{}, linksAtOnce), calendar: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-gate
	})}
	server := httptest.NewServer(l)
	defer server.Close()
	free := sync.OnceFunc(func() { close(gate) })
	defer free() // the server waits for its requests
	answered := make(chan error, 5)
	for i := range 5 {
		go func() { answered <- ask(t.Context(), fmt.Sprintf("%s/calendar/%d.ics", server.URL, i)) }()
	}
	for range linksAtOnce {
		<-inside
	}
	for range 20 {
		require.NoError(t, ask(t.Context(), server.URL+"/user"), "the API answers meanwhile")
	}
	require.Empty(t, inside, "more links are followed at once")
	free()
	for range 5 {
		require.NoError(t, <-answered)
	}
}
