package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
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

// eventFilter selects events. It has the fields as they were sent, so that a form can keep them.
type eventFilter struct {
	Status, Type, Zone, User, From, Until, Reason, Order, After string

	spec  almanac.And // without the zone
	zone  string      // as stored events have it; "" means all zones
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
	due := f.due()
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
	if zone := strings.TrimSpace(f.Zone); zone != "" { // also one that this program does not know: events may have it
		f.zone = calendar.StoredTimezone(zone).String()
	}
	text := ops.FilterText{
		Status: f.Status, Type: f.Type, User: wholeID(f.User), Zone: f.zone, Reason: f.Reason,
		From: strings.TrimSpace(f.From), Until: strings.TrimSpace(f.Until), Days: cmp.Or(f.zone, "UTC"),
	}
	spec, err := text.Parse()
	for _, wrong := range wrongFields(err, map[string]string{
		"status": "The status", "type": "The type", "user": "The user", "zone": "The zone", "reason": "The reason", "from": "Due from", "until": "Due before",
	}) {
		bad.refuse(wrong.Field, wrong.Problem)
	}
	f.spec = slices.DeleteFunc(spec, func(part almanac.Spec) bool { // a zone has no index
		_, isZone := part.(almanac.InZone)
		return isZone
	})
	f.readOrder(&bad)
	return f, bad
}

// wholeID returns the id of a user in its usual form, and any other text as it is.
func wholeID(text string) string {
	text = strings.TrimSpace(text)
	if id, err := uuid.Parse(text); err == nil {
		return id.String()
	}
	return text
}

// wrongFields returns what is wrong with a filter, as sentences that begin with the labels of fields.
func wrongFields(err error, labels map[string]string) []almanac.FieldError {
	var invalid *almanac.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	for i, f := range invalid.Fields {
		invalid.Fields[i].Problem = labels[f.Field] + " " + strings.Replace(f.Problem, "after from", "after "+labels["from"], 1) + "."
	}
	return invalid.Fields
}

// due returns the range of targets.
func (f *eventFilter) due() (due almanac.DueBetween) {
	for _, part := range f.spec {
		if is, ok := part.(almanac.DueBetween); ok {
			due = is
		}
	}
	return due
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
		return foundEvents{Events: found.Items, Next: found.Next}, err
	}
	until := d.now().Add(lookedFor)
	for page.Limit = lookedAtOnce; all.Looked < lookedMost && (all.Looked == 0 || d.now().Before(until)); {
		found, err := d.reader.Find(ctx, f.spec, page)
		if err != nil {
			return all, err
		}
		for i, e := range found.Items {
			all.Looked++
			all.Last = e
			if e.Zone != f.zone {
				continue
			}
			if all.Events = append(all.Events, e); len(all.Events) < limit {
				continue
			}
			all.Next = found.Next
			if i+1 < len(found.Items) { // the next page begins within this part
				all.Next = almanac.PageOf(found.Items, i+1, f.order).Next
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

// complaints are what is wrong with the fields of a form.
type complaints struct {
	Sentences []string
	Bad       map[string]bool // by the name of a field
	forbidden bool            // whether a field needs a permission that the viewer lacks
}

func (c *complaints) refuse(field, sentence string) {
	if c.Bad == nil {
		c.Bad = make(map[string]bool)
	}
	c.Bad[field] = true
	c.Sentences = append(c.Sentences, sentence)
}

// status returns the status of a page with these complaints, or zero for none.
func (c complaints) status() int {
	switch {
	case c.forbidden:
		return http.StatusForbidden
	case len(c.Sentences) > 0:
		return http.StatusBadRequest
	}
	return 0
}

// listOption is a choice of a form.
type listOption struct {
	Value, Text string
	Selected    bool
}

// listOptions returns the choices of a form: all values, and also the one that was sent.
func listOptions[T ~string](sent, none string, values ...T) []listOption {
	options := []listOption{{"", none, sent == ""}}
	for _, v := range values {
		options = append(options, listOption{string(v), string(v), string(v) == sent})
	}
	if sent != "" && !slices.Contains(values, T(sent)) {
		options = append(options, listOption{sent, listCut(sent, 50), true})
	}
	return options
}
