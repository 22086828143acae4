package almanacmail

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/mail"
	"strings"
	"time"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/almanac-go/almanac"
)

// Channel is the channel of e-mail. Handlers that are delivered by mail name it.
const Channel almanac.Channel = "mail"

// Settings are the settings of a [Deliverer]. The zero value of a field is its default.
type Settings struct {
	Server    Server
	From      mail.Address // the sender that recipients see; required
	ReplyTo   mail.Address // the address for replies; none by default
	Templates *Templates   // required
	// ReturnPath is the address to which servers send bounces. The default is the address of From.
	ReturnPath string
	// Domain is the part of Message-IDs after the @. The default is the domain of From.
	Domain string
	// DKIM signs the mails. The default is nil, no signature: many submission servers sign.
	DKIM *DKIM
	// Unsubscribe makes the links by which users unsubscribe. The default is nil, no links.
	Unsubscribe *Links
	// Address returns the address of a delivery, for example after a look at a list of addresses
	// that bounced. "" means that the user has none. An error is returned by Deliver as it is:
	// [almanac.NotOwed] ends the event without a failure, [almanac.Permanent] with one. Address
	// must be safe for concurrent use. The default is the user's Email.
	Address func(ctx context.Context, d almanac.Delivery) (string, error)
	// Observe is called at the end of each attempt, in the goroutine of the attempt, for metrics
	// and for lists of bad addresses. It must be safe for concurrent use. The default is nil.
	Observe func(ctx context.Context, r Report)
	// Log is the logger. The default is [slog.Default], taken when New is called.
	Log *slog.Logger
}

// DKIM describes how mails are signed (RFC 6376). The signature covers From, Reply-To, To,
// Subject, Date, Message-ID, the headers of MIME, and those of unsubscribing.
type DKIM struct {
	Domain   string        // the domain that signs; usually that of From
	Selector string        // the public key is in the TXT record <Selector>._domainkey.<Domain>
	Key      crypto.Signer // of RSA, or of Ed25519, which few receivers verify
}

// Report describes an attempt.
type Report struct {
	Delivery almanac.Delivery
	Verdict  Verdict
	// Err is nil if the mail was accepted. Otherwise it is usually a [*DeliveryError]. An
	// error of [Settings].Address has the verdict NoAddress.
	Err  error
	Took time.Duration // of the whole attempt, waiting for a connection included
}

// Execution returns the settings that suit mail, for the handlers that are delivered by it:
// many attempts over three to four days, and eleven minutes for an attempt, because a server
// may take ten to accept a mail after its last byte (RFC 5321, section 4.5.3.2.6). To give up
// a greeting that is days late, also set CatchUpPolicy.SkipOlder.
func Execution() almanac.Execution {
	return almanac.Execution{AttemptTimeout: 11 * time.Minute, RetryPolicy: almanac.PatientRetry()}
}

// checked returns s with its defaults, and every complaint about it.
func (s Settings) checked() (Settings, error) {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("almanacmail: "+format, args...))
		}
	}
	server, err := s.Server.checked()
	errs = append(errs, err)
	refuse(s.From == mail.Address{}, "From is required")
	refuse(s.From != mail.Address{} && !bare(s.From.Address), "From %q is not an e-mail address", s.From.Address)
	refuse(s.ReplyTo != mail.Address{} && !bare(s.ReplyTo.Address), "ReplyTo %q is not an e-mail address", s.ReplyTo.Address)
	refuse(s.ReturnPath != "" && !bare(s.ReturnPath), "ReturnPath %q is not an e-mail address", s.ReturnPath)
	refuse(s.Domain != "" && !bare("x@"+s.Domain), "%q is not a domain", s.Domain)
	refuse(s.Templates == nil, "Templates is required")
	if s.DKIM != nil {
		errs = append(errs, s.DKIM.check())
	}
	s.Server = server
	return s.withDefaults(), errors.Join(errs...)
}

// withDefaults returns s with its defaults, except those of Server.
func (s Settings) withDefaults() Settings {
	s.ReturnPath = cmp.Or(s.ReturnPath, s.From.Address)
	s.Domain = cmp.Or(s.Domain, s.From.Address[strings.LastIndex(s.From.Address, "@")+1:])
	if s.Address == nil {
		s.Address = func(_ context.Context, d almanac.Delivery) (string, error) { return d.User.Email, nil }
	}
	if s.Observe == nil {
		s.Observe = func(context.Context, Report) {}
	}
	s.Log = cmp.Or(s.Log, slog.Default())
	return s
}

// bare reports whether text is an e-mail address and nothing else.
func bare(text string) bool {
	_, ok := parseBare(text)
	return ok
}

// parseBare parses an e-mail address without a name, a comment or angle brackets.
func parseBare(text string) (*mail.Address, bool) {
	a, err := mail.ParseAddress(text)
	if err != nil || a.Name != "" || a.String() != "<"+text+">" {
		return nil, false
	}
	return a, true
}

// options returns the options of signing.
func (k DKIM) options() *dkim.SignOptions {
	return &dkim.SignOptions{
		Domain: k.Domain, Selector: k.Selector, Signer: k.Key,
		HeaderCanonicalization: dkim.CanonicalizationRelaxed, BodyCanonicalization: dkim.CanonicalizationRelaxed,
		HeaderKeys: []string{"From", "Reply-To", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type",
			"Content-Language", "Auto-Submitted", "List-Unsubscribe", "List-Unsubscribe-Post"},
	}
}

// check returns what is wrong with k.
func (k DKIM) check() error {
	if k.Key == nil {
		return errors.New("almanacmail: DKIM: there is no key")
	}
	if err := dkim.Sign(io.Discard, strings.NewReader("From: <a@example.com>\r\n\r\n"), k.options()); err != nil {
		return fmt.Errorf("almanacmail: DKIM: %w", err)
	}
	return nil
}
