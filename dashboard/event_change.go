package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// operationKind is what can be done to events.
type operationKind struct {
	Name  ops.Operation
	may   Action
	of    almanac.Status // of the events that it applies to
	Verb  string
	Past  string // as in "12 events are cancelled"
	Means string
	done  string // what the address of the event's page says after it
}

// question is the title of the page that asks for a confirmation.
func (k operationKind) question() string {
	if k.Name == ops.RunNow {
		return "Run this event now?"
	}
	return k.Verb + " this event?"
}

var operationKinds = []operationKind{
	{ops.Cancel, Cancel, almanac.Pending, "Cancel", "cancelled",
		"A cancelled event is not delivered. Only a requeue, of one event at a time, delivers it after all. Its series continues with the next occurrence.", "cancelled"},
	{ops.RunNow, RunNow, almanac.Pending, "Run now", "due now",
		"The event becomes due at once, or at the end of its user's quiet hours. Its series continues from the next occurrence.", "run-now"},
	{ops.Requeue, Requeue, almanac.Failed, "Requeue", "requeued",
		"A new event repeats this one, with the same idempotency key. A receiver that accepted it after all recognizes the repeat.", "requeued"},
}

// kindOf returns the kind of a name, or nil.
func kindOf(name string) *operationKind {
	for i := range operationKinds {
		if string(operationKinds[i].Name) == name {
			return &operationKinds[i]
		}
	}
	return nil
}

// eventChange is what a viewer wants to do to one event.
type eventChange struct {
	Reason    string
	Force     bool
	EndSeries bool
	Version   int      // zero means any
	bad       []string // sentences about the fields of the form
}

// eventChangeOf reads a form.
func eventChangeOf(form url.Values) (c eventChange) {
	c.Reason = strings.TrimSpace(form.Get("reason"))
	if problem := reasonProblem(c.Reason); problem != "" {
		c.bad = append(c.bad, "The reason "+problem+".")
	}
	c.Force = ticked(form, "force", &c.bad)
	c.EndSeries = ticked(form, "endSeries", &c.bad)
	if text := form.Get("version"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n > math.MaxInt32 {
			c.bad = append(c.bad, "The version is not a whole number.")
		}
		c.Version = int(n)
	}
	return c
}

// maxReason is how many bytes of a reason are stored.
const maxReason = 1000

func reasonProblem(reason string) string {
	switch {
	case len(reason) > maxReason:
		return "is longer than 1,000 bytes"
	case !utf8.ValidString(reason) || strings.ContainsRune(reason, 0):
		return "is not text"
	}
	return ""
}

// ticked returns whether a box was ticked.
func ticked(form url.Values, name string, bad *[]string) bool {
	switch form.Get(name) {
	case "":
		return false
	case "true", "on", "1":
		return true
	}
	*bad = append(*bad, fmt.Sprintf("The box %s is neither ticked nor empty.", name))
	return false
}

// confirmData is a page on which a viewer confirms a change.
type confirmData struct {
	Errors []string
	Text   []string
	Action string // the address of the form
	Back   string
	Verb   string
	Danger bool
	Fields []field // hidden
	Event  *almanac.Event
	Name   string // of its user, if the viewer may see it
	Kind   *operationKind
	Change eventChange
	asks
}

// asks says what a page asks for.
type asks struct {
	Pause  bool // a reason and an end of a pause
	Reason bool // a reason alone
}

// field is a hidden field of a form.
type field struct{ Name, Value string }

// target returns the event and the operation that the address of a request names, if the
// viewer may do it.
func (d *dashboard) target(r *request) (almanac.Event, *operationKind, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	kind := kindOf(r.PathValue("operation"))
	if err != nil || kind == nil {
		return almanac.Event{}, nil, notFound
	}
	e, err := d.reader.Event(r.Context(), id)
	if err != nil {
		return e, kind, err
	}
	if err := r.need(Look, e.UserID); err != nil {
		return e, kind, err
	}
	return e, kind, r.need(kind.may, e.UserID)
}

// confirmEventPage shows what is about to happen to an event.
func (d *dashboard) confirmEventPage(r *request) (answer, error) {
	e, kind, err := d.target(r)
	if err != nil {
		return answer{}, err
	}
	return d.confirmEvent(r, e, kind, eventChange{Version: e.Version})
}

func (d *dashboard) confirmEvent(r *request, e almanac.Event, kind *operationKind, c eventChange) (answer, error) {
	u, err := d.reader.User(r.Context(), e.UserID)
	if err != nil && !errors.Is(err, almanac.ErrNotFound) {
		return answer{}, err
	}
	name, err := r.nameOf(u) // a deleted user has no name
	if err != nil {
		return answer{}, err
	}
	return answer{title: kind.question(), template: "confirm", data: confirmData{
		Errors: c.bad, Text: []string{kind.Means}, Verb: strings.TrimSuffix(kind.question(), "?"), Danger: kind.Name == ops.Cancel, Name: name,
		Action: r.root + "events/" + e.ID.String() + "/" + string(kind.Name), Back: r.root + "events/" + e.ID.String(),
		Fields: []field{{"version", strconv.Itoa(c.Version)}}, Event: &e, Kind: kind, Change: c,
	}}, nil
}

