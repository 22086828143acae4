package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// listUsers lists all users.
type listUsers struct {
	ZoneSource string `help:"Only users whose time zone is ${zone_source}." placeholder:"SOURCE"`

	Listing listing `embed:""`
	Tables  tables  `embed:""`
}

// Run lists users.
func (c *listUsers) Run(ctx context.Context, env *environment) error {
	q := userQuery{filters: []almanac.UserFilter{{}}}
	var errSource error
	if c.ZoneSource != "" {
		if errSource = oneOf("--zone-source", c.ZoneSource); errSource == nil {
			q.filters[0].ZoneSource = almanac.ZoneSource(c.ZoneSource)
		}
	}
	if err := q.parse(env, &c.Listing, &c.Tables, errSource); err != nil {
		return err
	}
	return q.run(ctx, env, &c.Tables, `almanac users add stores a user, and almanac users import the users of a file`)
}

// findUsers finds users by what people know of them.
type findUsers struct {
	Text       string `arg:"" optional:"" help:"An id, an external id, an e-mail address, or the beginning of a last name or of a full name."`
	Name       string `help:"Only users whose last name or full name begins with this text." placeholder:"TEXT"`
	Email      string `help:"Only users with this e-mail address." placeholder:"ADDRESS"`
	ExternalID string `help:"Only the user with this external id." name:"external-id" placeholder:"ID"`

	Listing listing `embed:""`
	Tables  tables  `embed:""`
}

// Run finds users.
func (c *findUsers) Run(ctx context.Context, env *environment) error {
	flags := almanac.UserFilter{Name: c.Name, Email: c.Email, ExternalID: c.ExternalID}
	q, errs := userQuery{filters: []almanac.UserFilter{flags}}, []error(nil)
	switch text := c.Text; {
	case text != "" && flags != almanac.UserFilter{}:
		errs = append(errs, errors.New("<text>: does not go with --name, --email or --external-id"))
	case text == "" && flags == almanac.UserFilter{}:
		errs = append(errs, errors.New("<text>, --name, --email or --external-id is required"))
	case text != "":
		q = queryFor(text)
	}
	if err := q.parse(env, &c.Listing, &c.Tables, errs...); err != nil {
		return err
	}
	return q.run(ctx, env, &c.Tables, `names are compared from their beginning, and all else as a whole; almanac users list lists all users`)
}

// userQuery asks for users.
type userQuery struct {
	id uuid.UUID // the user to begin with, if not zero
	// filters are used one after the other, until one selects users.
	filters []almanac.UserFilter
	page    almanac.Page // of any length
	form    form
}

// queryFor returns the query for a text that may be one of several things.
func queryFor(text string) userQuery {
	id, isID := parseID(text)
	q := userQuery{id: id, filters: []almanac.UserFilter{{ExternalID: text}}}
	switch {
	case isID:
	case strings.Contains(text, "@"):
		q.filters = append(q.filters, almanac.UserFilter{Email: text})
	default:
		q.filters = append(q.filters, almanac.UserFilter{Name: text})
	}
	return q
}

// last returns the filter that can select more than one page of users.
func (q *userQuery) last() almanac.UserFilter { return q.filters[len(q.filters)-1] }

// parse fills in what the flags of a list say. The error names everything that is wrong.
func (q *userQuery) parse(env *environment, l *listing, t *tables, errs ...error) error {
	q.page.After, q.form = almanac.Cursor(l.After), l.Form
	var errListing error
	q.page.Limit, errListing = l.parse(func(p almanac.Page) error {
		_, _, err := almanac.UserFilter{Name: q.last().Name}.Bounds(p)
		return err
	})
	return misused(append(errs, textError(q.last()), errListing, t.validate(env))...)
}

// textError returns what is wrong with the texts of a filter.
func textError(f almanac.UserFilter) error {
	if _, _, err := f.Bounds(almanac.Page{}); err != nil {
		return errors.New("<text>: is not text that can be stored")
	}
	return nil
}

// run lists users. If there are none, the advice says what to do.
func (q *userQuery) run(ctx context.Context, env *environment, t *tables, advice string) error {
	store, closing, err := t.open(ctx, env, 1)
	if err != nil {
		return err
	}
	defer closing()
	table := userList(env, q.form)
	found, err := table.writeAll(ctx, env, q.page, func(ctx context.Context, page almanac.Page) ([]almanac.User, almanac.Cursor, error) {
		found, err := q.find(ctx, store, page)
		return found.Items, found.Next, err
	})
	if err == nil && found == 0 {
		fmt.Fprintln(env.errs, env.renamed(advice))
	}
	return err
}

