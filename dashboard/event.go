package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// eventData is what the page of an event shows.
type eventData struct {
	Event    almanac.Event // without what the viewer may not see
	Name     string        // of the user, if the viewer may see it
	Deleted  bool          // the user is deleted, or about to be
	Timeline []eventMoment
	Why      eventInstant
	Words    eventWords
	Lease    *ops.Lease // that holds the event, if the numbers have it
	Wait     *laneWait  // if the event waits for a lane
	Around   eventSeries
	Looked   string // which calendars decided on the day
	Forms    []eventForm
	Trail    auditTrail
}

// HasSource reports whether the event follows or repeats another one.
func (d eventData) HasSource() bool { return d.Event.Origin.From != uuid.Nil }

// HasLease reports whether a claim holds or ended the event.
func (d eventData) HasLease() bool { return d.Event.LeaseToken != uuid.Nil }

// eventMoment is a row of the timeline.
type eventMoment struct {
	At   time.Time
	Text string
}

// eventWords are texts that may hold words about users.
type eventWords struct {
	Shown     bool // whether the viewer may see them
	Payload   string
	Cut       bool   // the payload is longer than what is shown
	LastError string // why the last attempt failed
	Reason    string // why the event failed or was cancelled; also set for reasons of operators
	Hidden    bool   // there is a reason, which the viewer may not see
}

// eventForm is an operation that the status of the event allows, and the page that asks for it.
type eventForm struct {
	Path, Label, Text string
}

func (d *dashboard) eventPage(r *request) (answer, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return answer{}, notFound
	}
	e, err := d.reader.Event(r.Context(), id)
	if err != nil {
		return answer{}, err
	}
	if err := r.need(Look, e.UserID); err != nil {
		return answer{}, err
	}
	data := eventData{Event: e, Timeline: timelineOf(e), Why: explain(e), Looked: consultedText(e.Consulted)}
	u, err := d.reader.User(r.Context(), e.UserID)
	if data.Deleted = errors.Is(err, almanac.ErrNotFound); err != nil && !data.Deleted {
		return answer{}, err
	}
	if data.Name, err = r.nameOf(u); err != nil { // a deleted user has no name
		return answer{}, err
	}
	if data.Words, err = r.words(e); err != nil {
		return answer{}, err
	}
	data.Event.Payload, data.Event.LastError, data.Event.FailureReason = nil, "", ""
	if data.Around, err = d.around(r, e, data.Deleted, data.Words.Shown); err != nil {
		return answer{}, err
	}
	data.Why.explainMove(data.Around.This)
	if data.Around.This == nil && data.Words.Shown {
		data.Why.Move = storedReason(e)
	}
	now, err := r.clock()
	if err != nil {
		return answer{}, err
	}
	if data.Forms, err = formsFor(r, e, now); err != nil {
		return answer{}, err
	}
	data.Lease, data.Wait = d.leaseOf(r, e), d.waitOf(r, e)
	data.Trail = d.trailOf(r, id, data.Words.Shown)
	return answer{title: e.Type + " " + short(e.ID), template: "event", data: data, notice: noticeOf(r.URL.Query().Get("done"), e, now)}, nil
}

// noticeOf says what was just done to an event, if the event is as it then is. A link cannot
// claim anything else.
func noticeOf(done string, e almanac.Event, now time.Time) string {
	switch {
	case done == kindOf(string(ops.Cancel)).done && e.Status == almanac.Cancelled:
		return "This event is cancelled."
	case done == kindOf(string(ops.RunNow)).done && e.Status != almanac.Cancelled:
		return madeDue(e.AvailableAt.Sub(now))
	case done == kindOf(string(ops.Requeue)).done && e.Origin.Kind == almanac.OriginRequeued:
		return "This event repeats the one that was requeued."
	}
	return ""
}

// madeDue says what run now has done to an event that is available after a time: it was made
// due then, or at the end of the user's quiet hours.
func madeDue(after time.Duration) string {
	switch {
	case after < time.Minute:
		return "This event was made due now."
	case after < 24*time.Hour:
		return "This event was made due in " + duration(after.Truncate(time.Minute)) + ", at the end of the user's quiet hours."
	}
	return ""
}

// lateAfter says from when the lateness of an event counts.
func lateAfter(e almanac.Event) string {
	switch from := e.FirstAvailable(); {
	case from.Equal(e.Due):
		return " after it was due"
	case from.Equal(e.ReadyAt):
		return " after it was ready"
	default:
		return " after it was created"
	}
}

