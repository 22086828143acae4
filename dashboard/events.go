package dashboard

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// eventsData is what the list of events shows.
type eventsData struct {
	complaints
	Filter   eventFilter
	Statuses []listOption
	Orders   []listOption
	Types    []string // that are known, for the field of the type
	Rows     []eventRow
	Next     string // the query of the next page; "" on the last page
	Looked   int    // how many events were compared with the zone; zero without one
	Back     time.Time
	Changes  []wholeChange
}

// wholeChange is an operation on all events of a filter.
type wholeChange struct{ Verb, Query string }

// eventRow is an event in a list.
type eventRow struct {
	almanac.Event
	Delayed bool   // available later than it first was
	Reason  string // why it failed, was cancelled or waits for another attempt, shortened
	Hidden  bool   // there is a reason, which the viewer may not see
}

// reasonShown is how many bytes of a reason a list shows, so that no page gets large.
const reasonShown = 120

func (d *dashboard) eventsPage(r *request) (answer, error) {
	f, bad := filterOf(r.URL.Query())
	if err := f.allowed(r, &bad); err != nil {
		return answer{}, err
	}
	data := eventsData{
		complaints: bad, Filter: f, Types: d.knownTypes(r),
		Statuses: listOptions(f.Status, "any", eventStatuses...),
		Orders:   listOptions(f.Order, "newest", "oldest", "next"),
	}
	page := answer{title: "Events", template: "events", status: bad.status()}
	if page.status == 0 {
		found, err := d.findEvents(r.Context(), f, listRows)
		if err != nil {
			return answer{}, err
		}
		if data.Rows, err = r.rows(found.Events, f.Reason != ""); err != nil {
			return answer{}, err
		}
		if found.Next != "" {
			data.Next = f.Query("after", found.Next)
		}
		if data.Changes, err = changesFor(r, f); err != nil {
			return answer{}, err
		}
		if data.Looked, data.Back = found.Looked, found.Last.CreatedAt; f.order == almanac.NextFirst {
			data.Back = found.Last.AvailableAt
		}
	}
	page.data = data
	return page, nil
}

// changesFor returns the operations that the viewer may do to all events of a filter.
func changesFor(r *request, f eventFilter) ([]wholeChange, error) {
	var changes []wholeChange
	for _, kind := range operationKinds {
		query := f.Operation(kind)
		if query == "" {
			continue
		}
		may, err := r.mayDo(kind.may, uuid.Nil)
		if err != nil {
			return nil, err
		}
		if may {
			changes = append(changes, wholeChange{kind.Verb, query})
		}
	}
	return changes, nil
}

// knownTypes returns the types of events that the numbers know, in alphabetical order.
func (d *dashboard) knownTypes(r *request) []string {
	s, _ := d.numbers.get(r.Context(), 0) // without numbers no type is offered
	var types []string
	for _, one := range s.Stats.Events {
		types = append(types, one.Type)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// rows returns the rows of events. With a filter by reason it leaves out the events whose
// reason the viewer may not see, because the filter says how it begins.
func (r *request) rows(events []almanac.Event, byReason bool) ([]eventRow, error) {
	var rows []eventRow
	for _, e := range events {
		row, err := r.row(e)
		if err != nil {
			return nil, err
		}
		if row.Reason = listCut(row.Reason, reasonShown); !byReason || !row.Hidden {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// row returns the row of an event, with its whole reason, and without what lists never show.
func (r *request) row(e almanac.Event) (eventRow, error) {
	row := eventRow{Event: e, Delayed: e.Status == almanac.Pending && e.AvailableAt.After(e.FirstAvailable())}
	row.Payload, row.LastError, row.FailureReason = nil, "", ""
	reason := e.FailureReason
	if e.Status == almanac.Pending {
		reason = e.LastError
	}
	if reason == "" {
		return row, nil
	}
	may, err := true, error(nil)
	if !byOperator(e) {
		may, err = r.mayDo(SeePayloads, e.UserID)
	}
	if row.Hidden = !may; may {
		row.Reason = reason
	}
	return row, err
}

// byOperator reports whether the reason of an event comes from an operator or from the
// library. An event that was cancelled during an attempt has the token of its claim, and a
// reason of the program that delivers.
func byOperator(e almanac.Event) bool {
	return e.Status == almanac.Cancelled && e.LeaseToken == uuid.Nil
}
