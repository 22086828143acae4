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
