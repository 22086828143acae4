package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// profileFlags are the fields of a profile. A flag that is not given is nil.
type profileFlags struct {
	FirstName   *string `help:"The first name." placeholder:"TEXT"`
	LastName    *string `help:"The last name." placeholder:"TEXT"`
	DateOfBirth *string `help:"The date of birth: YYYY-MM-DD, or with --optional-profile --MM-DD." placeholder:"DATE"`
	Timezone    *string `help:"The IANA name of the time zone." placeholder:"ZONE"`
	Locale      *string `help:"The locale, such as pt-BR." placeholder:"TAG"`
	Email       *string `help:"The e-mail address." placeholder:"ADDRESS"`
	ExternalID  *string `help:"Your own id of the user, unique among users." name:"external-id" placeholder:"ID"`
	Attributes  *string `help:"All attributes, a JSON object." placeholder:"JSON"`
	Optional    bool    `help:"Require only the timezone. Names and the date of birth may be absent, and the date may lack its year." name:"optional-profile"`
}

// rules returns the options by which the profile is judged.
func (p *profileFlags) rules(env *environment) []almanac.Option {
	rules := slices.Clone(env.host.Options)
	if p.Optional {
		rules = append(rules, almanac.WithOptionalProfile())
	}
	return rules
}

// change returns the change of the given fields.
func (p *profileFlags) change() almanac.ProfileChange {
	c := almanac.ProfileChange{
		FirstName: p.FirstName, LastName: p.LastName, DateOfBirth: p.DateOfBirth, Timezone: p.Timezone,
		Locale: p.Locale, Email: p.Email, ExternalID: p.ExternalID,
	}
	if p.Attributes != nil {
		c.Attributes = json.RawMessage(*p.Attributes)
	}
	return c
}

// profile returns the profile of a new user. What is not given is empty.
func (p *profileFlags) profile(id uuid.UUID) almanac.Profile {
	text := func(given *string) string {
		if given == nil {
			return ""
		}
		return *given
	}
	profile := almanac.Profile{
		ID: id, FirstName: text(p.FirstName), LastName: text(p.LastName), DateOfBirth: text(p.DateOfBirth), Timezone: text(p.Timezone),
		Locale: text(p.Locale), Email: text(p.Email), ExternalID: text(p.ExternalID),
	}
	if p.Attributes != nil {
		profile.Attributes = json.RawMessage(*p.Attributes)
	}
	return profile
}

// flagErrors returns an error for each field that a validation refuses, by the name of its
// flag. It returns any other error as it is. Missing flags are required.
func (p *profileFlags) flagErrors(err error) error {
	invalid := (*almanac.ValidationError)(nil)
	if !errors.As(err, &invalid) {
		return err
	}
	missing := map[string]bool{
		"firstName": p.FirstName == nil, "lastName": p.LastName == nil, "dateOfBirth": p.DateOfBirth == nil, "timezone": p.Timezone == nil,
	}
	var errs []error
	for _, f := range invalid.Fields {
		if missing[f.Field] && f.Field == "timezone" {
			errs = append(errs, errors.New("--timezone is required"))
			continue
		}
		if missing[f.Field] {
			errs = append(errs, fmt.Errorf("%s is required without --optional-profile", flagOf(f.Field)))
			continue
		}
		errs = append(errs, fieldError(f))
	}
	return errors.Join(errs...)
}

// fieldError returns the error of a field. A part of the attributes is named after the flag. A
// field without a flag, of which a handler of a host complains, is not written as one.
func fieldError(f almanac.FieldError) error {
	field, part, isPart := strings.Cut(f.Field, ".")
	problem := f.Problem
	if isPart {
		problem = part + " " + problem
	}
	name := field
	if slices.Contains(profileFields, field) {
		name = flagOf(field)
	}
	if field == "merge" { // the library says it of the attributes
		problem = pluralVerb.ReplaceAllStringFunc(problem, func(verb string) string {
			return map[string]string{"are": "is", "contain": "contains"}[verb]
		})
	}
	return fmt.Errorf("%s: %s", name, problem)
}

var pluralVerb = regexp.MustCompile(`^(are|contain)\b`)

