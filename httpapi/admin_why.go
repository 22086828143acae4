package httpapi

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// WithExplanations sets what the admin API reads to explain what became of an occurrence, besides the
// scheduler's repository: statistics and an audit trail, as [ops.Why] takes them. By default it reads neither. The broadcasts are
// those of [WithBroadcasts], unless the options have others.
func WithExplanations(o ops.WhyOptions) Option { return func(a *api) { a.explanations = o } }

// why explains a day of a user.
func (a *admin) why(r *http.Request) (reply, error) {
	var bad complaints
	id := idOf(r, &bad)
	query := queryOf(r, &bad, "type", "day")
	var day calendar.Date
	for _, name := range []string{"type", "day"} {
		if _, ok := query[name]; !ok {
			bad.add(name, "is required")
		}
	}
	if eventType, ok := query["type"]; ok {
		checkType(eventType, "type", &bad)
	}
	if text, ok := query["day"]; ok {
		var err error
		if day, err = calendar.ParseDate(text); err != nil || day.Year < 1900 || day.Year > 9998 {
			bad.add("day", "is not a date of the years 1900 to 9998, such as 2026-03-15")
		}
	}
	if bad.any() {
		return reply{}, bad.problem()
	}
	options := a.explanations
	options.Broadcasts = cmp.Or(options.Broadcasts, a.sender)
	found, err := ops.Why(r.Context(), a.scheduler, ops.WhyRequest{User: id, Type: query["type"], Day: day}, options)
	if err == nil && found.Answers[0].Code == ops.WhyUserUnknown {
		err = newProblem(http.StatusNotFound, fmt.Sprintf("there is no user %s, or the user was deleted: nothing is kept of a deleted user", id))
	}
	return reply{status: http.StatusOK, body: found}, err
}
