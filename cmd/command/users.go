package command

import (
	"errors"

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
}

// plans say which events users get. All but NoEvents are about what the library has
// ready-made, and there are no such flags where the host has handlers.
type plans struct {
	Birthday    bool   `help:"Plan birthdays (BIRTHDAY)." negatable:"" default:"${birthdays}"`
	Anniversary string `help:"Plan anniversaries (ANNIVERSARY), too: of the date in this attribute." placeholder:"ATTRIBUTE"`
	At          string `help:"The time of day, where they live (default 09:00)." placeholder:"HH:MM[:SS]"`
	Gap         string `help:"A time that clocks skip: ${gap} (default ${default})." placeholder:"POLICY" default:"forward"`
	Fold        string `help:"A time that clocks show twice: ${fold} (default ${default})." placeholder:"POLICY" default:"first"`
	LeapDay     string `help:"A 29 February: ${leap_day} (default ${default})." placeholder:"POLICY" default:"feb28"`
	NoEvents    bool   `help:"Plan no events. The program that has the handlers plans them, by Backfill or Reschedule."`
}

// understand returns the handlers.
func (p *plans) understand(host Host) (almanac.Registry, error) {
	switch {
	case host.Registry != nil && p.NoEvents:
		return almanac.NewRegistry()
	case host.Registry != nil:
		return host.Registry, nil
	}
	at, errAt := calendar.Clock{Hour: 9}, error(nil)
	if p.At != "" {
		at, errAt = calendar.ParseClock(p.At)
	}
	asked := policies{Gap: p.Gap, Fold: p.Fold, LeapDay: p.LeapDay, MonthEnd: string(calendar.Policies{}.WithDefaults().MonthEnd)}
	answers, errPolicies := asked.understand()
	var errEvents []error
	if p.NoEvents {
		errEvents = append(errEvents, p.without("--at", p.At), p.without("--anniversary", p.Anniversary))
	}
	if err := errors.Join(append(errEvents, about("--at", errAt), errPolicies)...); err != nil {
		return nil, err
	}
	clock := func(almanac.User) calendar.Clock { return at }
	var handlers []almanac.EventHandler
	if p.Birthday && !p.NoEvents {
		handlers = append(handlers, almanac.Birthday{At: clock, Policies: answers})
	}
	if p.Anniversary != "" {
		handlers = append(handlers, almanac.Anniversary{Attribute: p.Anniversary, At: clock, Policies: answers})
	}
	return almanac.NewRegistry(handlers...)
}

func (p *plans) without(flag, given string) error {
	if given == "" {
		return nil
	}
	return errors.New(flag + ": does not go with --no-events")
}
