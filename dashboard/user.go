package dashboard

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// userData is what the page of a user shows.
type userData struct {
	ID      uuid.UUID
	Name    string
	Facts   *userFacts // nil if the viewer may not see them
	Zone    string
	Source  almanac.ZoneSource
	Now     instant
	OptOuts optOutsData
	userEvents
	Ahead userPreview
	Trail auditTrail
}

// userEvents are the events of a user, and the series that have none.
type userEvents struct {
	Open      []eventRow
	MoreOpen  bool
	Ended     []eventRow
	MoreEnded bool
	Stalled   []stalledRow
	NoneOpen  string // why no event is open, if an opt-out is why
}

// userFacts are the facts of a profile.
type userFacts struct {
	Born, Email, ExternalID, Locale string
	Attributes                      string
	Cut                             bool // the attributes are longer than what is shown
}

func (d *dashboard) userPage(r *request) (answer, error) {
	u, err := d.userOf(r)
	if err != nil {
		return answer{}, err
	}
	return d.userAnswer(r, u, optOutForm{})
}

// userAnswer is the page of a user. The form is that for an opt-out, as it was sent and refused.
func (d *dashboard) userAnswer(r *request, u almanac.User, form optOutForm) (answer, error) {
	now, err := r.clock()
	if err != nil {
		return answer{}, err
	}
	zone := u.Timezone.String()
	data := userData{ID: u.ID, Zone: zone, Source: u.ZoneSource, Now: instantOf(now, zone)}
	if data.OptOuts, err = r.optOuts(u, now, form); err != nil {
		return answer{}, err
	}
	if _, owed := u.OwedFrom(""); !owed {
		data.NoneOpen = "No event is open. The user has opted out of all types."
	}
	if err := r.facts(u, &data); err != nil {
		return answer{}, err
	}
	if err := d.eventsOf(r, &data); err != nil {
		return answer{}, err
	}
	if data.Stalled, err = d.stalledRows(r, u.ID); err != nil {
		return answer{}, err
	}
	words, err := r.mayDo(SeePayloads, u.ID)
	if err != nil {
		return answer{}, err
	}
	if data.Ahead, err = d.ahead(r, u, d.typesOf(r, data), words); err != nil {
		return answer{}, err
	}
	data.Trail = d.trailOf(r, u.ID, words)
	title := "User " + short(u.ID)
	if data.Name != "" {
		title = data.Name
	}
	return answer{title: title, template: "user", status: max(data.Ahead.status(), form.status()), data: data, notice: optOutNotice(u, r.URL.Query().Get("done"))}, nil
}

// facts sets what the viewer may see of a profile.
func (r *request) facts(u almanac.User, data *userData) error {
	may, err := r.mayDo(SeeNames, u.ID)
	if !may || err != nil {
		return err
	}
	data.Name = u.Name()
	data.Facts = &userFacts{Born: strings.TrimSpace(u.DateOfBirth.String() + " " + u.DateOfBirth.Calendar()), Email: u.Email, ExternalID: u.ExternalID, Locale: u.Locale}
	data.Facts.Attributes, data.Facts.Cut = prettyJSON(u.Attributes)
	return nil
}

// eventsOf finds the open events of a user, and the newest that have ended.
func (d *dashboard) eventsOf(r *request, data *userData) error {
	open := almanac.Or{almanac.InStatus(almanac.Pending), almanac.InStatus(almanac.Processing)}
	ended := almanac.Or{almanac.InStatus(almanac.Completed), almanac.InStatus(almanac.Failed), almanac.InStatus(almanac.Cancelled)}
	for _, list := range []struct {
		status almanac.Spec
		order  almanac.Order
		rows   *[]eventRow
		more   *bool
	}{
		{open, almanac.OldestFirst, &data.Open, &data.MoreOpen},
		{ended, almanac.NewestFirst, &data.Ended, &data.MoreEnded},
	} {
		found, err := d.reader.Find(r.Context(), almanac.And{almanac.ForUser(data.ID), list.status}, almanac.Page{Limit: listRows, Order: list.order})
		if err != nil {
			return err
		}
		*list.more = found.Next != ""
		if *list.rows, err = r.rows(found.Items, false); err != nil {
			return err
		}
	}
	slices.SortStableFunc(data.Open, func(a, b eventRow) int { return a.AvailableAt.Compare(b.AvailableAt) })
	return nil
}

// typesOf returns the types of the user's events and of all others, in alphabetical order. The
// type of the user's first open event comes before all: its occurrences are what the page shows.
func (d *dashboard) typesOf(r *request, data userData) []string {
	types := d.knownTypes(r)
	for _, e := range slices.Concat(data.Open, data.Ended) {
		types = append(types, e.Type)
	}
	slices.Sort(types)
	if types = slices.Compact(types); len(data.Open) > 0 {
		first := data.Open[0].Type
		types = append([]string{first}, slices.DeleteFunc(types, func(one string) bool { return one == first })...)
	}
	return types
}
