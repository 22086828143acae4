package almanacmail

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

// Verdict names what came of an attempt. Its text is suitable as the label of a metric.
type Verdict string

// The verdicts. Those of the sender's side postpone the event and count no attempt. Those of
// the recipient's side are final. After the others the event is tried again by its retry
// policy, a minute later at the earliest.
const (
	Accepted Verdict = "accepted" // the server has taken the mail

	Unavailable   Verdict = "unavailable"    // sender's side: no connection, no TLS, or the login is refused
	SenderRefused Verdict = "sender_refused" // sender's side: the server refuses the From address
	NotComposed   Verdict = "not_composed"   // sender's side: the templates fail on this event
	Busy          Verdict = "busy"           // sender's side: all connections were in use for too long

	Deferred    Verdict = "deferred"    // a reply of 4yz, such as greylisting
	Unconfirmed Verdict = "unconfirmed" // the connection was lost, or the time was up: the server may have the mail

	AddressRefused Verdict = "address_refused" // recipient's side: the address does not exist, or is none
	PolicyRefused  Verdict = "policy_refused"  // recipient's side: a policy of the server, which probably concerns every mail
	TooLarge       Verdict = "too_large"       // recipient's side: the mail is too large
	Refused        Verdict = "refused"         // recipient's side: any other reply of 5yz

	NoAddress Verdict = "no_address" // the user has no address: the event is CANCELLED
)

// Stage is the part of an SMTP session in which an attempt ended.
type Stage string

// The stages, in their order.
const (
	StageSession Stage = "session"   // connecting, TLS, EHLO and AUTH
	StageMail    Stage = "MAIL FROM" // naming the sender
	StageRcpt    Stage = "RCPT TO"   // naming the recipient
	StageData    Stage = "DATA"      // the mail, up to the reply after its last byte
)

// DeliveryError says why a mail was not accepted. Its text contains neither the recipient's address
// nor the text of a reply that concerns the recipient, because the error is stored with the event.
type DeliveryError struct {
	Verdict  Verdict
	Stage    Stage  // "" if nothing was sent
	Code     int    // the reply code, such as 550; 0 if there was no reply
	Enhanced string // the enhanced status code (RFC 3463), such as "5.1.1"; "" if the server gave none
	reason   string
	cause    error
}

func (e *DeliveryError) Error() string {
	parts := []string{"mail"}
	if e.Stage != "" {
		parts = append(parts, string(e.Stage))
	}
	return strings.Join(append(parts, e.reason), ": ")
}

// Unwrap returns the cause, whose text may contain the recipient's address and the server's
// reply. It is nil if there is none.
func (e *DeliveryError) Unwrap() error { return e.cause }

// sessionError is the error of a session that could not be opened.
type sessionError struct{ error }

func (e sessionError) Unwrap() error { return e.error }

// examine returns what an error of sending means. It returns nil if err is nil.
func examine(err error) *DeliveryError {
	var (
		session sessionError
		failed  stageError
	)
	code, enhanced := replyOf(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBusy):
		return &DeliveryError{Verdict: Busy, reason: err.Error()}
	case errors.Is(err, errASCIIOnly):
		return &DeliveryError{Verdict: Refused, reason: err.Error()}
	case errors.As(err, &session): // whose text concerns the sender only
		return &DeliveryError{Verdict: Unavailable, Stage: StageSession, Code: code, Enhanced: enhanced, reason: err.Error(), cause: err}
	}
	errors.As(err, &failed) // every other error is one
	e := &DeliveryError{Verdict: judge(failed.stage, code, enhanced), Stage: failed.stage, Code: code, Enhanced: enhanced, cause: err}
	e.reason = strings.TrimSpace(fmt.Sprintf("%d %s", code, enhanced))
	if code == 0 {
		e.reason = "no reply: the connection was lost, or the time was up"
	}
	return e
}

// judge returns the verdict of a reply, or of no reply if code is zero.
func judge(stage Stage, code int, enhanced string) Verdict {
	_, detail, _ := strings.Cut(enhanced, ".") // without the class
	subject, _, _ := strings.Cut(detail, ".")
	switch {
	case concernsLogin(code):
		return Unavailable
	case code/100 == 4:
		return Deferred
	case code/100 != 5:
		return Unconfirmed
	case detail == "3.4" || code == 552 && subject != "2" && stage != StageRcpt: // there, 552 is a full mailbox
		return TooLarge
	case stage == StageMail || detail == "1.7" || detail == "1.8": // RFC 3463: the sender's address
		return SenderRefused
	case subject == "1":
		return AddressRefused
	case subject == "7":
		return PolicyRefused
	}
	return Refused
}

// concernsLogin reports whether a reply is about the sender's login (RFC 4954). Many servers
// give it only when a recipient is named.
func concernsLogin(code int) bool {
	return code == 530 || code == 534 || code == 535 || code == 538
}

// soonest is the shortest wait after a reply of 4yz, and after a failure of the sender's
// side. latest is the longest wait after the latter: RFC 5321, section 4.5.4.1, asks for 30
// minutes or more between attempts.
const (
	soonest = time.Minute
	latest  = 30 * time.Minute
)

// deliverError returns what Deliver returns for an error.
func deliverError(err *DeliveryError, d almanac.Delivery) error {
	switch err.Verdict {
	case Unavailable, SenderRefused, NotComposed, Busy:
		return verdictError{almanac.Snooze(postponement(d), err.Error()), err}
	case Deferred, Unconfirmed:
		return almanac.RetryAfter(soonest, err)
	case NoAddress:
		return verdictError{almanac.NotOwed(err.reason), err}
	default:
		return almanac.Permanent(err)
	}
}

// postponement returns how long to wait after a failure of the sender's side: half of the
// time since the event was ready, within bounds, and up to a fifth more. So the events of an
// outage are not tried again all at once.
func postponement(d almanac.Delivery) time.Duration {
	wait := min(max(d.At.Sub(d.Event.FirstAvailable())/2, soonest), latest)
	return wait + rand.N(wait/5)
}

// verdictError is an error for the scheduler, with the error that led to it.
type verdictError struct{ scheduler, cause error }

func (e verdictError) Error() string   { return e.scheduler.Error() }
func (e verdictError) Unwrap() []error { return []error{e.scheduler, e.cause} }
