package almanacmail

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// Server describes the submission server that takes the mails. Use a server of the host or of its provider,
// which queues mails and tries recipients' servers again. The zero value of a field is its default.
type Server struct {
	Address  string // host:port; required
	Username string // the login; "" means that none is needed
	Password string
	// Encryption is how the connection is encrypted. The default is ImplicitTLS on port 465
	// and StartTLS on any other port.
	Encryption Encryption
	// TLS is the configuration of TLS. The default is that of crypto/tls for the host of
	// Address, from TLS 1.2 on.
	TLS *tls.Config
	// Connections is the number of mails that are sent at once, each on its own connection; the default
	// is 4. A delivery waits up to half of its time for a connection, and is then postponed.
	Connections int
	// Options are further options of go-mail, such as another way to log in
	// (gomail.WithSMTPAuthCustom) or another name for EHLO (gomail.WithHELO). They cannot
	// change the timeout and the dialling of connections. The default is none.
	Options []gomail.Option
}

// Encryption is how the connection to a [Server] is encrypted.
type Encryption string

// The encryptions.
const (
	StartTLS    Encryption = "starttls"  // begins in plain text; a server that does not offer STARTTLS is not used
	ImplicitTLS Encryption = "tls"       // encrypted from the first byte
	Unencrypted Encryption = "plaintext" // for a server on the same machine; New refuses a Username for other hosts, unless there are Options
)

const (
	openLimit = time.Minute      // how long opening a session may take
	sendLimit = 30 * time.Minute // how long a mail may take if the caller sets no limit
	idleLimit = 30 * time.Second // how long an unused connection stays open
	quitLimit = 5 * time.Second  // how long the server may take to say goodbye
)

// withDefaults returns s with its defaults, and the host and the port of its address.
func (s Server) withDefaults() (server Server, host string, port int, err error) {
	if s.Address == "" {
		return s, "", 0, errors.New("almanacmail: Server.Address is required")
	}
	host, text, err := net.SplitHostPort(s.Address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || host == "" || port < 1 || port > 65535 {
		return s, "", 0, fmt.Errorf("almanacmail: server %q is not host:port", s.Address)
	}
	if s.Encryption == "" {
		s.Encryption = StartTLS
		if port == gomail.DefaultPortSSL {
			s.Encryption = ImplicitTLS
		}
	}
	s.Connections = cmp.Or(s.Connections, 4)
	config := s.TLS.Clone()
	config = cmp.Or(config, new(tls.Config))
	config.ServerName = cmp.Or(config.ServerName, host)
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	s.TLS = config
	return s, host, port, nil
}

// checked returns s with its defaults, and every complaint about it.
func (s Server) checked() (Server, error) {
	checked, host, _, err := s.withDefaults()
	errs := []error{err}
	tried := checked
	if err != nil {
		tried.Address = "localhost:587" // so that the other fields are checked, too
	}
	_, err = tried.client(noDial)
	errs = append(errs, err)
	if checked.Connections < 0 {
		errs = append(errs, fmt.Errorf("almanacmail: %d connections are not 1 or more", checked.Connections))
	}
	// go-mail would refuse each login. Options may have another way to log in or to encrypt.
	local := slices.Contains([]string{"", "localhost", "127.0.0.1", "::1"}, host)
	if s.Encryption == Unencrypted && s.Username != "" && !local && len(s.Options) == 0 {
		errs = append(errs, fmt.Errorf("almanacmail: Server.Encryption %q with Server.Username would send Server.Password in plain text to %s; "+
			"that is only allowed to localhost, 127.0.0.1 and ::1", s.Encryption, host))
	}
	return checked, errors.Join(errs...)
}

// client returns a client of go-mail. It is made anew for each connection, because finding a
// way to log in changes it.
func (s Server) client(dial gomail.DialContextFunc) (*gomail.Client, error) {
	s, host, port, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	options := []gomail.Option{gomail.WithPort(port), gomail.WithTLSConfig(s.TLS)}
	switch s.Encryption {
	case StartTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case ImplicitTLS:
		options = append(options, gomail.WithSSL()) // dial encrypts: see connect
	case Unencrypted:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		return nil, fmt.Errorf("almanacmail: %q is not an encryption", s.Encryption)
	}
	if s.Username != "" {
		options = append(options, gomail.WithUsername(s.Username), gomail.WithPassword(s.Password),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthSCRAMSHA1,
				gomail.SMTPAuthPlain, gomail.SMTPAuthLogin, gomail.SMTPAuthCramMD5))
	}
	client, err := gomail.NewClient(host, slices.Concat(options, s.Options,
		[]gomail.Option{gomail.WithTimeout(sendLimit), gomail.WithDialContextFunc(dial)})...)
	if err != nil {
		return nil, fmt.Errorf("almanacmail: %w", err)
	}
	return client, nil
}