// changeEventPage changes an event.
func (d *dashboard) changeEventPage(r *request) (answer, error) {
	e, kind, err := d.target(r)
	if err != nil {
		return answer{}, err
	}
	c := eventChangeOf(r.PostForm)
	if len(c.bad) > 0 {
		a, err := d.confirmEvent(r, e, kind, c)
		a.status = http.StatusBadRequest
		return a, err
	}
	id, err := d.changeEvent(r.Context(), kind, e, c)
	if why := refusalOf(kind, err); why != "" {
		d.logUnplanned(r, err)
		return answer{title: "Nothing was changed", template: "result", status: http.StatusConflict, data: resultData{
			Stopped: why, Back: r.root + "events/" + e.ID.String(), BackText: "Back to the event",
		}}, nil
	}
	if err != nil {
		return answer{}, err
	}
	r.logChange(kind.may, slog.String("event", e.ID.String()), slog.String("user", e.UserID.String()))
	return answer{redirect: r.root + "events/" + id.String() + query("done", kind.done)}, nil
}

// changeEvent changes an event, and returns the id of the event that is there afterwards.
func (d *dashboard) changeEvent(ctx context.Context, kind *operationKind, e almanac.Event, c eventChange) (uuid.UUID, error) {
	if c.Version != 0 && c.Version != e.Version { // the scheduler compares it again, if it can
		return e.ID, &almanac.OptimisticLockError{EventID: e.ID, Expected: c.Version}
	}
	switch kind.Name {
	case ops.Cancel:
		_, err := d.scheduler.Cancel(ctx, e.ID, almanac.CancelOptions{Reason: c.Reason, Version: c.Version, EndSeries: c.EndSeries})
		return e.ID, err
	case ops.RunNow:
		_, err := d.scheduler.RunNow(ctx, e.ID, almanac.ForceOptions{Force: c.Force})
		return e.ID, err
	}
	again, err := d.scheduler.Requeue(ctx, e.ID, almanac.ForceOptions{Force: c.Force})
	return again.ID, err
}

// logUnplanned logs why a successor could not be planned. The viewer does not see the reason, which a handler gives.
func (d *dashboard) logUnplanned(r *request, err error) bool {
	is := errors.As(err, new(*almanac.SuccessorError))
	if is {
		d.log.ErrorContext(r.Context(), "Dashboard request failed", slog.String("route", r.Pattern), slog.Any("error", err))
	}
	return is
}

// refusalOf says why an event was not changed, if it was refused, and otherwise "".
func refusalOf(kind *operationKind, err error) string {
	var state *almanac.InvalidStateTransitionError
	switch {
	case errors.Is(err, calendar.ErrRejectedWallTime):
		return "The policy reject refuses the next occurrence of the series. End the series to cancel this event alone."
	case errors.As(err, new(*almanac.SuccessorError)): // before the others: the error of a handler may wrap any of them
		return "The next event of the series cannot be planned. End the series to cancel this event alone."
	case errors.As(err, &state):
		return stateRefused(kind, state.From)
	case errors.Is(err, almanac.ErrOptimisticLock):
		return "The event has changed since the page was loaded. Look at it again."
	case errors.Is(err, almanac.ErrExists):
		return "The event was requeued before. Requeue the event that repeats it."
	case errors.Is(err, almanac.ErrOptedOut):
		return "The user has opted out of events of this type. Force requeues the event nevertheless."
	case errors.Is(err, almanac.ErrLocked):
		return "Another transaction changes this user. Try again in a moment."
	case errors.Is(err, almanac.ErrUnsupportedEventType):
		return "This program has no handler for events of this type."
	case errors.Is(err, almanac.ErrNotFound):
		return "The event does not exist any more."
	}
	return ""
}

// stateRefused says why an operation is not for an event in a status.
func stateRefused(kind *operationKind, is almanac.Status) string {
	switch {
	case kind.Name == ops.Cancel:
		return fmt.Sprintf("The event is %s. Only PENDING events can be cancelled.", is)
	case kind.Name == ops.Requeue:
		return fmt.Sprintf("The event is %s. Only FAILED and CANCELLED events can be requeued.", is)
	case is == almanac.Pending:
		return "The event was claimed before it was due, so it keeps its instant."
	}
	return fmt.Sprintf("The event is %s. Only PENDING events can run now.", is)
}