// find returns a page of the users. Later pages are those of the last filter.
func (q *userQuery) find(ctx context.Context, store *postgres.Store, page almanac.Page) (found almanac.List[almanac.User], err error) {
	if page.After != "" {
		return store.FindUsers(ctx, q.last(), page)
	}
	if q.id != uuid.Nil {
		u, err := store.User(ctx, q.id)
		if !errors.Is(err, almanac.ErrNotFound) {
			return almanac.List[almanac.User]{Items: []almanac.User{u}}, err
		}
	}
	for _, filter := range q.filters {
		if found, err = store.FindUsers(ctx, filter, page); err != nil || len(found.Items) > 0 {
			break
		}
	}
	return found, err
}

// userReport is what there is to say about a user, with the names of the HTTP API.
type userReport struct {
	userProfile
	Attributes json.RawMessage  `json:"attributes,omitempty"`
	OptOuts    []almanac.OptOut `json:"optOuts,omitempty"`
	Version    int              `json:"version"`
	CreatedAt  time.Time        `json:"createdAt"`
	UpdatedAt  time.Time        `json:"updatedAt"`
}

// userProfile has the texts of a profile.
type userProfile struct {
	ID          uuid.UUID `json:"id"`
	FirstName   string    `json:"firstName,omitempty"`
	LastName    string    `json:"lastName,omitempty"`
	DateOfBirth string    `json:"dateOfBirth,omitempty"`
	Calendar    string    `json:"calendar,omitempty"` // of the date of birth; empty for the Gregorian one
	userZone
	Locale     string `json:"locale,omitempty"`
	Email      string `json:"email,omitempty"`
	ExternalID string `json:"externalId,omitempty"`
}

// userZone is the time zone of a user, and where it comes from.
type userZone struct {
	Timezone   string             `json:"timezone"`
	ZoneSource almanac.ZoneSource `json:"zoneSource"`
}

func userReportOf(u almanac.User) userReport {
	return userReport{
		userProfile{u.ID, u.FirstName, u.LastName, u.DateOfBirth.String(), u.DateOfBirth.Calendar(), userZone{u.Timezone.String(), u.ZoneSource}, u.Locale, u.Email, u.ExternalID},
		u.Attributes, u.OptOuts, u.Version, u.CreatedAt, u.UpdatedAt,
	}
}

// bornText returns the date of birth, with the name of its calendar unless that is the Gregorian one.
func bornText(u almanac.User) string {
	if by := u.DateOfBirth.Calendar(); by != "" {
		return u.DateOfBirth.String() + " " + by
	}
	return u.DateOfBirth.String()
}

// userList returns a list of users as the output takes it.
func userList(env *environment, f form) list[almanac.User] {
	localTime := func(u almanac.User) string { return u.Timezone.WallTime(env.now).String() }
	optOuts := func(u almanac.User) string {
		if len(u.OptOuts) == 0 {
			return ""
		}
		return strconv.Itoa(len(u.OptOuts))
	}
	return list[almanac.User]{
		form: f, none: "no users",
		line: func(u almanac.User) any { return userReportOf(u) },
		columns: []column[almanac.User]{
			{"ID", func(u almanac.User) string { return u.ID.String() }, span{rank: 2, passed: true}, nil},
			{"NAME", almanac.User.Name, span{rank: 1, least: 20}, nil},
			{"DATE OF BIRTH", bornText, span{rank: 6}, nil},
			{"ZONE", func(u almanac.User) string { return u.Timezone.String() }, span{rank: 3, least: 16}, nil},
			{"ZONE SOURCE", func(u almanac.User) string { return string(u.ZoneSource) }, span{rank: 11}, nil},
			{"LOCAL TIME", localTime, span{rank: 7}, nil},
			{"E-MAIL", func(u almanac.User) string { return u.Email }, span{rank: 5, least: 16}, nil},
			{"EXTERNAL ID", func(u almanac.User) string { return u.ExternalID }, span{rank: 4, least: 16}, nil},
			{"LOCALE", func(u almanac.User) string { return u.Locale }, span{rank: 8}, nil},
			{"OPT-OUTS", optOuts, span{rank: 9}, nil},
			{"VERSION", func(u almanac.User) string { return strconv.Itoa(u.Version) }, span{rank: 10}, nil},
		},
		fields: []field[almanac.User]{
			{"id", func(u almanac.User) string { return u.ID.String() }},
			{"firstName", func(u almanac.User) string { return u.FirstName }},
			{"lastName", func(u almanac.User) string { return u.LastName }},
			{"dateOfBirth", func(u almanac.User) string { return u.DateOfBirth.String() }},
			{"calendar", func(u almanac.User) string { return u.DateOfBirth.Calendar() }},
			{"timezone", func(u almanac.User) string { return u.Timezone.String() }},
			{"locale", func(u almanac.User) string { return u.Locale }},
			{"email", func(u almanac.User) string { return u.Email }},
			{"externalId", func(u almanac.User) string { return u.ExternalID }},
			{"attributes", func(u almanac.User) string { return string(u.Attributes) }},
		},
	}
}
