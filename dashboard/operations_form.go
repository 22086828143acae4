package dashboard

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

const (
	// defaultOperation is how many events an operation changes if the form does not say.
	defaultOperation = 1000
	// maxOperation is how many events an operation changes at most.
	maxOperation = 10_000
)

// operationForm is the form of an operation on many events, as it was sent.
type operationForm struct {
	Operation, Type, User, Zone, From, Until, Reason, Limit, Because string
	EndSeries, Force                                                 bool
}

// operationWish is what a form means.
type operationWish struct {
	kind   *operationKind
	filter almanac.And
	limit  int
	change eventChange
}

// operationFormOf reads a form, and what it means. Bad are sentences about its fields.
func operationFormOf(values url.Values) (f operationForm, w operationWish, bad []string) {
	text := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	f = operationForm{
		Operation: text("operation"), Type: text("type"), User: text("user"), Zone: text("zone"), From: text("from"), Until: text("until"),
		Reason: values.Get("reason"), Limit: text("limit"), Because: text("because"),
	}
	f.EndSeries, f.Force = ticked(values, "endSeries", &bad), ticked(values, "force", &bad)
	w.change = eventChange{Reason: f.Because, EndSeries: f.EndSeries, Force: f.Force}
	if w.kind = kindOf(f.Operation); w.kind == nil {
		bad = append(bad, "Choose an operation: cancel, run now or requeue.")
	}
	w.limit = defaultOperation
	if f.Limit != "" {
		n, err := strconv.Atoi(f.Limit)
		if err != nil || n < 1 || n > maxOperation {
			bad = append(bad, "The limit must be a whole number from 1 to 10,000.")
		}
		w.limit = n
	}
	w.filter = f.filter(&bad)
	return f, w, append(bad, f.misfits(w.kind)...)
}

// filter returns what the form selects.
func (f operationForm) filter(bad *[]string) almanac.And {
	var filter almanac.And
	refuse := func(wrong bool, sentence string) {
		if wrong {
			*bad = append(*bad, sentence)
		}
	}
	if f.Type != "" {
		refuse(eventTypeProblem(f.Type) != "", eventTypeProblem(f.Type))
		filter = append(filter, almanac.OfType(f.Type))
	}
	if f.User != "" {
		id, err := uuid.Parse(f.User)
		refuse(err != nil, "The user must be the id of a user, a UUID.")
		filter = append(filter, almanac.ForUser(id))
	}
	if f.Zone != "" {
		refuse(len(f.Zone) > 100 || reasonProblem(f.Zone) != "", "The zone must be the name of a time zone, such as Europe/Paris.")
		filter = append(filter, almanac.InZone{f.Zone})
	}
	due := almanac.DueBetween{From: dueBound("from", f.From, bad), Until: dueBound("until", f.Until, bad)}
	refuse(!due.From.IsZero() && !due.Until.IsZero() && !due.From.Before(due.Until), "The end of the range, until, must be after its beginning, from.")
	if due != (almanac.DueBetween{}) {
		filter = append(filter, due)
	}
	if f.Reason != "" {
		problem := reasonProblem(f.Reason)
		refuse(problem != "", "The reason of the failure "+problem+".")
		filter = append(filter, almanac.ForReason(f.Reason))
	}
	refuse(len(filter) == 0 && len(*bad) == 0, "Give at least one filter, so that an empty form does not change every event.")
	return filter
}

// misfits returns sentences about fields that are not for an operation.
func (f operationForm) misfits(kind *operationKind) (bad []string) {
	if kind == nil {
		return nil
	}
	cancels := kind.Name == ops.Cancel
	if f.Reason != "" && kind.of == almanac.Pending {
		bad = append(bad, "Only failed events have a reason of the failure, so it is only for requeue.")
	}
	if !cancels && (f.Because != "" || f.EndSeries) {
		bad = append(bad, "Only a cancellation stores a reason, and can end the series.")
	}
	if cancels && f.Force {
		bad = append(bad, "Force is only for run now and requeue.")
	}
	if problem := reasonProblem(f.Because); problem != "" {
		bad = append(bad, "The reason "+problem+".")
	}
	return bad
}

// dueFormats are how a bound can be written. Without an offset it is UTC.
var dueFormats = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

// dueBound returns the instant of a bound, or zero.
func dueBound(name, text string, bad *[]string) time.Time {
	if text == "" {
		return time.Time{}
	}
	for _, format := range dueFormats {
		if t, err := time.Parse(format, text); err == nil && t.Year() >= 1900 && t.Year() <= 9999 {
			return t.UTC()
		}
	}
	*bad = append(*bad, "The bound "+name+" must be an instant since 1900, such as 2026-03-15T14:00:00Z.")
	return time.Time{}
}

// fields returns the form as hidden fields, without the empty ones.
func (f operationForm) fields() []field {
	box := map[bool]string{true: "true"}
	all := []field{
		{"operation", f.Operation}, {"type", f.Type}, {"user", f.User}, {"zone", f.Zone}, {"from", f.From}, {"until", f.Until},
		{"reason", f.Reason}, {"limit", f.Limit}, {"because", f.Because}, {"endSeries", box[f.EndSeries]}, {"force", box[f.Force]},
	}
	return slices.DeleteFunc(all, func(one field) bool { return one.Value == "" })
}

// Chosen returns the filter and what is stored, with the names of the form's fields.
func (f operationForm) Chosen() []field {
	all := []field{
		{"Type", f.Type}, {"User's id", f.User}, {"Zone", f.Zone}, {"Due from, UTC", f.From}, {"Due before, UTC", f.Until},
		{"Failure begins with", f.Reason}, {"Reason to store", f.Because},
	}
	return slices.DeleteFunc(all, func(one field) bool { return one.Value == "" })
}

// Address returns the query of the page with this form.
func (f operationForm) Address() string {
	var pairs []any
	for _, one := range f.fields() {
		pairs = append(pairs, one.Name, one.Value)
	}
	return query(pairs...)
}
