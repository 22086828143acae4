package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

// StatusError says that the receiver answered, and not with 2xx.
type StatusError struct{ Code int }

func (e *StatusError) Error() string {
	return strings.TrimRight(fmt.Sprintf("webhook: receiver answered %d %s", e.Code, http.StatusText(e.Code)), " ")
}

// longestWait is the longest that a receiver may ask for.
const longestWait = 24 * time.Hour

// judge turns an answer into the result of an attempt that began at the given
// time by the database's clock.
func judge(r *http.Response, at time.Time) error {
	if r.StatusCode >= 200 && r.StatusCode <= 299 {
		return nil
	}
	err := &StatusError{r.StatusCode}
	if !transient(r.StatusCode) {
		return almanac.Permanent(err)
	}
	if wait := retryAfter(r.Header.Get("Retry-After"), at); wait > 0 {
		return almanac.RetryAfter(wait, err)
	}
	return err
}

// transient reports whether a status is worth another attempt. A redirect is: the
// receiver moved, and somebody will notice and change the URL.
func transient(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return code < 400 || code >= 500
}

// retryAfter reads how long a receiver asks to be left alone: seconds or a date
// (RFC 9110, section 10.2.3). More seconds than a number holds are seconds still;
// what is neither asks for nothing.
func retryAfter(value string, at time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(longestWait/time.Second))) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(at), 0), longestWait)
}

// unanswered turns the want of an answer into the result of an attempt. A refusal
// to dial is final: it tells of a wrong setting, and asking again changes none.
func unanswered(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrBusy):
		return err
	case errors.Is(err, ErrProhibitedAddress), errors.Is(err, ErrProhibitedPort):
		return almanac.Permanent(&silence{err, err.Error()})
	case ctx.Err() != nil:
		err = context.Cause(ctx)
		return &silence{err, err.Error()}
	case isOurs(err):
		return &silence{err, err.Error()}
	}
	return &silence{err, "the connection was lost, or what came is not HTTP"}
}

// silence is an attempt that no answer came to.
type silence struct {
	err    error
	reason string
}

func (e *silence) Error() string { return "webhook: no answer: " + e.reason }
func (e *silence) Unwrap() error { return e.err }

// isOurs reports whether the words of an error come from this side. The others are
// the HTTP parser's, and quote what it stumbled over: what an internal service that
// is no web server says must not be read in an event's last error.
func isOurs(err error) bool {
	var (
		network     *net.OpError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		timeout     net.Error
	)
	return errors.As(err, &network) || errors.As(err, &certificate) || errors.As(err, &record) ||
		errors.As(err, &timeout) && timeout.Timeout() ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