// connection is an open SMTP session. One goroutine uses it at a time.
type connection struct {
	client  *gomail.Client
	session *smtp.Client
	wire    net.Conn // below TLS
	broken  bool
	idle    *time.Timer // closes the connection while it is not used
}

// open opens a session. go-mail heeds the context only while it dials, and leaves the
// connection open when a later step fails.
func (s Server) open(ctx context.Context) (_ *connection, err error) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	c := new(connection)
	stop := func() bool { return true }
	c.client, err = s.client(func(dialling context.Context, network, address string) (net.Conn, error) {
		wire, err := new(net.Dialer).DialContext(dialling, network, address)
		if err != nil {
			return nil, err
		}
		c.wire, stop = wire, context.AfterFunc(ctx, func() { _ = wire.Close() })
		return s.encrypt(dialling, wire)
	})
	if err == nil {
		c.session, err = c.client.DialToSMTPClientWithContext(ctx)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.abort()
		return nil, sessionError{err}
	}
	return c, nil
}

// encrypt returns the connection for go-mail, which asks by its type whether it is encrypted.
func (s Server) encrypt(ctx context.Context, wire net.Conn) (net.Conn, error) {
	s, _, _, err := s.withDefaults()
	if err != nil || s.Encryption != ImplicitTLS {
		return wire, err
	}
	encrypted := tls.Client(wire, s.TLS)
	return encrypted, encrypted.HandshakeContext(ctx)
}

// send sends a mail. go-mail takes no context, so the connection is closed when ctx ends.
//
// The commands are given one by one rather than by go-mail's Send. After an error, Send gives further
// commands. One of them would complete a mail that was sent in part. Send also judges errors by the first
// letter of their text. And it returns an error for an accepted mail if the command after it fails.
func (c *connection) send(ctx context.Context, m message) (err error) {
	stop := context.AfterFunc(ctx, c.abort)
	defer func() { c.broken = c.broken || !stop() }()
	if able, _ := c.session.Extension("SMTPUTF8"); !m.ascii && !able {
		return errASCIIOnly
	}
	// A server may refuse to pass on a mail that is announced as one with other characters.
	c.session.SkipSMTPUTF8(m.ascii)
	if err := c.session.UpdateDeadline(sendLimit); err != nil {
		c.broken = true
		return stageError{StageMail, err}
	}
	if err := c.session.Mail(m.from); err != nil {
		return c.refused(StageMail, err)
	}
	if err := c.session.Rcpt(m.to); err != nil {
		return c.refused(StageRcpt, err)
	}
	body, err := c.session.Data()
	if err != nil {
		return c.refused(StageData, err)
	}
	if _, err := body.Write(m.text); err != nil {
		c.broken = true // closing body would complete the mail
		return stageError{StageData, err}
	}
	if err := body.Close(); err != nil {
		c.broken = true
		return stageError{StageData, err}
	}
	return nil
}

// refused returns an error before the text of a mail. If it is a reply, the connection can
// take another mail.
func (c *connection) refused(stage Stage, err error) error {
	code, _ := replyOf(err)
	c.broken = code == 0 || code == closing || c.session.Reset() != nil
	return stageError{stage, err}
}

// stageError is an error of a mail that was being sent.
type stageError struct {
	stage Stage
	err   error
}

func (e stageError) Error() string { return string(e.stage) + ": " + e.err.Error() }
func (e stageError) Unwrap() error { return e.err }

// closing is the reply code of a server that closes the connection.
const closing = 421

// stale reports whether an error shows that the server had closed the connection before, so
// that nothing was sent.
func stale(err error) bool {
	var failed stageError
	if !errors.As(err, &failed) || failed.stage != StageMail {
		return false
	}
	code, _ := replyOf(err)
	return code == 0 || code == closing
}

// abort closes the connection at once.
func (c *connection) abort() {
	if c.wire != nil {
		_ = c.wire.Close() // it may be closed already
	}
}

// quit says goodbye and closes the connection.
func (c *connection) quit() {
	_ = c.wire.SetDeadline(deadline(quitLimit))
	_ = c.client.CloseWithSMTPClient(c.session) // the server may have closed it
	c.abort()
}

// replyOf returns the reply code and the enhanced status code in an error; 0 and "" if the
// server did not reply, or gave none.
func replyOf(err error) (code int, enhanced string) {
	var reply *textproto.Error
	if !errors.As(err, &reply) {
		return 0, ""
	}
	status, _, _ := strings.Cut(reply.Msg, " ")
	if !enhancedForm.MatchString(status) || status[0] != strconv.Itoa(reply.Code)[0] {
		status = ""
	}
	return reply.Code, status
}

// enhancedForm is the form of enhanced status codes (RFC 3463).
var enhancedForm = regexp.MustCompile(`^[45]\.\d{1,3}\.\d{1,3}$`)
