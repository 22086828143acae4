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

// StatusError reports that the receiver's response status was not 2xx.
type StatusError struct{ Code int }

func (e *StatusError) Error() string {
	return strings.TrimRight(fmt.Sprintf("webhook: receiver answered %d %s", e.Code, http.StatusText(e.Code)), " ")
}

// longestWait is the longest wait that a receiver may ask for.
const longestWait = 24 * time.Hour

// judge returns the result of an attempt from its response. The attempt began at the given database time.
func judge(r *http.Response, at time.Time) error {
	if r.StatusCode >= 200 && r.StatusCode <= 299 {
		return nil
	}
	err := &StatusError{r.StatusCode}
	if !transient(r.StatusCode) {
		return almanac.Permanent(err)
	}
	wait := retryAfter(r.Header.Get("Retry-After"), at)
	switch {
	case wait > 0 && (r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusServiceUnavailable):
		return almanac.Busy(wait, err)
	case wait > 0:
		return almanac.RetryAfter(wait, err)
	}
	return err
}

// transient reports whether another attempt may succeed after a status. Redirects count:
// the receiver has moved, and an operator can correct the URL before the next attempt.
func transient(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return code < 400 || code >= 500
}

// retryAfter returns the wait that a Retry-After header asks for, in seconds or as a date
// (RFC 9110, section 10.2.3). A number of seconds that overflows counts as longestWait. Any
// other value counts as zero.
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

// unanswered returns the result of an attempt without a response. A refusal to dial is
// final: it shows a wrong setting, which a retry does not change.
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

// silence is the error of an attempt without a response.
type silence struct {
	err    error
	reason string
}

func (e *silence) Error() string { return "webhook: no answer: " + e.reason }
func (e *silence) Unwrap() error { return e.err }

// isOurs reports whether the text of an error was written on this side. Other errors come
// from the HTTP parser and quote what it read. An internal service that is not a web server
// could otherwise leak data into an event's last error.
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
