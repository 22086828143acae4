package command

import (
	"errors"
	"fmt"
	"slices"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// users looks after users.
type users struct {
	List   listUsers   `cmd:"" help:"List users."`
	Find   findUsers   `cmd:"" help:"Find users by name, e-mail address or id."`
	Show   showUser    `cmd:"" help:"Show everything about a user."`
	Add    addUser     `cmd:"" help:"Store a user, with the first events." set:"birthdays=true"`
	Edit   editUser    `cmd:"" help:"Change a user, and replan the pending events." set:"birthdays=false"`
	Delete deleteUser  `cmd:"" help:"Delete a user with all events."`
	Import importUsers `cmd:"" help:"Store the users of a file, with their first events." set:"birthdays=true"`
	OptOut optOutUser  `cmd:"" help:"Store that a user refuses events."`
	OptIn  optInUser   `cmd:"" help:"Remove an opt-out of a user."`

	Preview    previewUser    `cmd:"" help:"Show the next occurrences of a type for a user." set:"birthdays=true"`
	Reschedule rescheduleUser `cmd:"" help:"Replan the pending events of a user." set:"birthdays=false"`
}

// readyMade are the handlers that the library has ready-made. There are no such flags where
// the host has handlers.
type readyMade struct {
	Birthday    bool   `help:"Plan birthdays (BIRTHDAY)." negatable:"" default:"${birthdays}"`
	Anniversary string `help:"Plan anniversaries (ANNIVERSARY), too: of the date in this attribute." placeholder:"ATTRIBUTE"`
	At          string `help:"The time of day, where they live (default 09:00)." placeholder:"HH:MM[:SS]"`
	Gap         string `help:"A time that clocks skip: ${gap} (default ${default})." placeholder:"POLICY" default:"forward"`
	Fold        string `help:"A time that clocks show twice: ${fold} (default ${default})." placeholder:"POLICY" default:"first"`
	LeapDay     string `help:"A 29 February: ${leap_day} (default ${default})." placeholder:"POLICY" default:"feb28"`
}

// plannedBy are the subcommands that plan by these handlers.
var plannedBy = []string{"users import", "users add", "users edit", "users preview", "users reschedule", "why", "backfill", "roll-out", "rehearse"}

// parse returns the host's handlers, or these.
func (r *readyMade) parse(host Host) (almanac.Registry, error) {
	if host.Registry != nil {
		return host.Registry, nil
	}
	at, errAt := calendar.Clock{Hour: 9}, error(nil)
	if r.At != "" {
		at, errAt = calendar.ParseClock(r.At)
	}
	asked := policies{Gap: r.Gap, Fold: r.Fold, LeapDay: r.LeapDay, MonthEnd: string(calendar.Policies{}.WithDefaults().MonthEnd)}
	answers, errPolicies := asked.parse()
	if err := errors.Join(about("--at", errAt), errPolicies); err != nil {
		return nil, err
	}
	clock := func(almanac.User) calendar.Clock { return at }
	var handlers []almanac.EventHandler
	if r.Birthday {
		handlers = append(handlers, almanac.Birthday{At: clock, Policies: answers})
	}
	if r.Anniversary != "" {
		handlers = append(handlers, almanac.Anniversary{Attribute: r.Anniversary, At: clock, Policies: answers})
	}
	return almanac.NewRegistry(handlers...)
}

// handles returns the handlers, or an error if none of them is of a type.
func (r *readyMade) handles(host Host, eventType string) (almanac.Registry, error) {
	registry, err := r.parse(host)
	if err != nil || slices.Contains(registry.EventTypes(), eventType) {
		return registry, err
	}
	text := fmt.Sprintf("<type>: this command has no handler of %q", eventType)
	switch {
	case host.Registry != nil:
		text += "; " + typesText(registry.EventTypes(), eventType)
	case eventType == almanac.TypeBirthday:
		text += " without --birthday"
	case eventType == almanac.TypeAnniversary:
		text += " without --anniversary"
	default:
		text += ", only the ready-made ones of BIRTHDAY and ANNIVERSARY; a command of your own has your handlers"
	}
	return nil, errors.New(text)
}

// plans say which events users get.
type plans struct {
	readyMade
	NoEvents bool `help:"Plan no events. The program that has the handlers plans them, by Backfill or Reschedule."`
}

// parse returns the handlers.
func (p *plans) parse(host Host) (almanac.Registry, error) {
	registry, err := p.readyMade.parse(host)
	if !p.NoEvents {
		return registry, err
	}
	var errEvents error
	if host.Registry == nil {
		errEvents = errors.Join(p.without("--at", p.At), p.without("--anniversary", p.Anniversary))
	}
	if err := errors.Join(errEvents, err); err != nil {
		return nil, err
	}
	return almanac.NewRegistry()
}

func (p *plans) without(flag, given string) error {
	if given == "" {
		return nil
	}
	return errors.New(flag + ": does not go with --no-events")
}
