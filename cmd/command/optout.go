package command

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// optOutUser stores that a user refuses events.
type optOutUser struct {
	whatIsRefused
}

// Help is shown below the command's line.
func (c *optOutUser) Help() string {
	return `Without --type and --channel the user refuses everything. Nothing is planned any more that the user refuses. An event that is being delivered goes on, and is not tried again. ` + refusedLater + `

    almanac users opt-out 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --type BIRTHDAY
    almanac users opt-out member-17 --channel email`
}

// refusedLater is what a command without handlers says of pending events, and refusedNow
// what a host's says instead.
const (
	refusedLater = `This command has no handlers, so pending events stay until they are due, and the program that delivers ends them as CANCELLED.`
	refusedNow   = `Pending events are removed; those that wait for another attempt are CANCELLED. Events of a type without a handler here stay until they are due, and the program that delivers ends them as CANCELLED.`
)

// Run opts out.
func (c *optOutUser) Run(ctx context.Context, env *environment) error {
	return c.change(ctx, env, almanac.Scheduler.OptOut)
}

// optInUser removes an opt-out.
type optInUser struct {
	whatIsRefused
}

// Help is shown below the command's line.
func (c *optInUser) Help() string {
	return `It removes exactly the opt-out with this type and channel. What the user is owed again is planned by the next program with the handlers that edits, reschedules or backfills the user.

    almanac users opt-in 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --type BIRTHDAY`
}

// Run opts in.
func (c *optInUser) Run(ctx context.Context, env *environment) error {
	return c.change(ctx, env, almanac.Scheduler.OptIn)
}

// whatIsRefused says who refuses what.
type whatIsRefused struct {
	oneUser
	Type    string `help:"Only events of this type." placeholder:"TYPE"`
	Channel string `help:"Only events of this channel." placeholder:"NAME"`
	JSON    bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// optOutReport is what there is to say about a user's opt-outs.
type optOutReport struct {
	ID        uuid.UUID        `json:"id"`
	OptOuts   []almanac.OptOut `json:"optOuts"`
	Removed   int              `json:"removed"`   // pending events
	Cancelled int              `json:"cancelled"` // events that waited for another attempt
	Added     int              `json:"added"`     // events that are owed again
	InFlight  int              `json:"inFlight"`  // events that were claimed before, and stay
}

func (c *whatIsRefused) change(ctx context.Context, env *environment,
	do func(almanac.Scheduler, context.Context, uuid.UUID, almanac.OptOut) (almanac.UpdateUserResult, error)) error {
	if err := misused(c.oneUser.understand(), c.Tables.understand(env)); err != nil {
		return err
	}
	store, scheduler, closing, err := c.Tables.operator(ctx, env)
	if err != nil {
		return err
	}
	defer closing()
	u, err := c.find(ctx, store)
	if err != nil {
		return err
	}
	done, err := do(scheduler, ctx, u.ID, almanac.OptOut{Type: c.Type, Channel: almanac.Channel(c.Channel)})
	if err != nil {
		return err
	}
	report := optOutReport{u.ID, append([]almanac.OptOut{}, done.User.OptOuts...), len(done.Removed), len(done.Cancelled), len(done.Added), len(done.Skipped)}
	if c.JSON {
		return writeJSON(env.out, report)
	}
	return report.write(env)
}

func (r optOutReport) write(env *environment) error {
	if len(r.OptOuts) == 0 {
		if _, err := fmt.Fprintf(env.out, "%s refuses nothing\n", r.ID); err != nil {
			return err
		}
	}
	for _, o := range r.OptOuts {
		if _, err := fmt.Fprintf(env.out, "%s refuses %s\n", r.ID, printable(optOutText(o))); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(env.out, "%s removed, %d cancelled, %d added; %d stay as they are\n", counted(r.Removed, "event"), r.Cancelled, r.Added, r.InFlight)
	return err
}

// optOutText says what an opt-out refuses.
func optOutText(o almanac.OptOut) string {
	what := "everything"
	if o.Type != "" {
		what = o.Type
	}
	if o.Channel != "" {
		what += " by " + string(o.Channel)
	}
	return what
}
