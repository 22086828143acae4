package webhook

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/almanac-go/almanac"
)

// StatusError says that the receiver answered, and not with 2xx.
type StatusError struct{ Code int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("webhook: receiver answered %d %s", e.Code, http.StatusText(e.Code))
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
// (RFC 9110, section 10.2.3). What is no such thing asks for nothing.
func retryAfter(value string, at time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(longestWait/time.Second))) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(at), 0), longestWait)
}
