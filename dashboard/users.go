package dashboard

import (
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// usersData is what the list of users shows.
type usersData struct {
	complaints
	Filter  userSearch
	Names   bool // whether the viewer may search by names
	Sources []listOption
	Rows    []userRow
	Next    string // the query of the next page; "" on the last page
}

// userSearch has the fields of the form, as they were sent.
type userSearch struct{ Name, Email, External, Source, ID, After string }

// Query returns the search as the query of an address, without the cursor, and with more
// pairs of names and values.
func (s userSearch) Query(more ...any) string {
	return query(append([]any{"name", s.Name, "email", s.Email, "external", s.External, "source", s.Source}, more...)...)
}

// personal reports whether a field names a user.
func (s userSearch) personal() bool { return s.Name != "" || s.Email != "" || s.External != "" }

// userRow is a user in a list.
type userRow struct {
	ID   uuid.UUID
	Name string // if the viewer may see it
	Zone string
	// Source is where the zone comes from; "" if it is declared.
	Source almanac.ZoneSource
	Now    instant
}

func (d *dashboard) usersPage(r *request) (answer, error) {
	q := r.URL.Query()
	search := userSearch{Name: q.Get("name"), Email: q.Get("email"), External: q.Get("external"), Source: q.Get("source"), ID: q.Get("id"), After: q.Get("after")}
	for _, text := range []string{search.ID, search.Name, search.External} {
		if id, err := uuid.Parse(strings.TrimSpace(text)); err == nil {
			return answer{redirect: r.root + "users/" + id.String()}, nil
		}
	}
	data := usersData{Filter: search, Sources: listOptions(search.Source, "any", almanac.ZoneDeclared, almanac.ZoneGuessed, almanac.ZoneDefault)}
	var err error
	if data.Names, err = r.mayDo(SeeNames, uuid.Nil); err != nil {
		return answer{}, err
	}
	filter := almanac.UserFilter{
		Name: strings.TrimSpace(search.Name), Email: strings.TrimSpace(search.Email), ExternalID: strings.TrimSpace(search.External),
		ZoneSource: almanac.ZoneSource(search.Source),
	}
	page := almanac.Page{Limit: listRows, After: almanac.Cursor(search.After)}
	data.complaints = search.complaints(data.Names, filter, page)
	if data.status() == 0 {
		found, err := d.reader.FindUsers(r.Context(), filter, page)
		if err != nil {
			return answer{}, err
		}
		if data.Rows, err = userRows(r, found.Items, search.personal()); err != nil {
			return answer{}, err
		}
		if found.Next != "" {
			data.Next = search.Query("after", found.Next)
		}
	}
	return answer{title: "Users", template: "users", status: data.status(), data: data}, nil
}

// complaints says what is wrong with a search. Names says whether the viewer may search by
// what names users.
func (s userSearch) complaints(names bool, filter almanac.UserFilter, page almanac.Page) (bad complaints) {
	if s.ID != "" {
		bad.refuse("id", "The id is not whole. An id has 36 characters, such as 0198c5f2-7a3e-7c1d-9b52-3f6f1c2d4e5a.")
	}
	if s.personal() && !names {
		bad.forbidden = true
		bad.refuse("name", "You may not search by name, e-mail address or external id, because you may not see names.")
	}
	var invalid *almanac.ValidationError
	if _, _, err := filter.Bounds(page); errors.As(err, &invalid) {
		for _, f := range invalid.Fields {
			switch f.Field {
			case "externalId":
				bad.refuse("external", "The external id "+f.Problem+".")
			case "email":
				bad.refuse("email", "The e-mail address "+f.Problem+".")
			case "zoneSource":
				bad.refuse("source", "The zone source "+f.Problem+".")
			case "name":
				bad.refuse("name", "The name "+f.Problem+".")
			default:
				bad.refuse("after", "The address of this page is not complete. Go to the first page.")
			}
		}
	}
	return bad
}

// userRows returns the rows of users. If the search names a user, it leaves out the users
// whose names the viewer may not see, because the search says what they begin with.
func userRows(r *request, users []almanac.User, personal bool) ([]userRow, error) {
	now, err := r.clock()
	if err != nil {
		return nil, err
	}
	var rows []userRow
	for _, u := range users {
		may, err := r.mayDo(SeeNames, u.ID)
		if err != nil {
			return nil, err
		}
		row := userRow{ID: u.ID, Zone: u.Timezone.String(), Now: instantOf(now, u.Timezone.String())}
		if may {
			row.Name = u.Name()
		}
		if u.ZoneSource != almanac.ZoneDeclared {
			row.Source = u.ZoneSource
		}
		if may || !personal {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// userOf returns the user in the path of a request, if the viewer may look.
func (d *dashboard) userOf(r *request) (u almanac.User, err error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return u, notFound
	}
	if err := r.need(Look, id); err != nil {
		return u, err
	}
	return d.reader.User(r.Context(), id)
}
