package chaos_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"

	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/signedlink"
)

// mailed is a deliverer to a Postfix, and what it comes to.
type mailed struct {
	*testing.T
	postfix  *chaos.Postfix
	settings almanacmail.Settings
}

// postfix starts a Postfix with further settings.
func postfix(t *testing.T, settings map[string]string) *mailed {
	t.Helper()
	t.Parallel()
	share(t)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	p, err := chaos.NewPostfix(ctx, settings)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Log())
		}
		require.NoError(t, p.Close())
	})
	templates, err := almanacmail.ParseTemplates(fstest.MapFS{
		"en/BIRTHDAY.txt":  {Data: []byte("Subject: Happy birthday, {{.User.FirstName}}!\n\n{{.Payload.message}}")},
		"en/BIRTHDAY.html": {Data: []byte("<p>{{.Payload.message}}</p>")},
	}, "en")
	require.NoError(t, err)
	return &mailed{t, p, almanacmail.Settings{
		Server:    almanacmail.Server{Address: p.Address, Encryption: almanacmail.Unencrypted},
		From:      mail.Address{Name: "Almanac", Address: "hello@example.com"},
		Templates: templates,
		Log:       slog.New(slog.NewTextHandler(io.Discard, nil)),
	}}
}

// greeting is a birthday of ada's.
func greeting(message string) almanac.Delivery {
	now := time.Now().UTC()
	ada := almanactest.User(almanactest.WithEmail("ada@example.org"))
	event := almanactest.Event(now, almanactest.For(ada))
	event.Payload = []byte(`{"message": "` + message + `"}`)
	return almanac.Delivery{Event: event, User: ada, Attempt: 1, At: now}
}

// deliver delivers once and returns the verdict.
func (m *mailed) deliver(d almanac.Delivery) (almanacmail.Verdict, error) {
	m.Helper()
	ctx, stop := context.WithTimeout(m.Context(), 20*time.Second)
	defer stop()
	return m.deliverWithin(ctx, d)
}

func (m *mailed) deliverWithin(ctx context.Context, d almanac.Delivery) (verdict almanacmail.Verdict, err error) {
	m.Helper()
	s := m.settings
	s.Observe = func(_ context.Context, r almanacmail.Report) { verdict = r.Verdict }
	deliverer, err := almanacmail.New(s)
	require.NoError(m, err)
	defer deliverer.CloseIdleConnections()
	err = deliverer.Deliver(ctx, d)
	return verdict, err
}

// arrived waits until ada has that many mails.
func (m *mailed) arrived(n int) []string {
	m.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		mails, err := m.postfix.Mails()
		require.NoError(m, err)
		if len(mails) >= n {
			require.Len(m, mails, n)
			return mails
		}
		require.Less(m, time.Since(began), 20*time.Second, "%d mails of %d", len(mails), n)
	}
}

