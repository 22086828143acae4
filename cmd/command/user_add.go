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
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// profileFlags are the fields of a profile. A flag that is not given is nil.
type profileFlags struct {
	FirstName   *string `help:"The first name." placeholder:"TEXT"`
	LastName    *string `help:"The last name." placeholder:"TEXT"`
	DateOfBirth *string `help:"The date of birth: YYYY-MM-DD, or with --optional-profile --MM-DD." placeholder:"DATE"`
	Calendar    *string `help:"The calendar of the date of birth, such as hebrew; an L marks a leap month: 5774-05L-08." placeholder:"CALENDAR"`
	Timezone    *string `help:"The IANA name of the time zone." placeholder:"ZONE"`
	Locale      *string `help:"The locale, such as pt-BR." placeholder:"TAG"`
	Email       *string `help:"The e-mail address." placeholder:"ADDRESS"`
	ExternalID  *string `help:"Your own id of the user, unique among users." name:"external-id" placeholder:"ID"`
	Attributes  *string `help:"All attributes, a JSON object." placeholder:"JSON"`
	leniency    `embed:""`
}

// leniency says what a profile may lack.
type leniency struct {
	Optional    bool   `help:"Require only the timezone. Names and dates of birth may be absent, and a date may lack its year (--MM-DD)." name:"optional-profile"`
	DefaultZone string `help:"The zone of a user without a timezone, by its IANA name. It is marked as the default, until a better one is known." placeholder:"ZONE"`
}

// rules returns the options by which profiles are judged, those of the host first.
func (l leniency) rules(env *environment) []almanac.Option {
	rules := slices.Clone(env.host.Options)
	if l.DefaultZone != "" {
		rules = append(rules, almanac.WithZoneGuess(l.DefaultZone, nil))
	}
	if l.Optional {
		rules = append(rules, almanac.WithOptionalProfile())
	}
	return rules
}

// validate returns an error if the default zone is no zone.
func (l leniency) validate() error {
	if l.DefaultZone == "" {
		return nil
	}
	_, err := calendar.LoadTimezone(l.DefaultZone)
	return about("--default-zone", err)
}

// change returns the change of the given fields.
func (p *profileFlags) change() almanac.ProfileChange {
	c := almanac.ProfileChange{
		FirstName: p.FirstName, LastName: p.LastName, DateOfBirth: p.DateOfBirth, Calendar: p.Calendar, Timezone: p.Timezone,
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
		ID: id, FirstName: text(p.FirstName), LastName: text(p.LastName), DateOfBirth: text(p.DateOfBirth), Calendar: text(p.Calendar), Timezone: text(p.Timezone),
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
		"firstName": p.FirstName == nil, "lastName": p.LastName == nil, "dateOfBirth": p.DateOfBirth == nil && p.Calendar == nil, "timezone": p.Timezone == nil,
	}
	var errs []error
	for _, f := range invalid.Fields {
		switch {
		case missing[f.Field] && f.Field == "timezone" && strings.HasPrefix(f.Problem, "is empty"):
			errs = append(errs, errors.New("--timezone is required without --default-zone"))
		case missing[f.Field] && f.Field != "timezone":
			errs = append(errs, fmt.Errorf("%s is required without --optional-profile", flagOf(f.Field)))
		default: // This includes a guessed zone that is not known.
			errs = append(errs, fieldError(f))
		}
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
var profileFields = []string{"id", "firstName", "lastName", "dateOfBirth", "calendar", "timezone", "locale", "email", "externalId", "attributes", "merge"}

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

// stored returns the error of a change of the database, for which flagErrors names the flags. A
// refused profile is a misuse, even if it is refused because of what is stored of the user.
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

// Run stores the user.
func (c *addUser) Run(ctx context.Context, env *environment) error {
	var id uuid.UUID
	var errID error
	if c.ID != "" {
		id, errID = idOf("--id", c.ID)
	}
	profile := c.Profile.profile(id)
	_, errProfile := almanac.NewUser(profile, env.now, c.Profile.rules(env)...)
	registry, errPlans := c.Plans.parse(env.host)
	return c.Tables.use(ctx, env, errors.Join(errID, c.Profile.validate(), c.Profile.flagErrors(errProfile), errPlans), func(store *postgres.Store) error {
		scheduler, err := almanac.NewScheduler(store, registry, quietly(c.Profile.rules(env))...)
		if err != nil {
			return err
		}
		done, err := scheduler.CreateUser(ctx, profile)
		if err != nil {
			return stored(err, c.Profile.flagErrors)
		}
		report := addReport{userReportOf(done.User), mapped(done.Events, eventReportOf)}
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
	})
}

// addReport is what there is to say about a new user.
type addReport struct {
	User   userReport    `json:"user"`
	Events []eventReport `json:"events"`
}
