package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// problem is an answer according to RFC 9457. It is also an error, so that endpoints return
// it like any other.
type problem struct {
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail,omitempty"`
	Errors    []fieldProblem `json:"errors,omitempty"`
	RequestID string         `json:"requestId,omitempty"`

	header http.Header // further headers of the answer
}

// fieldProblem is what is wrong with one field, as a clause: "is in the future".
type fieldProblem struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func (p *problem) Error() string { return fmt.Sprintf("httpapi: %d: %s", p.Status, p.Detail) }

func newProblem(status int, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// The types of problems are URLs of sections in the package documentation.
const (
	invalidInput = "https://pkg.go.dev/github.com/almanac-go/almanac/httpapi#hdr-Invalid_input"
	createdOnce  = "https://pkg.go.dev/github.com/almanac-go/almanac/httpapi#hdr-Created_once"
	lockedUser   = "https://pkg.go.dev/github.com/almanac-go/almanac/httpapi#hdr-Locked"
	maxErrors    = 100 // how many fields a problem lists at most
)

// complaints collects what is wrong with a request, at most one entry for each field. The
// zero complaints is empty.
type complaints struct {
	list []fieldProblem
	of   map[string]bool
}

func (c *complaints) add(field, format string, args ...any) {
	if c.of[field] {
		return
	}
	if c.of == nil {
		c.of = make(map[string]bool)
	}
	c.of[field] = true
	c.list = append(c.list, fieldProblem{field, fmt.Sprintf(format, args...)})
}

// addAll adds the complaints of err if it is a validation error.
func (c *complaints) addAll(err error) {
	var invalid *almanac.ValidationError
	if !errors.As(err, &invalid) {
		return
	}
	for _, f := range invalid.Fields {
		c.add(fieldOf(f), "%s", complaintOf(f))
	}
}

// fieldOf returns the name of a field in the API: a merge patch is "attributes", and
// the wall time of a single event is "at".
func fieldOf(f almanac.FieldError) string {
	switch f.Field {
	case "merge":
		return "attributes"
	case "wall time":
		return "at"
	}
	return f.Field
}

// complaintOf omits the reason for which a zone has no data, because it contains file names.
func complaintOf(f almanac.FieldError) string {
	if zone, ok := errors.AsType[*calendar.InvalidTimezoneError](f.Err); ok && zone.NoData {
		return "is a time zone for which there is no data here"
	}
	return f.Problem
}

func (c *complaints) any() bool { return len(c.list) > 0 }

func (c *complaints) problem() *problem {
	detail := "one field is not as it must be"
	if n := len(c.list); n > 1 {
		detail = fmt.Sprintf("%d fields are not as they must be", n)
	}
	return &problem{
		Type:   invalidInput,
		Title:  "Invalid input",
		Status: http.StatusBadRequest,
		Detail: detail,
		Errors: c.list[:min(len(c.list), maxErrors)],
	}
}

// problemOf returns the problem for an error. It contains everything that the client can
// correct, and nothing internal. It reports whether the problem contains everything about
// the error; otherwise the error must be logged.
func problemOf(r *http.Request, err error) (_ *problem, complete bool) {
	var p *problem
	var missing *almanac.NotFoundError
	var wall *calendar.WallTimeError
	var successor *almanac.SuccessorError
	var lock *almanac.OptimisticLockError
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &successor) && !errors.As(err, &wall): // what a handler says is not for clients
		return newProblem(http.StatusUnprocessableEntity, "the next event of the series cannot be planned; endSeries cancels this event alone"), false
	case errors.Is(err, calendar.ErrUnknownSystem) && !errors.Is(err, almanac.ErrInvalid): // the user's, not the request's
		return newProblem(http.StatusUnprocessableEntity, unknownCalendar), true
	case errors.Is(err, almanac.ErrInvalid):
		var bad complaints
		bad.addAll(err)
		return bad.problem(), true
	case errors.As(err, &missing):
		return newProblem(http.StatusNotFound, fmt.Sprintf("there is no %s %s", missing.Kind, missing.ID)), true
	case errors.Is(err, almanac.ErrExternalIDTaken):
		taken := newProblem(http.StatusConflict, "another user has this external id")
		taken.Errors = []fieldProblem{{"externalId", "belongs to another user"}}
		return taken, true
	case errors.Is(err, almanac.ErrUnsupportedEventType):
		return newProblem(http.StatusNotFound, "this program has no handler for events of this type"), true
	case errors.Is(err, almanac.ErrExists):
		return newProblem(http.StatusConflict, "it exists already"), true
	case errors.As(err, &lock) && lock.UserID != uuid.Nil: // changed after the precondition was checked
		return preconditionFailed(), true
	case errors.Is(err, almanac.ErrOptimisticLock):
		return newProblem(http.StatusConflict, "it was changed by another request at the same moment"), true
	case errors.As(err, &wall):
		return newProblem(http.StatusUnprocessableEntity, refusedReading(wall)), true
	case lockTimedOut(err) || errors.Is(err, almanac.ErrLocked):
		return locked(), true
	case unavailable(err) || r.Context().Err() != nil:
		p := newProblem(http.StatusServiceUnavailable, "the request cannot be served at the moment; try again")
		p.header = http.Header{"Retry-After": {"1"}}
		return p, false
	}
	return newProblem(http.StatusInternalServerError, "the request failed; its id leads to the reason in the log"), false
}

// unknownCalendar says why nothing is planned for a user.
const unknownCalendar = "this program does not know the calendar of the user's date of birth"

// refusedReading says which wall time a policy refuses.
func refusedReading(e *calendar.WallTimeError) string {
	return fmt.Sprintf("clocks in %s show %s %s, and that is refused", e.Zone, e.Wall, e.Reading)
}

// locked is the answer to a change of a user that another transaction has locked.
func locked() *problem {
	p := newProblem(http.StatusConflict, "the user is locked by another transaction at this moment; nothing was changed; try again")
	p.Type, p.Title, p.header = lockedUser, "Locked", http.Header{"Retry-After": {"1"}}
	return p
}

// lockTimedOut reports whether PostgreSQL stopped waiting for a lock.
func lockTimedOut(err error) bool {
	var sql interface{ SQLState() string }
	return errors.As(err, &sql) && sql.SQLState() == "55P03"
}

// unavailable reports whether an error is temporary: a deadline, the network, or an SQLSTATE class
// (PostgreSQL manual, appendix A) of connections, resources, shutdowns and conflicts between transactions.
func unavailable(err error) bool {
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) {
		return true
	}
	var sql interface{ SQLState() string }
	if !errors.As(err, &sql) || len(sql.SQLState()) != 5 {
		return false
	}
	switch sql.SQLState()[:2] {
	case "08", "40", "53", "57":
		return true
	}
	return false
}