// profileFields are the fields of a profile, or of its change, that have flags.
var profileFields = []string{"id", "firstName", "lastName", "dateOfBirth", "timezone", "locale", "email", "externalId", "attributes", "merge"}

// flagOf returns the flag of a field: "--date-of-birth" for "dateOfBirth".
func flagOf(field string) string {
	var b strings.Builder
	b.WriteString("--")
	for _, r := range field {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// stored returns the error of a change of the database, for which flagErrors names the
// flags. What the profile is refused for depends on the stored user, too, and is a misuse
// nevertheless.
func stored(err error, flagErrors func(error) error) error {
	if errors.As(err, new(*almanac.ValidationError)) {
		return misused(flagErrors(err))
	}
	return err
}

// addUser stores a user.
type addUser struct {
	ID string `help:"The user's id, a UUID (default: a new one)." placeholder:"UUID"`

	Profile profileFlags `embed:""`
	JSON    bool         `help:"Write JSON." name:"json"`
	Tables  tables       `embed:""`
	Plans   plans        `embed:"" group:"Their events:"`
}

// Help is shown below the command's line.
func (c *addUser) Help() string {
	return `The user is stored with the first events, in one transaction. Give --id, so that the same command does not store a second user when it is run again.

    almanac users add --first-name Ada --last-name Lovelace --date-of-birth 1990-12-10 --timezone Europe/London --email ada@example.com
    almanac users add --optional-profile --timezone Asia/Tokyo --external-id member-17 --attributes '{"team": "red"}'

` + plansReady
}

// Run stores the user.
func (c *addUser) Run(ctx context.Context, env *environment) error {
	var id uuid.UUID
	var errID error
	if c.ID != "" {
		id, errID = idOf("--id", c.ID)
	}
	profile := c.Profile.profile(id)
	_, errProfile := almanac.NewUser(profile, env.now, c.Profile.rules(env)...)
	registry, errPlans := c.Plans.understand(env.host)
	if err := misused(errID, c.Profile.flagErrors(errProfile), c.Tables.understand(env), errPlans); err != nil {
		return err
	}
	store, closing, err := c.Tables.open(ctx, env, 1)
	if err != nil {
		return err
	}
	defer closing()
	scheduler, err := almanac.NewScheduler(store, registry, quietly(c.Profile.rules(env))...)
	if err != nil {
		return err
	}
	done, err := scheduler.CreateUser(ctx, profile)
	if err != nil {
		return stored(err, c.Profile.flagErrors)
	}
	report := addReport{userReportOf(done.User), []eventReport{}}
	for _, e := range done.Events {
		report.Events = append(report.Events, eventReportOf(e, false))
	}
	if c.JSON {
		return writeJSON(env.out, report)
	}
	if len(done.Events) > 0 {
		if err := eventList(env, form{}, eventView{oneUser: true}).write(env, listedEvents(done.Events), true); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(env.out, "stored user %s with %s\n", done.User.ID, counted(len(done.Events), "event"))
	return err
}

// addReport is what there is to say about a new user.
type addReport struct {
	User   userReport    `json:"user"`
	Events []eventReport `json:"events"`
}

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

// editsNone is what a command without handlers says of pending events, and editsOwn what a
// host's says instead.
const (
	editsNone = `This command has no handlers, so pending events keep their time and their text until a program that has the handlers calls Reschedule. If all your programs use the ready-made handlers, --birthday and --anniversary replan these events at once; give the same --at and policies as there.`
	editsOwn  = `Pending events are replanned by the handlers of this program, in the same transaction. Those of a type without a handler here keep their time and their text until a program that has the handler calls Reschedule.`
)

// Help is shown below the command's line.
func (c *editUser) Help() string {
	return `Only the fields whose flags are given change. An empty value removes the locale, the e-mail address or the external id, and with --optional-profile also a name or the date of birth. Opt-outs are changed by users opt-out and opt-in. ` + editsNone + `

    almanac users edit ada@example.com --timezone Asia/Tokyo
    almanac users edit 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --last-name King --if-version 3
    almanac users edit member-17 --email "" --merge '{"team": null}'`
}

// change returns what is to change. The error names every flag that is wrong.
func (c *editUser) change(env *environment) (almanac.ProfileChange, error) {
	change := c.Profile.change()
	if c.Merge != nil {
		change.Merge = json.RawMessage(*c.Merge)
	}
	given := c.Profile
	given.Optional = false
	if given == (profileFlags{}) && c.Merge == nil {
		return change, errors.New("nothing is to change: give at least one flag of the profile")
	}
	// The easternmost zone, so that no date of birth is refused that may be today.
	anyone, err := almanac.NewUser(almanac.Profile{Timezone: "Pacific/Kiritimati"}, env.now, almanac.WithOptionalProfile())
	if err == nil {
		_, err = anyone.Edit(change, env.now, c.Profile.rules(env)...)
	}
	var errVersion error
	change.Version, errVersion = number("--if-version", c.Only, 0, maxVersion)
	return change, errors.Join(c.flagErrors(err), errVersion)
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
	registry, errPlans := c.Plans.understand(env.host)
	if err := misused(c.oneUser.understand(), errChange, c.Tables.understand(env), errPlans); err != nil {
		return err
	}
	store, closing, err := c.Tables.open(ctx, env, 1)
	if err != nil {
		return err
	}
	defer closing()
	u, err := c.find(ctx, store)
	if err != nil {
		return err
	}
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
	if report.left, err = leftAlone(ctx, store, u.ID, registry); err != nil {
		return err
	}
	report.Left = len(report.left)
	if c.JSON {
		return writeJSON(env.out, report)
	}
	return report.write(env)
}

// editReport is what there is to say about a change of a user.
type editReport struct {
	User    userReport      `json:"user"`
	Events  []changedEvent  `json:"events"`
	Skipped []uuid.UUID     `json:"inFlight"`  // events that were claimed before, and stay
	Left    int             `json:"leftAlone"` // pending events of types without a handler here
	entries []listedEvent   // the events of Events
	left    []almanac.Event // those that Left counts
}

// changedEvent is an event, and what the change of its user did to it.
type changedEvent struct {
	Change string `json:"change"` // MOVED, REFRESHED, ADDED, REMOVED, CANCELLED
	eventReport
}

func editReportOf(done almanac.UpdateUserResult) editReport {
	r := editReport{User: userReportOf(done.User), Events: []changedEvent{}, Skipped: append([]uuid.UUID{}, done.Skipped...)}
	for _, part := range []struct {
		change string
		events []almanac.Event
	}{{"MOVED", done.Moved}, {"REFRESHED", done.Refreshed}, {"ADDED", done.Added}, {"REMOVED", done.Removed}, {"CANCELLED", done.Cancelled}} {
		for _, e := range part.events {
			r.Events = append(r.Events, changedEvent{part.change, eventReportOf(e, false)})
			r.entries = append(r.entries, listedEvent{Event: e, change: part.change})
		}
	}
	return r
}

// leftAlone returns pending events of a user that nothing here has a handler of.
func leftAlone(ctx context.Context, store *postgres.Store, user uuid.UUID, registry almanac.Registry) ([]almanac.Event, error) {
	pending, err := store.Find(ctx, almanac.ForUser(user), almanac.Page{Limit: listPage, Order: almanac.NextFirst})
	return slices.DeleteFunc(pending.Events, func(e almanac.Event) bool {
		return slices.Contains(registry.EventTypes(), e.Type)
	}), err
}

// write writes which events changed, and what did not to standard error.
func (r editReport) write(env *environment) error {
	text := fmt.Sprintf("changed user %s, now version %d, with %s\n", r.User.ID, r.User.Version, counted(len(r.Events), "changed event"))
	if len(r.entries) > 0 {
		if err := eventList(env, form{}, eventView{oneUser: true, changes: true}).write(env, r.entries, true); err != nil {
			return err
		}
	}
	for _, id := range r.Skipped {
		fmt.Fprintf(env.errs, "event %s was claimed or requeued before, and stays as it is\n", id)
	}
	if len(r.left) > 0 {
		types := make([]string, len(r.left))
		for i, e := range r.left {
			types[i] = printable(e.Type)
		}
		slices.Sort(types)
		fmt.Fprintf(env.errs, "%s kept as before, because this command has no handler of %s: a program that has it replans them by Reschedule\n",
			counted(len(r.left), "pending event"), strings.Join(slices.Compact(types), ", "))
	}
	return writeText(env, text)
}
