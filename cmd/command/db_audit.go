package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// audit looks after the trail of what becomes of events.
type audit struct {
	On    auditOn    `cmd:"" help:"Write an audit trail from now on."`
	Off   auditOff   `cmd:"" help:"Stop writing the audit trail; its rows stay."`
	Show  auditShow  `cmd:"" help:"Show the trail of an event, or the changes of a user's opt-outs."`
	Prune auditPrune `cmd:"" help:"Delete rows of the trail that are older than an instant."`
}

// auditOn switches the trail on.
type auditOn struct {
	tables
	JSON bool `help:"Write JSON." name:"json"`
}

// Run switches.
func (c *auditOn) Run(ctx context.Context, env *environment) error {
	return c.switchTrail(ctx, env, c.JSON, true)
}

// auditOff switches the trail off.
type auditOff struct {
	tables
	JSON bool `help:"Write JSON." name:"json"`
}

// Run switches.
func (c *auditOff) Run(ctx context.Context, env *environment) error {
	return c.switchTrail(ctx, env, c.JSON, false)
}

func (t *tables) switchTrail(ctx context.Context, env *environment, asJSON, on bool) error {
	if err := misused(t.validate(env)); err != nil {
		return err
	}
	conn, store, err := t.dial(ctx, env, statementLimit)
	if err != nil {
		return err
	}
	defer disconnect(ctx, conn)
	if err := store.Verify(ctx); err != nil {
		return err
	}
	change, text := postgres.DisableAudit, "no trail is kept any more in schema %s\n"
	if on {
		change, text = postgres.EnableAudit, "a trail is kept from now on in schema %s\n"
	}
	if err := change(ctx, conn, postgres.WithSchema(t.Schema), postgres.WithTimeout(statementLimit)); err != nil {
		return err
	}
	if asJSON {
		return writeJSON(env.out, map[string]any{"schema": t.Schema, "on": on})
	}
	_, err = fmt.Fprintf(env.out, text, t.Schema)
	return err
}

// trailStep is a step of an event's life.
type trailStep struct {
	At        time.Time `json:"at"` // UTC
	Kind      string    `json:"kind"`
	Version   int       `json:"version"` // of the event after the step
	Detail    string    `json:"detail,omitempty"`
	Actor     string    `json:"actor"`
	Principal string    `json:"principal,omitempty"` // who asked for the step
}

// trailOf reads the trail of an event.
func trailOf(ctx context.Context, store *postgres.Store, id uuid.UUID) ([]trailStep, error) {
	steps, err := store.Audit(ctx, id)
	return mapped(steps, func(s ops.AuditStep) trailStep { return trailStep(s) }), err
}

// String says it in a line.
func (s trailStep) String() string {
	text := fmt.Sprintf("%s version %d %s by %s", instantText(s.At), s.Version, s.Kind, printable(s.Actor))
	if s.Principal != "" {
		text += " for " + printable(s.Principal)
	}
	if s.Detail != "" {
		text += ": " + printable(s.Detail)
	}
	return text
}

// auditShow shows a trail.
type auditShow struct {
	ID   string `arg:"" help:"The id of an event or a user."`
	JSON bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// Run shows it.
func (c *auditShow) Run(ctx context.Context, env *environment) error {
	id, errID := idOf("<id>", c.ID)
	return c.Tables.use(ctx, env, errID, func(store *postgres.Store) error {
		trail, err := trailOf(ctx, store, id)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(env.out, trail)
		}
		if len(trail) == 0 {
			_, err := fmt.Fprintf(env.out, "no trail of event or user %s\n", id)
			return err
		}
		for _, s := range trail {
			if _, err := fmt.Fprintln(env.out, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// auditPrune deletes what the trail holds.
type auditPrune struct {
	Before string `help:"Delete rows from before this instant: RFC 3339, or a date, which means its midnight in UTC; required." placeholder:"INSTANT" required:"" default:""`
	JSON   bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// prunedPage is how many rows of the trail are deleted at a time.
const prunedPage = 5000

// Run deletes.
func (c *auditPrune) Run(ctx context.Context, env *environment) error {
	before, errBefore := ops.ParseInstant(c.Before, "UTC")
	if c.Before == "" {
		errBefore = errors.New("--before is required")
	} else {
		errBefore = about("--before", errBefore)
	}
	return c.Tables.use(ctx, env, errBefore, func(store *postgres.Store) error {
		if now, err := store.Now(ctx); err != nil || before.After(now) {
			return cmp.Or(err, misused(fmt.Errorf("--before: %s is in the future", instantText(before))))
		}
		total, err := 0, error(nil)
		for page := prunedPage; page == prunedPage && err == nil; total += page {
			page, err = store.PruneAudit(ctx, before, prunedPage)
		}
		text := fmt.Sprintf("deleted %s of the trail\n", counted(total, "row"))
		return cmp.Or(err, env.report(c.JSON, map[string]int{"deleted": total}, func() error { return writeText(env, text) }))
	})
}
