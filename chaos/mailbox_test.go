package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/mail"
	"strings"
	"testing/fstest"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/almanac-go/almanac"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
)

// mailer is a deliverer of mails to an SMTP server.
func mailer(server string) (almanac.Deliverer, error) {
	templates, err := almanacmail.ParseTemplates(fstest.MapFS{
		"en/" + TickType + ".txt": {Data: []byte("Subject: tick\n\n{{.Payload.message}}\n")},
	}, "en")
	if err != nil {
		return nil, err
	}
	return almanacmail.New(almanacmail.Settings{
		Server:    almanacmail.Server{Address: server, Encryption: almanacmail.Unencrypted, Connections: Slots},
		From:      mail.Address{Address: "ticks@example.com"},
		Templates: templates,
		Address:   func(context.Context, almanac.Delivery) (string, error) { return "ada@example.org", nil },
		Log:       slog.New(slog.DiscardHandler),
	})
}

// ServeMail lets the receiver take mails, too, until stop is called. The idempotency key of a
// mail is in its Message-ID. What a server on the way has added is not part of its body.
func (r *Receiver) ServeMail() (address string, stop func(), err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return mailSession{r, c}, nil
	}))
	go func() { _ = server.Serve(l) }()
	return l.Addr().String(), func() { _ = server.Close() }, nil
}

// mailSession takes the mails of one connection.
type mailSession struct {
	receiver *Receiver
	conn     *smtp.Conn
}

func (mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (mailSession) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (mailSession) Reset()                               {}
func (mailSession) Logout() error                        { return nil }

func (s mailSession) Data(text io.Reader) error {
	e, err := readMail(text)
	if err != nil {
		return err
	}
	r := s.receiver
	r.mu.Lock()
	n, answer := r.arrived, r.answer
	r.arrived++
	r.mu.Unlock()
	e.Status = answer(n, e) // may take its time
	r.mu.Lock()
	r.ledger = append(r.ledger, e)
	r.mu.Unlock()
	switch e.Status {
	case http.StatusOK:
		return nil
	case 0:
		_ = s.conn.Conn().Close()
		return errors.New("chaos: no answer")
	default:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "not now"}
	}
}

// readMail reads a mail of a mailer.
func readMail(text io.Reader) (Entry, error) {
	m, err := mail.ReadMessage(text)
	if err != nil {
		return Entry{}, err
	}
	body, err := io.ReadAll(m.Body)
	if err != nil {
		return Entry{}, err
	}
	key, _, _ := strings.Cut(strings.TrimPrefix(m.Header.Get("Message-Id"), "<"), "@")
	same := bytes.NewBuffer(nil)
	for _, name := range []string{"From", "To", "Subject", "Date", "Message-Id", "Content-Type", "Auto-Submitted"} {
		same.WriteString(name + ": " + m.Header.Get(name) + "\n")
	}
	same.Write(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")))
	// The lines of the text are shorter than those that quoted-printable breaks.
	e := entry(string(body), same.Bytes())
	e.Key, e.At = key, time.Now()
	e.Signed = e.At
	return e, nil
}

// Arrived is how many deliveries the receiver has seen, those included to which it has not
// replied yet.
func (r *Receiver) Arrived() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrived
}
