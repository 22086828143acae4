package main

import (
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// mailbox is a mail server.
type mailbox struct {
	t       *testing.T
	address string
	mails   chan *mail.Message
}

func openMailbox(t *testing.T) *mailbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	box := &mailbox{t, l.Addr().String(), make(chan *mail.Message, 100)}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return session{box}, nil }))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return box
}

// flags returns the flags that make birthdayd send mails there.
func (box *mailbox) flags(templates string) []string {
	return []string{"-smtp", box.address, "-smtp-encryption", "plaintext", "-mail-from", "Acme <birthdays@example.com>", "-mail-templates", templates}
}

// next waits for a mail, and returns it with its subject.
func (box *mailbox) next() (m *mail.Message, subject string) {
	box.t.Helper()
	select {
	case m := <-box.mails:
		subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
		require.NoError(box.t, err)
		return m, subject
	case <-time.After(patience):
		box.t.Fatal("no mail arrived")
		return nil, ""
	}
}

type session struct{ box *mailbox }

func (session) Mail(string, *smtp.MailOptions) error { return nil }
func (session) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (session) Reset()                               {}
func (session) Logout() error                        { return nil }

func (s session) Data(r io.Reader) error {
	m, err := mail.ReadMessage(r)
	if err == nil {
		s.box.mails <- m
	}
	return err
}

func TestGreetingsGoByMailInsteadOfWebhooks(t *testing.T) {
	t.Parallel()
	box := openMailbox(t)
	p := launch(t, append(box.flags("../mail/templates"), "-database-url", pgtest.URL(t))...)
	moment := soon(2 * time.Second)
	status, answer := p.send("POST", "/user", celebrant(moment))
	require.Equal(t, http.StatusCreated, status, answer)
	event := answer["nextBirthdayEvent"].(map[string]any)
	m, subject := box.next()
	require.Equal(t, "<zoe@example.com>", m.Header.Get("To"))
	require.Equal(t, `"Acme" <birthdays@example.com>`, m.Header.Get("From"))
	require.Equal(t, `Happy birthday, Zoë "Z" O'Neil!`, subject)
	require.Equal(t, "<"+event["idempotencyKey"].(string)+"@example.com>", m.Header.Get("Message-Id"))
	p.ends(event, "COMPLETED")

	status, answer = p.send("POST", "/user", newborn(`{}`))
	require.Equal(t, http.StatusCreated, status)
	require.Nil(t, answer["nextBirthdayEvent"], "a user without an address gets no mail")
	require.Equal(t, 0, p.stop())
}

func TestGreetingsGoByMailBesideWebhooks(t *testing.T) {
	t.Parallel()
	box, h := openMailbox(t), listen(t, http.StatusOK)
	templates := filepath.Join(t.TempDir(), "en")
	require.NoError(t, os.Mkdir(templates, 0o700))
	for name, text := range map[string]string{
		"BIRTHDAY.txt":    "Subject: {{.Payload.age}} years\n\nHey",
		"ANNIVERSARY.txt": "Subject: {{.Payload.years}} years with us\n\nHey",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(templates, name), []byte(text), 0o600))
	}
	flags := append(append(h.flags(), box.flags(filepath.Dir(templates))...), "-anniversary", "hired", "-database-url", pgtest.URL(t))
	p := launch(t, flags...)
	moment := soon(2 * time.Second)
	status, answer := p.send("POST", "/user", celebrant(moment))
	require.Equal(t, http.StatusCreated, status, answer)
	require.Equal(t, "BIRTHDAY", answer["nextBirthdayEvent"].(map[string]any)["eventType"])
	var subjects []string
	for range 2 {
		_, subject := box.next()
		subjects = append(subjects, subject)
		h.next()
	}
	require.ElementsMatch(t, []string{fmt.Sprintf("%d years", moment.Year()-1992), fmt.Sprintf("%d years with us", moment.Year()-2020)}, subjects)
	types := map[any]bool{}
	for _, e := range p.series(answer["nextBirthdayEvent"].(map[string]any)) {
		types[e.(map[string]any)["eventType"]] = true
	}
	require.Equal(t, map[any]bool{"BIRTHDAY": true, "ANNIVERSARY": true, "BIRTHDAY_MAIL": true, "ANNIVERSARY_MAIL": true}, types)
	h.silent()
	require.Empty(t, box.mails)
	require.Equal(t, 0, p.stop())
}

func TestTheMailServerIsAsTheFlagsSay(t *testing.T) {
	t.Parallel()
	c, err := parse([]string{"-smtp", "mail.example.com:465", "-smtp-username", "acme", "-smtp-password", "hunter2", "-mail-from", "Acme <a@example.com>",
		"-mail-templates", "../mail/templates", "-mail-locale", "pl", "-patient-retry"}, environment())
	require.NoError(t, err)
	settings, err := c.mail.deliverySettings()
	require.NoError(t, err)
	require.Equal(t, almanacmail.Server{Address: "mail.example.com:465", Username: "acme", Password: "hunter2"}, settings.Server)
	payload := []byte(`{"age": 22}`)
	m, err := settings.Templates.Render(almanac.Delivery{Event: almanac.Event{Type: "BIRTHDAY", Wall: calendar.WallTime{Date: calendar.Date{Year: 2027, Month: time.March, Day: 15}}, Payload: payload}}, "")
	require.NoError(t, err)
	require.Equal(t, "pl", m.Locale)
	handlers := c.handlers()
	require.Len(t, handlers, 1)
	require.Equal(t, almanac.PatientRetry(), handlers[0].(mailer).Settings().RetryPolicy)
	require.Equal(t, 11*time.Minute, handlers[0].(mailer).Settings().AttemptTimeout)
	require.Equal(t, 24*time.Hour, handlers[0].(mailer).Settings().CatchUpPolicy.SkipOlder)
	_, err = c.mail.deliverer(slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
}
