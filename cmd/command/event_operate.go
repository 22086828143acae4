package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

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
	if err == nil && c.Filters.Type != "" && len(done.Events)+len(done.Refused)+done.RequeuedBefore == 0 {
		err = c.Tables.checkType(ctx, env, c.Filters.Type)
	}
	report := changeReportOf(what, p.how.DryRun, done, err)
	if what == ops.RunNow && !p.how.DryRun {
		report.quiet = quietHoursOf(done.Events, began, p.how.RunNow.Force)
	}
	return cmp.Or(err, env.report(c.JSON, report, func() error { return report.write(env, done.Events, p.how.Limit) }), report.verdict())
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

// operator returns a store, a scheduler on it with the host's handlers, and what closes its connection.
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

// changeReport is what there is to say about events that were to be changed.
type changeReport struct {
	Operation ops.Operation `json:"operation"`
	DryRun    bool          `json:"dryRun"`
	Events    []eventReport `json:"events"` // as stored; in a dry run, as they are
	Refused   []unchanged   `json:"refused"`
	More      bool          `json:"more"`            // the limit was reached
	Unplanned int           `json:"unplanned"`       // cancelled events whose series wait for a program with the handler
	Error     string        `json:"error,omitempty"` // why it was not done to the end

	RequeuedBefore int `json:"requeuedBefore"` // failed events that were left out

	quiet []string // what quiet hours do to events that were to run now
}

// unchanged is an event that could not be changed.
type unchanged struct {
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"`
}

func changeReportOf(what ops.Operation, dryRun bool, done ops.OperateResult, err error) changeReport {
	r := changeReport{Operation: what, DryRun: dryRun, Events: mapped(done.Events, eventReportOf), More: done.More, Unplanned: done.Unplanned, RequeuedBefore: done.RequeuedBefore}
	r.Refused = mapped(done.Refused, func(one almanac.Refusal) unchanged { return unchanged{one.EventID, bare(one.Err.Error())} })
	if err != nil {
		r.Error = bare(err.Error())
	}
	return r
}

// write writes what was done as a table, and what was not to standard error.
func (r changeReport) write(env *environment, events []almanac.Event, limit int) error {
	if len(events) > 0 {
		if err := eventList(env, form{}, eventView{}).write(env, listedEvents(events), true); err != nil {
			return err
		}
	}
	for _, one := range r.Refused {
		fmt.Fprintf(env.errs, "refused %s: %s\n", one.ID, printable(one.Reason))
	}
	if r.RequeuedBefore > 0 {
		fmt.Fprintf(env.errs, "left out %s: requeued before\n", counted(r.RequeuedBefore, "failed event"))
	}
	if r.Unplanned > 0 {
		fmt.Fprintf(env.errs, "nothing is planned yet after %s: a running program with the handlers does it within seconds\n", counted(r.Unplanned, "event"))
	}
	for _, text := range r.quiet {
		fmt.Fprintln(env.errs, text)
	}
	if r.More {
		fmt.Fprintf(env.errs, "there may be more: the limit of %d is reached\n", limit)
	}
	verb := map[ops.Operation]string{ops.Cancel: "cancelled", ops.RunNow: "made due", ops.Requeue: "requeued"}[r.Operation]
	if r.DryRun {
		verb = "would try to " + map[ops.Operation]string{ops.Cancel: "cancel", ops.RunNow: "make due", ops.Requeue: "requeue"}[r.Operation]
	}
	_, err := fmt.Fprintf(env.out, "%s %s\n", verb, counted(len(events), "event"))
	return err
}

// verdict is an error where an event was refused.
func (r changeReport) verdict() error {
	if len(r.Refused) == 0 {
		return nil
	}
	return fmt.Errorf("%s of %d refused", counted(len(r.Refused), "event"), len(r.Refused)+len(r.Events))
}

// usualGrace is the default of WithMissedGrace. A host's own grace cannot be read from its options.
const usualGrace = 5 * time.Second

// quietHoursOf says what quiet hours do to events that were to run now. The operation began
// at an instant of the database clock. Without force, an event whose user has quiet hours is
// left available later. The program that delivers also postpones each late event, forced or
// not; whether its user has quiet hours then is not known here.
func quietHoursOf(events []almanac.Event, began time.Time, forced bool) (texts []string) {
	var onTime, late, available []almanac.Event
	for _, e := range events {
		at := began // an event that was available already is unchanged, and its update may be long ago
		if e.UpdatedAt.After(at) {
			at = e.UpdatedAt
		}
		waits := e.AvailableAt.After(at.Add(time.Second)) // a wall time has whole seconds
		switch isLate := e.RetryCount > 0 || at.Sub(e.Due) > usualGrace; {
		case waits && isLate:
			late = append(late, e)
		case waits:
			onTime = append(onTime, e)
		case isLate:
			available = append(available, e)
		}
	}
	if n := len(onTime); n > 0 {
		texts = append(texts, untilEnd(onTime, len(events))+"; --force delivers "+numbered(n, "it", "them")+" now")
	}
	if n := len(late); n > 0 {
		texts = append(texts, untilEnd(late, len(events))+", also with --force, because "+numbered(n, "it is", "they are")+" late already")
	}
	if n := len(available); n > 0 && (forced || len(texts) > 0) {
		texts = append(texts, someOf(n, len(events))+numbered(n, " is late already: if the user has quiet hours now, it waits for their end",
			" are late already: they wait for the end of the quiet hours, if their users have any now")+", also with --force")
	}
	return texts
}

// untilEnd says that events wait, and why. Of a single event it says until when.
func untilEnd(events []almanac.Event, all int) string {
	n := len(events)
	return someOf(n, all) + numbered(n, " waits until "+instantText(events[0].AvailableAt)+" because of the user's quiet hours",
		" wait because of their users' quiet hours")
}

// someOf names n of all events that were changed.
func someOf(n, all int) string {
	if all == 1 {
		return "the event"
	}
	return fmt.Sprintf("%d of the events", n)
}

func numbered(n int, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}