func TestPostfixDeliversASignedMailOverTLS(t *testing.T) {
	certificate, trusted := certificateFor(t)
	m := postfix(t, map[string]string{"smtpd_tls_security_level": "encrypt", "smtpd_tls_chain_files": certificate})
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	links, err := almanacmail.NewLinks("https://example.com/unsubscribe", signedlink.Key{ID: "1", Secret: bytes.Repeat([]byte("k"), 32)})
	require.NoError(t, err)
	m.settings.Unsubscribe, m.settings.DKIM = links, &almanacmail.DKIM{Domain: "example.com", Selector: "a", Key: key}

	verdict, err := m.deliver(greeting("in plain text"))
	require.ErrorIs(t, err, almanac.ErrSnoozed)
	require.Equal(t, almanacmail.Unavailable, verdict, "530 5.7.0 Must issue a STARTTLS command first")

	m.settings.Server.Encryption = almanacmail.StartTLS
	verdict, err = m.deliver(greeting("to a stranger"))
	require.ErrorIs(t, err, almanac.ErrSnoozed)
	require.Equal(t, almanacmail.Unavailable, verdict)

	m.settings.Server.TLS = &tls.Config{RootCAs: trusted}
	d := greeting("Zoë, it's your birthday. Ada & co")
	_, err = m.deliver(d)
	require.NoError(t, err)
	text := m.arrived(1)[0]
	got, err := mail.ReadMessage(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, "<"+d.Event.IdempotencyKey.String()+"@example.com>", got.Header.Get("Message-Id"))
	require.Equal(t, d.Event.Due.Format(time.RFC1123Z), got.Header.Get("Date"))
	page := httptest.NewRecorder()
	links.Handler(nil, nil).ServeHTTP(page, httptest.NewRequest(http.MethodGet, strings.Trim(got.Header.Get("List-Unsubscribe"), "<>"), nil))
	require.Equal(t, http.StatusOK, page.Code, "the link in the mail is signed")
	require.Contains(t, got.Header["Received"][0], "ESMTPS")
	found, err := dkim.VerifyWithOptions(strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n")), &dkim.VerifyOptions{
		LookupTXT: func(string) ([]string, error) {
			return []string{"v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(public)}, nil
		},
	})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, found[0].Err, "the signature survives a mail server")
	require.Subset(t, found[0].HeaderKeys, []string{"List-Unsubscribe", "List-Unsubscribe-Post"})
}

// certificateFor returns a file with a key and a certificate for 127.0.0.1, and the pool
// that trusts it.
func certificateFor(t *testing.T) (file string, trusted *x509.CertPool) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "chain.pem")
	chain := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	require.NoError(t, os.WriteFile(file, chain, 0o600))
	own, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	trusted = x509.NewCertPool()
	trusted.AddCert(own)
	return file, trusted
}

func TestPostfixRepliesAreUnderstood(t *testing.T) {
	m := postfix(t, map[string]string{
		"message_size_limit": "20000", "smtpd_delay_reject": "no",
		"smtpd_sender_restrictions": "check_sender_access inline:{{refused@example.com=550 5.7.1 not you}}",
	})
	tests := map[string]struct {
		change  func(*almanac.Delivery)
		from    string
		verdict almanacmail.Verdict
		outcome error
	}{
		"a mail that is too large":      {func(d *almanac.Delivery) { d.Event.Payload = greeting(strings.Repeat("x", 30000)).Event.Payload }, "", almanacmail.TooLarge, almanac.ErrPermanent},
		"a user who does not exist":     {func(d *almanac.Delivery) { d.User.Email = "ben@example.org" }, "", almanacmail.AddressRefused, almanac.ErrPermanent},
		"a domain that is not relayed":  {func(d *almanac.Delivery) { d.User.Email = "ada@example.net" }, "", almanacmail.PolicyRefused, almanac.ErrPermanent},
		"a sender who is refused":       {func(*almanac.Delivery) {}, "refused@example.com", almanacmail.SenderRefused, almanac.ErrSnoozed},
		"nothing wrong, on the way out": {func(*almanac.Delivery) {}, "", almanacmail.Accepted, nil},
	}
	for name, tt := range tests {
		d := greeting("hey")
		tt.change(&d)
		m.settings.ReturnPath = tt.from
		verdict, err := m.deliver(d)
		require.Equal(t, tt.verdict, verdict, name)
		require.ErrorIs(t, err, tt.outcome, name)
	}
	m.arrived(1)
}

// By default Postfix refuses the sender at the command that names the recipient.
func TestPostfixRefusesTheSenderLate(t *testing.T) {
	m := postfix(t, map[string]string{"smtpd_sender_restrictions": "check_sender_access inline:{{hello@example.com=550 5.1.8 no such domain}}"})
	verdict, err := m.deliver(greeting("hey"))
	require.Equal(t, almanacmail.SenderRefused, verdict)
	require.ErrorIs(t, err, almanac.ErrSnoozed)
	var failure *almanacmail.DeliveryError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, almanacmail.StageRcpt, failure.Stage)
}

