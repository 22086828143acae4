package main

import (
	"errors"

	"github.com/almanac-go/almanac"
)

// users looks after people.
type users struct {
	Import importUsers `cmd:"" help:"Store the people of a file, with what they are owed."`
}

// plans say what people are owed, of what the library has ready-made: this program
// knows no handler of a host's.
type plans struct {
	Birthday    bool   `help:"Plan birthdays (BIRTHDAY)." negatable:"" default:"true"`
	Anniversary string `help:"Plan anniversaries (ANNIVERSARY), too: of the date in this attribute." placeholder:"ATTRIBUTE"`
	At          string `help:"The time of day, where they live (default 09:00)." placeholder:"HH:MM[:SS]"`
	Gap         string `help:"A time that clocks skip: ${gap} (default ${default})." placeholder:"POLICY" default:"forward"`
	Fold        string `help:"A time that clocks show twice: ${fold} (default ${default})." placeholder:"POLICY" default:"first"`
	LeapDay     string `help:"A 29 February: ${leap_day} (default ${default})." placeholder:"POLICY" default:"feb28"`
	NoEvents    bool   `help:"Store people only. Their events come when the program that has the handlers calls Backfill."`
}

// understand returns the handlers.
func (p *plans) understand() (almanac.Registry, error) {
	at, errAt := almanac.Clock{Hour: 9}, error(nil)
	if p.At != "" {
		at, errAt = almanac.ParseClock(p.At)
	}
	asked := policies{Gap: p.Gap, Fold: p.Fold, LeapDay: p.LeapDay, MonthEnd: string(almanac.Policies{}.WithDefaults().MonthEnd)}
	answers, errPolicies := asked.understand()
	var errEvents []error
	if p.NoEvents {
		errEvents = append(errEvents, p.without("--at", p.At), p.without("--anniversary", p.Anniversary))
	}
	if err := errors.Join(append(errEvents, about("--at", errAt), errPolicies)...); err != nil {
		return nil, err
	}
	clock := func(almanac.User) almanac.Clock { return at }
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
