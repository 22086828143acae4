package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// oneUser names a user.
type oneUser struct {
	User string `arg:"" help:"The user's id, external id or e-mail address."`
}

func (o *oneUser) validate() error {
	if o.User == "" {
		return errors.New("<user> is required")
	}
	return o.validateAs("<user>")
}

// validateAs returns what is wrong with the text, which an argument gave.
func (o *oneUser) validateAs(argument string) error {
	if _, _, err := (almanac.UserFilter{ExternalID: o.User}).Bounds(almanac.Page{}); err != nil {
		return errors.New(argument + ": is not text that can be stored")
	}
	return nil
}

// sameAddress is the most users with one e-mail address that a message lists.
const sameAddress = 10

// find returns the user. If several users have the e-mail address, the error lists their ids.
func (o *oneUser) find(ctx context.Context, store *postgres.Store) (almanac.User, error) {
	q := userQuery{filters: []almanac.UserFilter{{ExternalID: o.User}}}
	missing := error(&almanac.NotFoundError{Kind: "user", ExternalID: o.User})
	if id, isID := parseID(o.User); isID {
		q.id, missing = id, &almanac.NotFoundError{Kind: "user", ID: id}
	}
	if strings.Contains(o.User, "@") {
		q.filters = append(q.filters, almanac.UserFilter{Email: o.User})
		missing = fmt.Errorf("%w: no user with this external id or e-mail address", almanac.ErrNotFound)
	}
	found, err := q.find(ctx, store, almanac.Page{Limit: sameAddress})
	switch {
	case err != nil:
		return almanac.User{}, err
	case len(found.Items) == 0:
		return almanac.User{}, missing
	case len(found.Items) > 1:
		ids := mapped(found.Items, func(u almanac.User) string { return u.ID.String() })
		if found.Next != "" {
			ids = append(ids, "…")
		}
		return almanac.User{}, fmt.Errorf("several users have this e-mail address, so give an id: %s", strings.Join(ids, ", "))
	}
	return found.Items[0], nil
}

// use is [tables.use] for a command about the user.
func (o *oneUser) use(ctx context.Context, env *environment, t *tables, wrong error, do func(*postgres.Store, almanac.User) error) error {
	return t.use(ctx, env, errors.Join(o.validate(), wrong), func(store *postgres.Store) error {
		u, err := o.find(ctx, store)
		if err != nil {
			return err
		}
		return do(store, u)
	})
}

// atVersion returns an error if a user is not at the version that --if-version names. Zero names
// none. A change in between is refused by the library.
func atVersion(u almanac.User, only int) error {
	if only == 0 || only == u.Version {
		return nil
	}
	return fmt.Errorf("user %s is at version %d, not at %d", u.ID, u.Version, only)
}

// showUser shows a user.
type showUser struct {
	oneUser
	Limit string `help:"The most open and the most ended events to show (default ${default})." short:"n" placeholder:"N" default:"10"`
	JSON  bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// userDetails are all that there is to say about a user.
type userDetails struct {
	userReport
	LocalTime string          `json:"localTime"`
	Offset    string          `json:"offset"` // east of UTC
	Open      []eventReport   `json:"open"`   // PROCESSING, then PENDING, the next first
	MoreOpen  bool            `json:"moreOpen"`
	Ended     []eventReport   `json:"ended"` // the newest first
	MoreEnded bool            `json:"moreEnded"`
	Stalled   []stalledReport `json:"stalled"`
}

// Run shows the user.
func (c *showUser) Run(ctx context.Context, env *environment) error {
	limit, errLimit := number("--limit", c.Limit, 1, listPage)
	return c.oneUser.use(ctx, env, &c.Tables, errLimit, func(store *postgres.Store, u almanac.User) error {
		h, err := historyOf(ctx, store, u.ID, limit)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(env.out, h.details(env, u))
		}
		if err := writeUser(env, u); err != nil {
			return err
		}
		return h.write(env, u.ID)
	})
}

// history has the events of a user.
type history struct {
	open, ended         []almanac.Event
	moreOpen, moreEnded bool // there are more than were asked for
	stalled             []almanac.StalledSeries
}

