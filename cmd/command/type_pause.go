package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// pauseType pauses a type of event.
type pauseType struct {
	pausing
	Force bool `help:"Pause it also when no event of the type is known."`
}

// Run pauses.
func (c *pauseType) Run(ctx context.Context, env *environment) error {
	if err := c.validate(env); err != nil {
		return err
	}
	conn, store, err := c.Tables.dial(ctx, env, statementLimit)
	if err != nil {
		return err
	}
	defer disconnect(ctx, conn)
	if err := store.Verify(ctx); err != nil {
		return err
	}
	scheduler, err := env.operatorOn(store)
	if err != nil {
		return err
	}
	since, already, err := c.since(ctx, scheduler)
	if err != nil {
		return err
	}
	// The scheduler refuses what can be no type, and types without a handler as
	// unsupported. The database is asked about those.
	if err = scheduler.Pause(ctx, c.Type); errors.Is(err, almanac.ErrUnsupportedEventType) {
		err = nil
		if !c.Force {
			err = c.check(ctx, env, conn)
		}
		if err == nil {
			err = store.Pause(ctx, c.Type)
		}
	}
	switch {
	case err != nil:
		return err
	case c.JSON:
		return writeJSON(env.out, map[string]any{"type": c.Type, "paused": true})
	case already:
		_, err = fmt.Fprintf(env.out, "%s is paused already, since %s\n", printable(c.Type), instantText(since))
	default:
		_, err = fmt.Fprintf(env.out, "%s is paused\n", printable(c.Type))
	}
	return err
}

// check refuses a type that nothing knows.
func (c *pauseType) check(ctx context.Context, env *environment, conn *pgx.Conn) error {
	unknown, err := c.Tables.unknownType(ctx, env, conn, c.Type)
	if err != nil || unknown == "" {
		return err
	}
	return errors.New(unknown + "; --force pauses it nevertheless")
}

// resumeType lets a type of event be delivered again.
type resumeType struct {
	pausing
}

// Run resumes.
func (c *resumeType) Run(ctx context.Context, env *environment) error {
	if err := c.validate(env); err != nil {
		return err
	}
	pool, store, err := c.Tables.opened(ctx, env, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	scheduler, err := env.operatorOn(store)
	if err != nil {
		return err
	}
	since, was, err := c.since(ctx, scheduler)
	if err != nil {
		return err
	}
	if err := scheduler.Resume(ctx, c.Type); err != nil {
		return err
	}
	report := map[string]any{"type": c.Type, "paused": false}
	text := printable(c.Type) + " was not paused"
	if was {
		report["since"] = since
		text = fmt.Sprintf("%s was paused since %s; it is not paused any more", printable(c.Type), instantText(since))
	} else if err := c.Tables.hintType(ctx, env, pool, c.Type); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.out, report)
	}
	_, err = fmt.Fprintln(env.out, text)
	return err
}

// pausing is about a type of event.
type pausing struct {
	Type string `arg:"" help:"The type, such as BIRTHDAY."`
	JSON bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

func (p *pausing) validate(env *environment) error {
	var errType error
	if p.Type == "" {
		errType = errors.New("<type> is required")
	}
	return misused(errType, p.Tables.validate(env))
}

// since returns since when the type is paused, if it is.
func (p *pausing) since(ctx context.Context, scheduler almanac.Scheduler) (since time.Time, is bool, err error) {
	paused, err := scheduler.Paused(ctx)
	for _, one := range paused {
		if one.EventType == p.Type {
			return one.Since.UTC(), true, err
		}
	}
	return time.Time{}, false, err
}

// listPauses lists what is paused.
type listPauses struct {
	JSON bool `help:"Write JSON." name:"json"`
	CSV  bool `help:"Write comma-separated values, with a header." name:"csv"`

	Tables tables `embed:""`
}

type pauseReport struct {
	Type  string    `json:"type"`
	Since time.Time `json:"since"` // UTC
}

// Run lists.
func (c *listPauses) Run(ctx context.Context, env *environment) error {
	if err := misused((&form{c.JSON, c.CSV}).validate(), c.Tables.validate(env)); err != nil {
		return err
	}
	_, scheduler, closing, err := c.Tables.operator(ctx, env)
	if err != nil {
		return err
	}
	defer closing()
	paused, err := scheduler.Paused(ctx)
	if err != nil {
		return err
	}
	reports := mapped(paused, func(p almanac.Pause) pauseReport { return pauseReport{p.EventType, p.Since.UTC()} })
	if c.JSON {
		return writeJSON(env.out, reports)
	}
	eventType, since := func(r pauseReport) string { return r.Type }, func(r pauseReport) string { return instantText(r.Since) }
	return list[pauseReport]{
		form: form{CSV: c.CSV}, none: "nothing is paused",
		columns: []column[pauseReport]{{"TYPE", eventType, span{rank: 1, least: 12}, nil}, {"SINCE", since, span{rank: 2}, nil}},
		fields:  []field[pauseReport]{{"type", eventType}, {"since", since}},
	}.write(env, reports, true)
}
