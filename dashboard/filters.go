package dashboard

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

const (
	// listRows is how many rows a page of a list has.
	listRows = 50
	// lookedMost is how many events a page with a zone looks at. A zone has no index.
	lookedMost = 10_000
	// lookedAtOnce is the most events that one call of Find returns.
	lookedAtOnce = 1000
	// lookedFor is for how long a page with a zone begins to look at more events.
	lookedFor = 50 * time.Millisecond
)

var eventStatuses = []almanac.Status{almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, almanac.Cancelled}

// eventOrders are the orders of a list, as addresses name them. Newest first is the default.
var eventOrders = map[string]almanac.Order{"": almanac.NewestFirst, "oldest": almanac.OldestFirst, "next": almanac.NextFirst}

// eventFilter selects events. It has the fields as they were sent, so that a form can keep
// them.
type eventFilter struct {
	Status, Type, Zone, User, From, Until, Reason, Order, After string

	spec  almanac.Spec // without the zone
	zone  string       // as stored events have it; "" means all zones
	order almanac.Order
}

// Query returns the filter as the query of an address, without the cursor, and with more
// pairs of names and values.
func (f eventFilter) Query(more ...any) string {
	return query(append([]any{
		"status", f.Status, "type", f.Type, "zone", f.Zone, "user", f.User, "from", f.From, "until", f.Until, "reason", f.Reason, "order", f.Order,
	}, more...)...)
}

// Preset names the usual filter that this one is, or "".
func (f eventFilter) Preset() string {
	switch f.Query() {
	case query("status", almanac.Pending, "order", "next"):
		return "next"
	case query("status", almanac.Failed):
		return "failed"
	case query("status", almanac.Processing):
		return "processing"
	case query():
		return "all"
	}
	return ""
}

// Operation returns the query of the form that does an operation to all events of the filter,
// or "" if the filter has events of another status, or all events of the status.
func (f eventFilter) Operation(kind operationKind) string {
	if f.Status != string(kind.of) || f.Query() == query("status", f.Status, "order", f.Order) {
		return ""
	}
	bound := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.Format(time.RFC3339)
	}
	due := f.due(new(complaints)) // which were found before
	return query("operation", kind.Name, "type", f.Type, "user", f.User, "zone", f.zone, "from", bound(due.From), "until", bound(due.Until), "reason", f.Reason)
}

// filterOf reads a filter from a query.
func filterOf(q url.Values) (f eventFilter, bad complaints) {
	f = eventFilter{
		Status: q.Get("status"), Type: q.Get("type"), Zone: q.Get("zone"), User: q.Get("user"), From: q.Get("from"), Until: q.Get("until"),
		Reason: q.Get("reason"), Order: q.Get("order"), After: q.Get("after"),
	}
	if f.Order == "newest" { // the default
		f.Order = ""
	}
	parts := almanac.And{}
	if f.Status != "" {
		if parts = append(parts, almanac.InStatus(f.Status)); !slices.Contains(eventStatuses, almanac.Status(f.Status)) {
			bad.refuse("status", "The status is none of PENDING, PROCESSING, COMPLETED, FAILED and CANCELLED.")
		}
	}
	if f.Type != "" {
		if parts = append(parts, almanac.OfType(f.Type)); !plainText(f.Type, 50) {
			bad.refuse("type", "The type is not a text of at most 50 bytes.")
		}
	}
	if f.User != "" {
		id, err := uuid.Parse(strings.TrimSpace(f.User))
		if parts = append(parts, almanac.ForUser(id)); err != nil {
			bad.refuse("user", "The user is not a whole id. Search for the user on the page Users.")
		}
	}
	if f.Reason != "" {
		if parts = append(parts, almanac.ForReason(f.Reason)); !plainText(f.Reason, 1000) {
			bad.refuse("reason", "The reason is not a text of at most 1,000 bytes.")
		}
	}
	f.readZone(&bad)
	if due := f.due(&bad); due != (almanac.DueBetween{}) {
		parts = append(parts, due)
	}
	f.spec = parts
	f.readOrder(&bad)
	return f, bad
}

// readZone sets the zone as stored events have it. A zone that this program does not know is
// kept: events may have it.
func (f *eventFilter) readZone(bad *complaints) {
	if f.zone = strings.TrimSpace(f.Zone); f.zone == "" {
		return
	}
	if !plainText(f.zone, 64) {
		bad.refuse("zone", "The zone is not a text of at most 64 bytes.")
		return
	}
	f.zone = calendar.StoredTimezone(f.zone).String()
}

