package almanacmail_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	almanacmail "github.com/almanac-go/almanac/contrib/mail"
)

// received is a mail as the server got it.
type received struct {
	from, to string
	text     string
	utf8     bool // as announced
}

func (r received) header(t *testing.T) mail.Header {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(r.text))
	require.NoError(t, err)
	return m.Header
}

// server is a real SMTP server that keeps what it accepts. Its functions decide the replies;
// nil accepts. They get the number of the call, counted from one.
type server struct {
	*smtp.Server
	address string

	hello, from, to, data func(n int) error
	password              string // that it wants; "" asks for none
	resets                func(c *smtp.Conn, mails int)
	slow                  <-chan struct{} // what a reply after the last byte waits for

	mu    sync.Mutex
	calls map[string]int
	mails []received
}

// serve starts a server without TLS, as set up by change.
func serve(t *testing.T, change func(*server)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveOn(t, l, change)
}

func serveOn(t *testing.T, l net.Listener, change func(*server)) *server {
	t.Helper()
	s := &server{address: l.Addr().String(), calls: make(map[string]int)}
	s.Server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		if err := s.reply("hello", s.hello); err != nil {
			return nil, err
		}
		return &session{server: s, conn: c}, nil
	}))
	s.AllowInsecureAuth = true
	s.ErrorLog = log.New(io.Discard, "", 0) // clients that break off
	if change != nil {
		change(s)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reply returns the answer to a call of a kind.
func (s *server) reply(kind string, decide func(int) error) error {
	s.mu.Lock()
	s.calls[kind]++
	n := s.calls[kind]
	s.mu.Unlock()
	if decide == nil {
		return nil
	}
	return decide(n)
}

func (s *server) called(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[kind]
}

func (s *server) received() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.mails...)
}

// settings are the settings of a deliverer to the server.
func (s *server) settings(t *testing.T) almanacmail.Settings {
	t.Helper()
	return almanacmail.Settings{
		Server:    almanacmail.Server{Address: s.address, Encryption: almanacmail.Unencrypted},
		From:      mail.Address{Name: "Almanac", Address: "hello@example.com"},
		Templates: templates(t),
	}
}

// session is a session with a server.
type session struct {
	server   *server
	conn     *smtp.Conn
	from, to string
	loggedIn bool
	utf8     bool
}

func (s *session) AuthMechanisms() []string {
	if s.server.password == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != "almanac" || password != s.server.password {
			return smtp.ErrAuthFailed
		}
		s.loggedIn = true
		return nil
	}), nil
}

func (s *session) Mail(from string, o *smtp.MailOptions) error {
	s.from, s.utf8 = from, o.UTF8
	if s.server.password != "" && !s.loggedIn {
		return smtp.ErrAuthRequired
	}
	return s.cutOff(s.server.reply("from", s.server.from))
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return s.cutOff(s.server.reply("to", s.server.to))
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.server.reply("data", s.server.data); err != nil {
		if errors.Is(err, errHangUp) {
			s.server.keep(s, text) // accepted, and the reply is lost
			_ = s.conn.Conn().Close()
		}
		return s.cutOff(err)
	}
	s.server.keep(s, text)
	if s.server.slow != nil {
		<-s.server.slow
	}
	return nil
}

// cutOff closes the connection for errCut.
func (s *session) cutOff(err error) error {
	if errors.Is(err, errCut) {
		_ = s.conn.Conn().Close()
	}
	return err
}

func (s *server) keep(from *session, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, received{from.from, from.to, string(text), from.utf8})
}

func (s *session) Reset() {
	if s.server.resets != nil {
		s.server.resets(s.conn, len(s.server.received()))
	}
}

func (s *session) Logout() error { return s.server.reply("logout", nil) }

// encrypted makes a listener encrypt from the first byte.
func encrypted(l net.Listener, config *tls.Config) net.Listener { return tls.NewListener(l, config) }

// trusting is a client's configuration.
func trusting(pool *x509.CertPool) *tls.Config { return &tls.Config{RootCAs: pool} }

// errCut makes the server close the connection without a reply.
var errCut = errors.New("cut")

// errHangUp makes the server accept a mail and close the connection without a reply.
var errHangUp = errors.New("hang up")

// always gives the same reply to each call.
func always(code int, status smtp.EnhancedCode) func(int) error {
	return func(int) error { return refusal(code, status) }
}

// first gives the reply to the first call only.
func first(code int, status smtp.EnhancedCode) func(int) error {
	return func(n int) error {
		if n > 1 {
			return nil
		}
		return refusal(code, status)
	}
}

func refusal(code int, status smtp.EnhancedCode) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: status, Message: "ada@example.org is not wanted"}
}

// certificate returns a certificate for 127.0.0.1, and the pool that trusts it.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	own, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(own)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, trusted
}
