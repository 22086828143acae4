package dashboard

import (
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// whyData is what the page that explains a day shows.
type whyData struct {
	complaints
	ID        uuid.UUID
	Zone      string
	Type, Day string // as they were sent
	Types     []listOption
	Asked     bool
	Found     ops.WhyResult
	Hidden    bool // errors are not shown to the viewer
}

// whyPage explains what became of a user's occurrences on a day.
func (d *dashboard) whyPage(r *request) (answer, error) {
	u, err := d.userOf(r)
	if errors.Is(err, almanac.ErrNotFound) {
		err = refused(http.StatusNotFound, "There is no such user, or the user was deleted. Nothing is kept of a deleted user.")
	}
	if err != nil {
		return answer{}, err
	}
	now, err := r.clock()
	if err != nil {
		return answer{}, err
	}
	names, err := r.mayDo(SeeNames, u.ID)
	if err != nil {
		return answer{}, err
	}
	words, err := r.mayDo(SeePayloads, u.ID)
	if err != nil {
		return answer{}, err
	}
	zone := u.Timezone.String()
	data := whyData{ID: u.ID, Zone: zone, Type: r.FormValue("type"), Day: strings.TrimSpace(r.FormValue("day")), Hidden: !words}
	types := d.knownTypes(r)
	if data.Asked = data.Type != "" || data.Day != ""; !data.Asked {
		data.Day = u.Timezone.WallTime(now).Date.String()
	}
	for _, o := range listOptions(data.Type, "none", types...) {
		if o.Value != "" {
			data.Types = append(data.Types, o)
		}
	}
	title := "Why: user " + short(u.ID)
	if names && u.Name() != "" {
		title = "Why: " + u.Name()
	}
	if data.Asked {
		if err := d.explain(r, &data); err != nil {
			return answer{}, err
		}
		data.Found = data.Found.Hiding(!names, !words)
	}
	return answer{title: title, template: "why", status: data.status(), data: data}, nil
}

// explain asks what the form asks.
func (d *dashboard) explain(r *request, data *whyData) error {
	day, err := calendar.ParseDate(data.Day)
	if err != nil || day.Year < 1900 || day.Year > 9998 {
		data.refuse("day", "The day is not a date of the years 1900 to 9998, such as 2026-03-15.")
	}
	if problem := ops.TypeProblem(data.Type); problem != "" {
		data.refuse("type", "The type "+problem+".")
	}
	if data.status() != 0 {
		return nil
	}
	options := ops.WhyOptions{Statistics: d.reader, Broadcasts: d.sender}
	if d.trail != nil {
		options.Trail = d.trail
	}
	data.Found, err = ops.Why(r.Context(), d.scheduler, ops.WhyRequest{User: data.ID, Type: data.Type, Day: day}, options)
	return err
}
