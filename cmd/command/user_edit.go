package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// editUser changes a user.
type editUser struct {
	oneUser
	Profile profileFlags `embed:""`
	Merge   *string      `help:"Change some attributes: a JSON object (RFC 7396), in which null removes an attribute." placeholder:"JSON"`
	Only    string       `help:"Change the user only if the stored version is this one." name:"if-version" placeholder:"N" default:"0"`
	JSON    bool         `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
	Plans  plans  `embed:"" group:"Their events:"`
}

// change returns what is to change. The error names every flag that is wrong.
func (c *editUser) change(env *environment) (almanac.ProfileChange, error) {
	change := c.Profile.change()
	if c.Merge != nil {
		change.Merge = json.RawMessage(*c.Merge)
	}
	given := c.Profile
	given.leniency = leniency{}
	if given == (profileFlags{}) && c.Merge == nil {
		return change, errors.New("nothing is to change: give at least one flag of the profile")
	}
	// The easternmost zone, so that no date of birth is refused that may be today.
	anyone, err := almanac.NewUser(almanac.Profile{Timezone: "Pacific/Kiritimati"}, env.now, almanac.WithOptionalProfile())
	if err == nil {
		checked := change
		if c.Profile.Timezone != nil && *c.Profile.Timezone == "" {
			checked.Timezone = nil // whether a zone can be guessed depends on the stored user
		}
		if checked.DateOfBirth == nil {
			checked.Calendar = nil // whether it needs a date depends on the stored user
		}
		_, err = anyone.Edit(checked, env.now, c.Profile.rules(env)...)
	}
	var errVersion error
	change.Version, errVersion = number("--if-version", c.Only, 0, maxVersion)
	return change, errors.Join(c.Profile.validate(), c.flagErrors(err), errVersion)
}

// flagErrors is that of the profile, except that a problem of attributes is named after the
// flag that gave them.
func (c *editUser) flagErrors(err error) error {
	invalid := (*almanac.ValidationError)(nil)
	if !errors.As(err, &invalid) {
		return c.Profile.flagErrors(err)
	}
	named := almanac.ValidationError{Fields: slices.Clone(invalid.Fields)}
	for i, f := range named.Fields {
		part, isPart := strings.CutPrefix(f.Field, "attributes.")
		switch {
		case isPart && c.merges(part):
			named.Fields[i].Field = "merge." + part
		case f.Field == "attributes" && c.Merge != nil && c.Profile.Attributes == nil:
			named.Fields[i].Field, named.Fields[i].Problem = "merge", "attributes "+f.Problem
		}
	}
	return c.Profile.flagErrors(&named)
}

// merges reports whether --merge is to blame for an attribute: it names the attribute, or
// all attributes are as they were stored before the merge.
func (c *editUser) merges(attribute string) bool {
	if c.Merge == nil {
		return false
	}
	merged := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(*c.Merge), &merged) // what is no object is refused before
	return merged[attribute] != nil || c.Profile.Attributes == nil
}

// maxVersion is the greatest version that a user can have.
const maxVersion = 1<<31 - 1

// Run changes the user.
func (c *editUser) Run(ctx context.Context, env *environment) error {
	change, errChange := c.change(env)
	registry, errPlans := c.Plans.parse(env.host)
	return c.oneUser.use(ctx, env, &c.Tables, errors.Join(errChange, errPlans), func(store *postgres.Store, u almanac.User) error {
		if err := atVersion(u, change.Version); err != nil {
			return err
		}
		scheduler, err := almanac.NewScheduler(store, registry, quietly(c.Profile.rules(env))...)
		if err != nil {
			return err
		}
		done, err := scheduler.UpdateUser(ctx, u.ID, change)
		if err != nil {
			return stored(err, c.flagErrors)
		}
		report := editReportOf(done)
		if err := report.leave(ctx, store, registry); err != nil {
			return err
		}
		text := fmt.Sprintf("changed user %s, now version %d, with %s\n", done.User.ID, done.User.Version, counted(len(report.Events), "changed event"))
		return env.report(c.JSON, report, func() error { return report.write(env, text) })
	})
}

// editReport is what there is to say about a change of a user.
type editReport struct {
	User    userReport         `json:"user"`
	Events  []changedEvent     `json:"events"`
	Skipped []uuid.UUID        `json:"inFlight"`  // events that were claimed before, and stay
	Left    int                `json:"leftAlone"` // pending events of types without a handler here
	LeftOut []missedOccurrence `json:"leftOut"`   // occurrences that are not delivered, because they count as used
	entries []listedEvent      // the events of Events
	left    []almanac.Event    // those that Left counts
}

// changedEvent is an event, and what the change of its user did to it.
type changedEvent struct {
	Change string `json:"change"` // MOVED, REFRESHED, ADDED, REMOVED, CANCELLED
	eventReport
}

// missedOccurrence is an occurrence that is not delivered.
type missedOccurrence struct {
	Type string `json:"type"`
	previewedOccurrence
}

// missedOf returns the occurrences that a change of a user leaves out, in the order of their series.
func missedOf(done almanac.UpdateUserResult) []missedOccurrence {
	all := make([]missedOccurrence, 0, len(done.LeftOut)) // [] rather than null
	for one, o := range done.LeftOut {
		all = append(all, missedOccurrence{one.Type, previewedOf(o)})
	}
	slices.SortFunc(all, func(a, b missedOccurrence) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Series, b.Series))
	})
	return all
}

func editReportOf(done almanac.UpdateUserResult) editReport {
	r := editReport{User: userReportOf(done.User), Events: []changedEvent{}, Skipped: append([]uuid.UUID{}, done.Skipped...), LeftOut: missedOf(done)}
	for _, part := range []struct {
		change string
		events []almanac.Event
	}{{"MOVED", done.Moved}, {"REFRESHED", done.Refreshed}, {"ADDED", done.Added}, {"REMOVED", done.Removed}, {"CANCELLED", done.Cancelled}} {
		for _, e := range part.events {
			r.Events = append(r.Events, changedEvent{part.change, eventReportOf(e)})
			r.entries = append(r.entries, listedEvent{Event: e, change: part.change})
		}
	}
	return r
}

// leave adds what the change of the user left alone.
func (r *editReport) leave(ctx context.Context, store *postgres.Store, registry almanac.Registry) (err error) {
	r.left, err = leftAlone(ctx, store, r.User.ID, registry)
	r.Left = len(r.left)
	return err
}

// leftAlone returns pending events of a user that nothing here has a handler of.
func leftAlone(ctx context.Context, store *postgres.Store, user uuid.UUID, registry almanac.Registry) ([]almanac.Event, error) {
	pending, err := store.Find(ctx, almanac.ForUser(user), almanac.Page{Limit: listPage, Order: almanac.NextFirst})
	return slices.DeleteFunc(pending.Items, func(e almanac.Event) bool {
		return slices.Contains(registry.EventTypes(), e.Type)
	}), err
}

// write writes which events changed, and a line about them. What did not change goes to standard error.
func (r editReport) write(env *environment, text string) error {
	if len(r.entries) > 0 {
		if err := eventList(env, form{}, eventView{oneUser: true, changes: true}).write(env, r.entries, true); err != nil {
			return err
		}
	}
	for _, id := range r.Skipped {
		fmt.Fprintf(env.errs, "event %s was claimed or requeued before, and stays as it is\n", id)
	}
	for _, o := range r.LeftOut {
		fmt.Fprintln(env.errs, printable(leftOutText(o.Type, o.previewedOccurrence)))
	}
	if len(r.left) > 0 {
		fmt.Fprintf(env.errs, "%s kept as before, because this command has no handler of %s: a program that has it replans them by Reschedule\n",
			counted(len(r.left), "pending event"), typesOf(r.left))
	}
	return writeText(env, text)
}

// typesOf lists the types of events, each once.
func typesOf(events []almanac.Event) string {
	types := mapped(events, func(e almanac.Event) string { return printable(e.Type) })
	slices.Sort(types)
	return strings.Join(slices.Compact(types), ", ")
}

// rescheduleUser replans the events of a user.
type rescheduleUser struct {
	oneUser
	JSON bool `help:"Write JSON." name:"json"`

	Tables   tables    `embed:""`
	Handlers readyMade `embed:"" group:"Their events:"`
}

// Run replans.
func (c *rescheduleUser) Run(ctx context.Context, env *environment) error {
	registry, errHandlers := c.Handlers.parse(env.host)
	if errHandlers == nil && env.host.Registry == nil && len(registry.EventTypes()) == 0 {
		errHandlers = errors.New("--birthday or --anniversary is required: this command has no other handlers")
	}
	return c.oneUser.use(ctx, env, &c.Tables, errHandlers, func(store *postgres.Store, u almanac.User) error {
		scheduler, err := almanac.NewScheduler(store, registry, quietly(env.host.Options)...)
		if err != nil {
			return err
		}
		done, err := scheduler.Reschedule(ctx, u.ID)
		if err != nil {
			return err
		}
		report := editReportOf(done)
		if err := report.leave(ctx, store, registry); err != nil {
			return err
		}
		text := fmt.Sprintf("replanned user %s: %s moved, %d refreshed, %d added, %d removed, %d cancelled\n", u.ID,
			counted(len(done.Moved), "event"), len(done.Refreshed), len(done.Added), len(done.Removed), len(done.Cancelled))
		return env.report(c.JSON, report, func() error { return report.write(env, text) })
	})
}
