package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// cancelEvents ends pending events.
type cancelEvents struct {
	Reason    string `help:"The reason, stored with the event." placeholder:"TEXT"`
	EndSeries bool   `help:"Plan no next event."`

	Changing changing `embed:""`
	Waiting  waiting  `embed:""`
}

// Run cancels.
func (c *cancelEvents) Run(ctx context.Context, env *environment) error {
	how := ops.OperateOptions{Cancel: almanac.CancelOptions{Reason: c.Reason, EndSeries: c.EndSeries}}
	return c.Changing.run(ctx, env, ops.Cancel, ownFilters{waiting: c.Waiting}, how)
}

// runEvents makes pending events due.
type runEvents struct {
	Force bool `help:"Deliver in the quiet hours of users, too, unless the event is late already."`

	Changing changing `embed:""`
	Waiting  waiting  `embed:""`
}

// Run makes them due.
func (c *runEvents) Run(ctx context.Context, env *environment) error {
	return c.Changing.run(ctx, env, ops.RunNow, ownFilters{waiting: c.Waiting}, ops.OperateOptions{RunNow: almanac.ForceOptions{Force: c.Force}})
}

// requeueEvents delivers failed events once more.
type requeueEvents struct {
	Force  bool   `help:"Deliver also to users who have opted out."`
	Reason string `help:"Only events that failed for a reason that begins with this text, in the same case." placeholder:"TEXT"`

	Changing changing `embed:""`
}

// Run requeues.
func (c *requeueEvents) Run(ctx context.Context, env *environment) error {
	return c.Changing.run(ctx, env, ops.Requeue, ownFilters{reason: c.Reason}, ops.OperateOptions{Requeue: almanac.ForceOptions{Force: c.Force}})
}

// changing says which events are changed.
type changing struct {
	IDs    []string `arg:"" optional:"" name:"id" help:"Ids of events."`
	Limit  string   `help:"With filters: the most events to examine (default 1000)." short:"n" placeholder:"N"`
	DryRun bool     `help:"With filters: change nothing, and list the selected events."`
	Yes    bool     `help:"With filters: change the events."`
	JSON   bool     `help:"Write JSON." name:"json"`

	Filters filters `embed:""`
	Tables  tables  `embed:""`
}

// ownFilters are filters that only some of the operations have.
type ownFilters struct {
	waiting waiting
	reason  string // how the reasons of failed events begin
}

// changeQuery is what the arguments ask for: ids, or else a specification.
type changeQuery struct {
	ids  []uuid.UUID
	spec almanac.And
	how  ops.OperateOptions
}

const defaultChanged = 1000

func (c *changing) parse(env *environment, what ops.Operation, own ownFilters) (changeQuery, error) {
	p := changeQuery{how: ops.OperateOptions{Limit: defaultChanged, DryRun: c.DryRun}}
	var errs []error
	for _, text := range c.IDs {
		id, err := idOf("<id>", text)
		p.ids, errs = append(p.ids, id), append(errs, err)
	}
	filtered := c.Filters != (filters{}) || own != (ownFilters{})
	switch {
	case filtered && len(c.IDs) > 0:
		errs = append(errs, errors.New("<id>: does not go with filters"))
	case filtered && c.DryRun && c.Yes:
		errs = append(errs, errors.New("--dry-run: does not go with --yes"))
	case filtered && !c.DryRun && !c.Yes:
		errs = append(errs, errors.New("--dry-run or --yes is required with filters"))
	case filtered && what == ops.RunNow && c.Filters.DueUntil == "" && own.waiting.Overdue == "":
		errs = append(errs, errors.New("--due-until or --overdue is required with filters: a repeated run-now would make the next events due, too"))
	case !filtered && len(c.IDs) == 0:
		errs = append(errs, errors.New("<id> or a filter is required"))
	case !filtered && c.DryRun:
		errs = append(errs, errors.New("--dry-run: goes with filters only"))
	case !filtered && c.Limit != "":
		errs = append(errs, errors.New("--limit: goes with filters only"))
	}
	var errLimit, errFilters, errWaiting error
	if c.Limit != "" {
		p.how.Limit, errLimit = number("--limit", c.Limit, 1, maxListed)
	}
	p.spec, errFilters = c.Filters.parse()
	late, errWaiting := own.waiting.parse()
	p.spec = append(p.spec, late...)
	if own.reason != "" {
		p.spec = append(p.spec, almanac.ForReason(own.reason))
	}
	return p, misused(append(errs, errFilters, errWaiting, errLimit, c.Tables.validate(env))...)
}

func (c *changing) run(ctx context.Context, env *environment, what ops.Operation, own ownFilters, options ops.OperateOptions) error {
	p, err := c.parse(env, what, own)
	if err != nil {
		return err
	}
	p.how.Cancel, p.how.RunNow, p.how.Requeue = options.Cancel, options.RunNow, options.Requeue
	store, scheduler, closing, err := c.Tables.operator(ctx, env)
	if err != nil {
		return err
	}
	defer closing()
	user, err := c.Filters.ofUser(ctx, store)
	if err != nil {
		return err
	}
	p.spec = append(p.spec, user...)
	began, err := store.Now(ctx)
	if err != nil {
		return err
	}
	var done ops.OperateResult
	if len(p.ids) == 0 {
		done, err = ops.Operate(ctx, scheduler, what, p.spec, p.how)
	} else {
		done, err = p.each(ctx, scheduler, what)
	}
	report := changeReportOf(what, p.how.DryRun, done, err)
	if c.JSON {
		return cmp.Or(err, writeJSON(env.out, report), report.verdict())
	}
	if what == ops.RunNow && !p.how.DryRun {
		report.quiet = quietHoursOf(done.Events, began, p.how.RunNow.Force)
	}
	return cmp.Or(err, report.write(env, done.Events, p.how.Limit), report.verdict())
}

// each changes the events with these ids.
func (p changeQuery) each(ctx context.Context, scheduler almanac.Scheduler, what ops.Operation) (done ops.OperateResult, err error) {
	operate := map[ops.Operation]func(context.Context, uuid.UUID) (almanac.Event, error){
		ops.Cancel: func(ctx context.Context, id uuid.UUID) (almanac.Event, error) {
			c, err := scheduler.Cancel(ctx, id, p.how.Cancel)
			if c.Unplanned {
				done.Unplanned++
			}
			return c.Event, err
		},
		ops.RunNow: func(ctx context.Context, id uuid.UUID) (almanac.Event, error) {
			return scheduler.RunNow(ctx, id, p.how.RunNow)
		},
		ops.Requeue: func(ctx context.Context, id uuid.UUID) (almanac.Event, error) {
			return scheduler.Requeue(ctx, id, p.how.Requeue)
		},
	}[what]
	for _, id := range p.ids {
		e, err := operate(ctx, id)
		switch {
		case err == nil:
			done.Events = append(done.Events, e)
		case ops.IsRefusal(err):
			done.Refused = append(done.Refused, almanac.Refusal{EventID: id, Err: err})
		default:
			return done, fmt.Errorf("%s event %s: %w", what, id, err)
		}
	}
	return done, nil
}

// operator returns a store, a scheduler on it with the host's handlers, and what closes its
// connection.
func (t *tables) operator(ctx context.Context, env *environment) (*postgres.Store, almanac.Scheduler, func(), error) {
	store, closing, err := t.open(ctx, env, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	scheduler, err := env.operatorOn(store)
	if err != nil {
		closing()
		return nil, nil, nil, err
	}
	return store, scheduler, closing, nil
}