// historyOf reads up to limit open events of a user, as many that have ended, and as many stalled series.
func historyOf(ctx context.Context, store *postgres.Store, user uuid.UUID, limit int) (history, error) {
	of := almanac.ForUser(user)
	running, err := store.Find(ctx, almanac.And{of, almanac.InStatus(almanac.Processing)}, almanac.Page{Limit: limit})
	if err != nil {
		return history{}, err
	}
	pending, err := store.Find(ctx, of, almanac.Page{Limit: limit, Order: almanac.NextFirst})
	if err != nil {
		return history{}, err
	}
	over := almanac.Or{almanac.InStatus(almanac.Completed), almanac.InStatus(almanac.Failed), almanac.InStatus(almanac.Cancelled)}
	ended, err := store.Find(ctx, almanac.And{of, over}, almanac.Page{Limit: limit, Order: almanac.NewestFirst})
	if err != nil {
		return history{}, err
	}
	stalled, err := store.Stalled(ctx, user, limit)
	if err != nil {
		return history{}, err
	}
	h := history{open: slices.Concat(running.Items, pending.Items), ended: ended.Items, moreEnded: ended.Next != "", stalled: stalled}
	h.moreOpen = running.Next != "" || pending.Next != "" || len(h.open) > limit
	h.open = h.open[:min(limit, len(h.open))]
	return h, nil
}

func (h history) details(env *environment, u almanac.User) userDetails {
	return userDetails{
		userReport: userReportOf(u), LocalTime: u.Timezone.WallTime(env.now).String(), Offset: offsetText(offsetAt(u.Timezone, env.now)),
		Open: mapped(h.open, eventReportOf), MoreOpen: h.moreOpen, Ended: mapped(h.ended, eventReportOf), MoreEnded: h.moreEnded,
		Stalled: mapped(h.stalled, stalledReportOf),
	}
}

// write writes the events as two tables.
func (h history) write(env *environment, user uuid.UUID) error {
	parts := []struct {
		title, more string
		view        eventView
		events      []almanac.Event
		isMore      bool
	}{
		{"open events", "almanac events list --upcoming --user ", eventView{oneUser: true, waiting: true}, h.open, h.moreOpen},
		{"ended events", "almanac events list --newest --user ", eventView{oneUser: true, reasons: true}, h.ended, h.moreEnded},
	}
	for _, p := range parts {
		if len(p.events) == 0 {
			p.title = "no " + p.title
		}
		if _, err := fmt.Fprintf(env.out, "\n%s\n", p.title); err != nil {
			return err
		}
		if len(p.events) == 0 {
			continue
		}
		p.view.byOther = slices.ContainsFunc(p.events, func(e almanac.Event) bool { return e.KeyUnit.System() != "" })
		if err := eventList(env, form{}, p.view).write(env, listedEvents(p.events), true); err != nil {
			return err
		}
		if p.isMore {
			fmt.Fprintf(env.errs, "there are more: %s%s\n", env.renamed(p.more), user)
		}
	}
	return writeStalled(env.out, h.stalled)
}

// writeUser writes a profile, a line for each field that the user has.
func writeUser(env *environment, u almanac.User) error {
	table := tabwriter.NewWriter(env.out, 0, 0, 2, ' ', 0)
	local := fmt.Sprintf("%s, offset %s", u.Timezone.WallTime(env.now), offsetText(offsetAt(u.Timezone, env.now)))
	fields := [][2]string{
		{"user", u.ID.String()}, {"first name", u.FirstName}, {"last name", u.LastName}, {"date of birth", bornText(u)},
		{"zone", fmt.Sprintf("%s, %s", u.Timezone, u.ZoneSource)}, {"local time", local}, {"locale", u.Locale}, {"e-mail", u.Email}, {"external id", u.ExternalID},
		{"attributes", attributesText(u)},
	}
	for i, o := range u.OptOuts {
		name := ""
		if i == 0 {
			name = "opted out of"
		}
		fields = append(fields, [2]string{name, optOutText(o) + optOutFacts(o)})
	}
	fields = append(fields, [2]string{"version", fmt.Sprintf("%d, created %s, updated %s", u.Version, instantText(u.CreatedAt), instantText(u.UpdatedAt))})
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", f[0], printable(f[1]))
		}
	}
	return table.Flush()
}

// attributesText returns the attributes of a user, or "" for none.
func attributesText(u almanac.User) string {
	if text := string(u.Attributes); text != "{}" {
		return text
	}
	return ""
}
