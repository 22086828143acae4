package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// backfillType stores the events that users lack.
type backfillType struct {
	Type  string `arg:"" help:"The type, such as BIRTHDAY."`
	Rate  string `help:"The most users to process in a second; 0 for no limit (default ${default})." placeholder:"N" default:"0"`
	After string `help:"Continue after the end of an interrupted backfill." placeholder:"CURSOR"`
	JSON  bool   `help:"Write JSON." name:"json"`

	Tables   tables    `embed:""`
	Handlers readyMade `embed:"" group:"Their events:"`
}

// backfillConnections are those of the two pages that a backfill has in progress at a time.
const backfillConnections = 2

// backfillSettings is what the arguments of a backfill ask for.
type backfillSettings struct {
	rate     int
	registry almanac.Registry
}

func (c *backfillType) parse(env *environment) (p backfillSettings, err error) {
	var errType, errRate, errAfter error
	p.registry, errType = c.Handlers.handles(env.host, c.Type)
	p.rate, errRate = number("--rate", c.Rate, 0, maxListed)
	if _, _, err := (almanac.Page{After: almanac.Cursor(c.After)}).Bounds(); err != nil {
		errAfter = fmt.Errorf("--after: %q is not where a backfill ended", c.After)
	}
	return p, misused(errType, errRate, errAfter, c.Tables.validate(env))
}

// Run stores the events.
func (c *backfillType) Run(ctx context.Context, env *environment) error {
	p, err := c.parse(env)
	if err != nil {
		return err
	}
	store, closing, err := c.Tables.open(ctx, env, backfillConnections)
	if err != nil {
		return err
	}
	defer closing()
	scheduler, err := almanac.NewScheduler(store, p.registry, quietly(env.host.Options)...)
	if err != nil {
		return err
	}
	show := newProgress(env.errs, new(input))
	show.things = "users"
	reported := 0 // refusals
	notify := func(done almanac.BackfillResult) {
		for ; reported < len(done.Refused) && !c.JSON; reported++ {
			r := refusedUserOf(done.Refused[reported])
			show.say(fmt.Sprintf("refused %s: %s", r.ID, printable(r.Reason)))
		}
		show.update(tally{Created: done.Users, Refused: len(done.Refused)})
	}
	done, err := scheduler.Backfill(ctx, c.Type, almanac.BackfillOptions{After: almanac.Cursor(c.After), Rate: p.rate, Progress: notify})
	notify(done)
	show.end()
	report := backfillReportOf(c.Type, done, err)
	report.Seconds = time.Since(show.begun).Seconds()
	return cmp.Or(err, env.report(c.JSON, report, func() error { return report.write(env) }), report.verdict())
}

// backfillReport is what there is to say about a backfill.
type backfillReport struct {
	Type     string        `json:"type"`
	Complete bool          `json:"complete"` // all users were processed
	Users    int           `json:"users"`    // that were processed
	Events   int           `json:"events"`   // that were stored
	Refused  []refusedUser `json:"refused"`
	Next     string        `json:"next,omitempty"` // where to continue, if not complete
	Seconds  float64       `json:"seconds"`
	Error    string        `json:"error,omitempty"` // why it is not complete
}

// refusedUser is a user for whom no event could be planned.
type refusedUser struct {
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"`
}

func refusedUserOf(r almanac.Refusal) refusedUser { return refusedUser{r.UserID, bare(r.Err.Error())} }

func backfillReportOf(eventType string, done almanac.BackfillResult, err error) backfillReport {
	r := backfillReport{Type: eventType, Complete: err == nil, Users: done.Users, Events: done.Events, Refused: mapped(done.Refused, refusedUserOf)}
	if err != nil {
		r.Next, r.Error = string(done.Next), bare(err.Error())
	}
	return r
}

func (r backfillReport) write(env *environment) error {
	text := fmt.Sprintf("processed %s, stored %s of %s; %s refused", counted(r.Users, "user"), counted(r.Events, "event"), printable(r.Type), counted(len(r.Refused), "user"))
	if !r.Complete {
		text += "; not done to the end"
	}
	if _, err := fmt.Fprintln(env.out, text); err != nil {
		return err
	}
	if r.Next != "" {
		fmt.Fprintf(env.errs, "there are more: go on with --after %s\n", shellWord(r.Next))
	}
	return nil
}

// verdict is an error if a user was refused.
func (r backfillReport) verdict() error {
	if len(r.Refused) == 0 {
		return nil
	}
	return errors.New(counted(len(r.Refused), "user") + " refused")
}