// timelineOf returns what the event says about itself, in order of time.
func timelineOf(e almanac.Event) []eventMoment {
	all := []eventMoment{{e.CreatedAt, "created"}, {e.Due, "due"}}
	if !e.ReadyAt.IsZero() {
		all = append(all, eventMoment{e.ReadyAt, "ready"})
	}
	switch e.Status {
	case almanac.Pending:
		if e.AvailableAt.After(e.FirstAvailable()) {
			all = append(all, eventMoment{e.AvailableAt, "available for the next attempt"})
		}
	case almanac.Processing:
		all = append(all, eventMoment{e.UpdatedAt, "claimed"})
	case almanac.Completed:
		text := "delivered, " + duration(e.Lateness()) + lateAfter(e)
		all = append(all, eventMoment{e.ExecutedAt, text})
	case almanac.Failed:
		all = append(all, eventMoment{e.UpdatedAt, "failed"})
	case almanac.Cancelled:
		all = append(all, eventMoment{e.UpdatedAt, "cancelled"})
	}
	slices.SortStableFunc(all, func(a, b eventMoment) int { return a.At.Compare(b.At) })
	return all
}

// words returns the texts of an event that the viewer may see.
func (r *request) words(e almanac.Event) (w eventWords, err error) {
	row, err := r.row(e)
	if err != nil {
		return w, err
	}
	w.Reason, w.Hidden = row.Reason, row.Hidden
	if w.Shown, err = r.mayDo(SeePayloads, e.UserID); !w.Shown || err != nil {
		return w, err
	}
	if w.LastError = e.LastError; e.Status == almanac.Pending {
		w.Reason = "" // which is that error
	}
	w.Payload, w.Cut = prettyJSON(e.Payload)
	return w, nil
}

// formsFor returns the operations that the status of an event and the permissions of the viewer allow.
func formsFor(r *request, e almanac.Event, now time.Time) ([]eventForm, error) {
	var wanted []Action
	switch e.Status {
	case almanac.Pending:
		wanted = append(wanted, Cancel)
		// An event that was ever claimed keeps an instant that is still to come.
		if e.AvailableAt.After(now) && (e.ClaimCount == 0 || !e.Due.After(now)) {
			wanted = append(wanted, RunNow)
		}
	case almanac.Failed, almanac.Cancelled:
		wanted = append(wanted, Requeue)
	}
	forms := map[Action]eventForm{
		Cancel:  {Path: "cancel", Label: "Cancel", Text: "Ends this event before it is delivered. Its series goes on with the next occurrence."},
		RunNow:  {Path: "run-now", Label: "Run now", Text: "Makes this event due at once, or at the end of the user's quiet hours."},
		Requeue: {Path: "requeue", Label: "Requeue", Text: "Stores a new event that delivers this one again."},
	}
	var allowed []eventForm
	for _, action := range wanted {
		may, err := r.mayDo(action, e.UserID)
		if err != nil {
			return nil, err
		}
		if may {
			allowed = append(allowed, forms[action])
		}
	}
	return allowed, nil
}

// leaseOf returns the lease that holds an event, if the numbers know it.
func (d *dashboard) leaseOf(r *request, e almanac.Event) *ops.Lease {
	if e.Status != almanac.Processing {
		return nil
	}
	s, _ := d.numbers.get(r.Context(), patience) // without numbers the page has only the token
	i := slices.IndexFunc(s.Leases, func(l ops.Lease) bool { return l.Token == e.LeaseToken })
	if i < 0 {
		return nil
	}
	return &s.Leases[i]
}

// auditTrail is what an audit trail says about an event or a user.
type auditTrail struct {
	On     bool // whether there is a trail
	Failed bool // it cannot be read
	Words  bool // whether the viewer may see details, which hold reasons
	Steps  []ops.AuditStep
	More   int // how many older steps are not shown
}

// stepsShown is how many steps of a trail a page shows.
const stepsShown = 100

// trailOf reads a trail. A page without its trail is better than no page.
func (d *dashboard) trailOf(r *request, id uuid.UUID, words bool) auditTrail {
	t := auditTrail{On: d.trail != nil, Words: words}
	if !t.On {
		return t
	}
	ctx, cancel := context.WithTimeout(r.Context(), readLimit)
	defer cancel()
	steps, err := d.trail(ctx, id)
	if t.Failed = err != nil; t.Failed {
		d.log.ErrorContext(r.Context(), "Dashboard trail failed", slog.String("route", r.Pattern), slog.Any("error", err))
		return t
	}
	t.More = max(0, len(steps)-stepsShown)
	t.Steps = slices.Clone(steps[t.More:])
	for i := range t.Steps {
		if !words {
			t.Steps[i].Detail = ""
		}
	}
	return t
}