// due returns the range of targets.
func (f *eventFilter) due(bad *complaints) (due almanac.DueBetween) {
	var problem string
	if due.From, problem = f.bound(f.From); problem != "" {
		bad.refuse("from", "Due from "+problem)
	}
	if due.Until, problem = f.bound(f.Until); problem != "" {
		bad.refuse("until", "Due before "+problem)
	}
	if !due.From.IsZero() && !due.Until.IsZero() && !due.From.Before(due.Until) {
		bad.refuse("until", "Due before must be later than Due from.")
	}
	return due
}

// bound returns the instant of a bound, which is an instant, or a day in the zone of the
// filter. Without a zone it is a day in UTC. A day begins at its first instant, also where
// clocks skip midnight.
func (f *eventFilter) bound(text string) (at time.Time, problem string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, ""
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UTC(), ""
	}
	day, err := calendar.ParseDate(text)
	if err != nil {
		return time.Time{}, "is neither a day such as 2027-03-15 nor an instant such as 2027-03-15T09:00:00Z."
	}
	zone := f.zone
	if zone == "" {
		zone = "UTC"
	}
	r, err := calendar.StoredTimezone(zone).Resolve(calendar.WallTime{Date: day}, calendar.Policies{Gap: calendar.GapBoundary})
	if errors.Is(err, calendar.ErrInvalidInput) {
		return time.Time{}, "is a day that begins before the year 1 in UTC."
	}
	if err != nil {
		return time.Time{}, "is a day in a zone that this program does not know. Give an instant such as 2027-03-15T09:00:00Z."
	}
	return r.Instant, ""
}

func (f *eventFilter) readOrder(bad *complaints) {
	order, known := eventOrders[f.Order]
	if f.order = order; !known {
		bad.refuse("order", "The order is none of newest, oldest and next.")
		return
	}
	if order == almanac.NextFirst && f.Status != "" && f.Status != string(almanac.Pending) {
		bad.refuse("order", "The order next lists pending events only. Choose another order, or the status PENDING.")
	}
	if _, _, _, err := (almanac.Page{After: almanac.Cursor(f.After), Order: order}).EventBounds(); err != nil {
		bad.refuse("after", "The address of this page is not complete. Go to the first page.")
	}
}

// allowed complains if the viewer may not use the filter. Who may not see texts of errors
// could find them out with the filter by reason.
func (f *eventFilter) allowed(r *request, bad *complaints) error {
	if f.Reason == "" {
		return nil
	}
	may, err := r.mayDo(SeePayloads, uuid.Nil)
	if !may {
		bad.forbidden = true
		bad.refuse("reason", "You may not filter by reason, because you may not see texts of errors.")
	}
	return err
}

// plainText reports whether a text has at most so many bytes, and nothing that a database
// refuses.
func plainText(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// foundEvents is a page of a list of events.
type foundEvents struct {
	Events []almanac.Event
	Next   almanac.Cursor // "" at the end of the list
	Looked int            // how many events were compared with the zone; zero without one
	Last   almanac.Event  // the last of these
}

// findEvents finds a page of the events that a filter selects. The zone is compared here,
// so that the cost has a bound: of at most lookedMost events, and of about lookedFor.
func (d *dashboard) findEvents(ctx context.Context, f eventFilter, limit int) (all foundEvents, err error) {
	page := almanac.Page{Limit: limit, After: almanac.Cursor(f.After), Order: f.order}
	if f.zone == "" {
		found, err := d.reader.Find(ctx, f.spec, page)
		return foundEvents{Events: found.Events, Next: found.Next}, err
	}
	until := d.now().Add(lookedFor)
	for page.Limit = lookedAtOnce; all.Looked < lookedMost && (all.Looked == 0 || d.now().Before(until)); {
		found, err := d.reader.Find(ctx, f.spec, page)
		if err != nil {
			return all, err
		}
		for i, e := range found.Events {
			all.Looked++
			all.Last = e
			if e.Zone != f.zone {
				continue
			}
			if all.Events = append(all.Events, e); len(all.Events) < limit {
				continue
			}
			all.Next = found.Next
			if i+1 < len(found.Events) { // the next page begins within this part
				all.Next = almanac.PageOf(found.Events, i+1, f.order).Next
			}
			return all, nil
		}
		if all.Next = found.Next; found.Next == "" {
			return all, nil
		}
		page.After = found.Next
	}
	return all, nil
}
