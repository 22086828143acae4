package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// rescheduleUser replans the events of a user.
type rescheduleUser struct {
	oneUser
	JSON bool `help:"Write JSON." name:"json"`

	Tables   tables    `embed:""`
	Handlers readyMade `embed:"" group:"Their events:"`
}

// replansReady is what a command without handlers says of the events of a user, and
// replansOwn what a host's says instead.
const (
	replansReady = `This command has no handlers of yours. If all your programs use the ready-made handlers, give --birthday or --anniversary, or both, with the same --at and policies as there. Events of other types stay as they are.

    almanac users reschedule ada@example.com --birthday
    almanac users reschedule 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --birthday --at 08:00 --json`
	replansOwn = `Events are replanned by the handlers of this program. Those of a type without a handler here stay as they are.

    almanac users reschedule ada@example.com
    almanac users reschedule 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --json`
)

// Help is shown below the command's line.
func (c *rescheduleUser) Help() string {
	return `Use it after a change of the handlers, after an opt-in that another program has stored, or to continue a series that stands still. It lists the events that moved, were added or removed. An event that was planned anew for the same time is REFRESHED. Events that were claimed or requeued before stay as they are. The user does not change. ` + replansReady
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
		if c.JSON {
			return writeJSON(env.out, report)
		}
		return report.write(env, fmt.Sprintf("replanned user %s: %s moved, %d refreshed, %d added, %d removed, %d cancelled\n", u.ID,
			counted(len(done.Moved), "event"), len(done.Refreshed), len(done.Added), len(done.Removed), len(done.Cancelled)))
	})
}
