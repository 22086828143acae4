package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// events looks at events, and changes single ones.
type events struct {
	List    listEvents    `cmd:"" help:"List events: the next, the newest, failed ones, or by filters."`
	Show    showEvent     `cmd:"" help:"Show everything about an event."`
	Cancel  cancelEvents  `cmd:"" help:"End pending events before they are delivered."`
	RunNow  runEvents     `cmd:"" help:"Make pending events due at once."`
	Requeue requeueEvents `cmd:"" help:"Deliver failed events once more."`
}

// listEvents lists the events that match all of its filters.
type listEvents struct {
	Status string `help:"Only events in this status: ${status}." placeholder:"STATUS"`
	Names  bool   `help:"Also list the names of the users."`

	Order   ordering `embed:""`
	Listing listing  `embed:""`
	Filters filters  `embed:""`
	Waiting waiting  `embed:""`
	Tables  tables   `embed:""`
}

// ordering says in which order events are listed. Without a flag it is that of their creation.
type ordering struct {
	Upcoming bool   `help:"Only pending events, the next one first."`
	Newest   bool   `help:"The newest event first."`
	Failed   bool   `help:"Only failed events, the newest first."`
	Reason   string `help:"Only events that failed or were cancelled for a reason that begins with this text, in the same case, the newest first." placeholder:"TEXT"`
}

// parse returns the order, the events to list, and what does not go together.
func (o *ordering) parse(status, overdue string) (order almanac.Order, spec almanac.And, err error) {
	var errs []error
	clash := func(flag string, others map[string]bool) {
		for _, other := range slices.Sorted(maps.Keys(others)) {
			if others[other] {
				errs = append(errs, fmt.Errorf("%s: does not go with %s", flag, other))
			}
		}
	}
	if o.Failed {
		clash("--failed", map[string]bool{"--status": status != "", "--overdue": overdue != ""})
		spec = append(spec, almanac.InStatus(almanac.Failed))
	}
	if o.Reason != "" {
		clash("--reason", map[string]bool{"--overdue": overdue != ""})
		spec = append(spec, almanac.ForReason(o.Reason))
	}
	switch {
	case o.Upcoming:
		clash("--upcoming", map[string]bool{"--status": status != "", "--newest": o.Newest, "--failed": o.Failed, "--reason": o.Reason != ""})
		order = almanac.NextFirst
	case o.Newest, o.Failed, o.Reason != "":
		order = almanac.NewestFirst
	}
	return order, spec, errors.Join(errs...)
}

// eventQuery is what the arguments of a list ask for.
type eventQuery struct {
	spec almanac.And
	page almanac.Page // of any length
}

func (c *listEvents) parse(env *environment) (eventQuery, error) {
	var q eventQuery
	var errs []error
	if c.Status != "" {
		errs = append(errs, oneOfBy(func(known string) bool { return strings.EqualFold(known, c.Status) }, "--status", c.Status))
		q.spec = append(q.spec, almanac.InStatus(strings.ToUpper(c.Status)))
	}
	order, ordered, errOrder := c.Order.parse(c.Status, c.Waiting.Overdue)
	picked, errFilters := c.Filters.parse()
	waiting, errWaiting := c.Waiting.parse()
	q.spec = slices.Concat(q.spec, ordered, picked, waiting)
	q.page = almanac.Page{Order: order, After: almanac.Cursor(c.Listing.After)}
	var errListing error
	q.page.Limit, errListing = c.Listing.parse(func(p almanac.Page) error {
		p.Order = order
		_, _, _, err := p.EventBounds()
		return err
	})
	return q, misused(append(errs, errOrder, errFilters, errWaiting, errListing, c.Tables.validate(env))...)
}

