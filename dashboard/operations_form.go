package dashboard

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	filter, err := ops.FilterText{Type: f.Type, User: wholeID(f.User), Zone: f.Zone, From: f.From, Until: f.Until, Reason: f.Reason, Days: "UTC"}.Parse()
	for _, wrong := range wrongFields(err, map[string]string{
		"type": "The type", "user": "The user", "zone": "The zone", "from": "Due from", "until": "Due before", "reason": "The reason of the failure",
	}) {
		*bad = append(*bad, wrong.Problem)
	}
	if len(filter) == 0 && len(*bad) == 0 {
		*bad = append(*bad, "Give at least one filter, so that an empty form does not change every event.")
	}
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