func TestPostfixGreylists(t *testing.T) {
	var asked atomic.Int64
	policy, err := chaos.PolicyService(func(map[string]string) string {
		if asked.Add(1) == 1 {
			return "DEFER_IF_PERMIT greylisted"
		}
		return "DUNNO"
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = policy.Close() })
	m := postfix(t, map[string]string{"smtpd_recipient_restrictions": "check_policy_service inet:" + policy.Addr().String()})
	d := greeting("hey")
	verdict, err := m.deliver(d)
	require.Equal(t, almanacmail.Deferred, verdict)
	require.Error(t, err)
	for _, other := range []error{almanac.ErrPermanent, almanac.ErrSnoozed, almanac.ErrNotOwed} {
		require.NotErrorIs(t, err, other)
	}
	verdict, err = m.deliver(d)
	require.NoError(t, err)
	require.Equal(t, almanacmail.Accepted, verdict)
	m.arrived(1)
}

// A server that is slow to accept a mail has it, whether the client waits or not.
func TestPostfixAcceptsSlowly(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	policy, err := chaos.PolicyService(func(map[string]string) string { // when the server has the whole mail
		stop()
		time.Sleep(2 * time.Second)
		return "DUNNO"
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = policy.Close() })
	m := postfix(t, map[string]string{"smtpd_end_of_data_restrictions": "check_policy_service inet:" + policy.Addr().String()})
	d := greeting("hey")
	verdict, err := m.deliverWithin(ctx, d)
	require.Equal(t, almanacmail.Unconfirmed, verdict)
	require.NotErrorIs(t, err, almanac.ErrPermanent)

	verdict, err = m.deliver(d) // with patience
	require.NoError(t, err)
	require.Equal(t, almanacmail.Accepted, verdict)
	for _, text := range m.arrived(2) {
		got, err := mail.ReadMessage(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, "<"+d.Event.IdempotencyKey.String()+"@example.com>", got.Header.Get("Message-Id"), "the same mail twice")
	}
}

func TestPostfixRefusesAWrongPassword(t *testing.T) {
	logins, err := chaos.LoginService("almanac", "right")
	require.NoError(t, err)
	t.Cleanup(func() { _ = logins.Close() })
	certificate, trusted := certificateFor(t)
	m := postfix(t, map[string]string{
		"smtpd_tls_security_level": "may", "smtpd_tls_auth_only": "yes", "smtpd_tls_chain_files": certificate,
		"smtpd_sasl_auth_enable": "yes", "smtpd_sasl_type": "dovecot", "smtpd_sasl_path": "inet:" + logins.Addr().String(),
		"smtpd_relay_restrictions": "permit_sasl_authenticated, reject",
	})
	m.settings.Server.Encryption, m.settings.Server.TLS = almanacmail.StartTLS, &tls.Config{RootCAs: trusted}
	m.settings.Server.Username, m.settings.Server.Password = "almanac", "wrong"
	verdict, err := m.deliver(greeting("hey"))
	require.Equal(t, almanacmail.Unavailable, verdict)
	require.ErrorIs(t, err, almanac.ErrSnoozed)
	var failure *almanacmail.DeliveryError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, 535, failure.Code)

	m.settings.Server.Password = "right"
	verdict, err = m.deliver(greeting("hey"))
	require.NoError(t, err)
	require.Equal(t, almanacmail.Accepted, verdict)
	m.arrived(1)
}

// Postfix closes a connection that is idle for longer than smtpd_timeout.
func TestPostfixClosesAnIdleConnection(t *testing.T) {
	m := postfix(t, map[string]string{"smtpd_timeout": "1s"})
	deliverer, err := almanacmail.New(m.settings)
	require.NoError(t, err)
	defer deliverer.CloseIdleConnections()
	require.NoError(t, deliverer.Deliver(t.Context(), greeting("one")))
	for began := time.Now(); !strings.Contains(m.postfix.Log(), "timeout after"); time.Sleep(20 * time.Millisecond) {
		require.Less(t, time.Since(began), 20*time.Second)
	}
	require.NoError(t, deliverer.Deliver(t.Context(), greeting("two")), "without an attempt that fails")
	m.arrived(2)
}