// Run lists events.
func (c *listEvents) Run(ctx context.Context, env *environment) error {
	q, err := c.parse(env)
	if err != nil {
		return err
	}
	pool, store, err := c.Tables.opened(ctx, env, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	user, err := c.Filters.ofUser(ctx, store)
	if err != nil {
		return err
	}
	q.spec = append(q.spec, user...)
	names := userNames{store, map[uuid.UUID]string{}}
	failures := c.Order.Failed || c.Order.Reason != ""
	table := eventList(env, c.Listing.Form, eventView{
		names: c.Names, reasons: failures, requeues: failures, waiting: c.Order.Upcoming || c.Waiting.Overdue != "",
	})
	found, err := table.writeAll(ctx, env, q.page, func(ctx context.Context, page almanac.Page) ([]listedEvent, almanac.Cursor, error) {
		found, err := store.Find(ctx, q.spec, page)
		entries := listedEvents(found.Items)
		if err == nil && c.Names {
			err = names.fill(ctx, entries)
		}
		if err == nil && failures {
			err = markRequeued(ctx, store, entries)
		}
		return entries, found.Next, err
	})
	if err == nil && found == 0 && c.Filters.Type != "" {
		err = c.Tables.checkType(ctx, env, c.Filters.Type)
	}
	if err == nil && found == 0 && c.Order.Reason != "" {
		fmt.Fprintln(env.errs, "reasons are compared from their beginning, in the same case")
	}
	return err
}

func instantText(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// showEvent shows an event.
type showEvent struct {
	ID      string `arg:"" help:"The event's id."`
	Payload bool   `help:"Also show the payload, which can hold personal data."`
	JSON    bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// Run shows the event.
func (c *showEvent) Run(ctx context.Context, env *environment) error {
	id, errID := idOf("<id>", c.ID)
	if c.ID == "" {
		errID = errors.New("<id> is required")
	}
	return c.Tables.use(ctx, env, errID, func(store *postgres.Store) error {
		e, err := store.Event(ctx, id)
		if err != nil {
			return err
		}
		report := eventReportOf(e)
		if c.Payload {
			report.Payload = e.Payload
		}
		if report.Trail, err = trailOf(ctx, store, id); err != nil {
			return err
		}
		wait, err := store.LaneWait(ctx, e)
		if err != nil {
			return err
		}
		report.eventLane = laneWaitOf(e, wait)
		return env.report(c.JSON, report, func() error { return report.write(env.out) })
	})
}

// filters pick events.
type filters struct {
	Type     string `help:"Only events of this type, such as BIRTHDAY." placeholder:"TYPE"`
	User     string `help:"Only events of this user: an id, an external id or an e-mail address." placeholder:"USER"`
	DueFrom  string `help:"Only events due at this instant or later: RFC 3339, or a date, which means its midnight in UTC." placeholder:"INSTANT"`
	DueUntil string `help:"Only events due before this instant." placeholder:"INSTANT"`
}

// parse returns the specification without the user, who is looked up by ofUser.
func (f *filters) parse() (almanac.And, error) {
	spec, err := ops.FilterText{Type: f.Type, From: f.DueFrom, Until: f.DueUntil, Days: "UTC"}.Parse()
	var errs []error
	if f.User != "" {
		errs = append(errs, (&oneUser{f.User}).validateAs("--user"))
	}
	if invalid, ok := errors.AsType[*almanac.ValidationError](err); ok {
		given := map[string][2]string{"type": {"--type", f.Type}, "from": {"--due-from", f.DueFrom}, "until": {"--due-until", f.DueUntil}}
		for _, wrong := range invalid.Fields {
			is := given[wrong.Field]
			errs = append(errs, fmt.Errorf("%s: %q %s", is[0], is[1], strings.Replace(wrong.Problem, "after from", "after --due-from", 1)))
		}
	}
	return spec, errors.Join(errs...)
}

// ofUser returns the specification of the user, if one is given. An id need not be that of a
// user who exists.
func (f *filters) ofUser(ctx context.Context, store *postgres.Store) (almanac.And, error) {
	if f.User == "" {
		return nil, nil
	}
	u, err := (&oneUser{f.User}).find(ctx, store)
	if id, isID := parseID(f.User); isID && errors.Is(err, almanac.ErrNotFound) {
		return almanac.And{almanac.ForUser(id)}, nil
	}
	if err != nil {
		return nil, err
	}
	return almanac.And{almanac.ForUser(u.ID)}, nil
}

// waiting picks among events that are pending.
type waiting struct {
	Overdue string `help:"Only pending events whose instant passed longer ago than this; 0s for all overdue events." placeholder:"DURATION"`
}

func (w *waiting) parse() (almanac.And, error) {
	if w.Overdue == "" {
		return nil, nil
	}
	by, err := time.ParseDuration(w.Overdue)
	if err != nil || by < 0 {
		return nil, fmt.Errorf("--overdue: %q is not a duration such as 90s or 5m", w.Overdue)
	}
	return almanac.And{almanac.Overdue{By: by}}, nil
}

// idOf reads the id of a user or an event.
func idOf(argument, text string) (uuid.UUID, error) {
	id, ok := parseID(text)
	if !ok {
		return id, fmt.Errorf("%s: %q is not a UUID", argument, text)
	}
	return id, nil
}
