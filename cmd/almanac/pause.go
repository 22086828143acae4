package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/almanac-go/almanac"
)

// pauseType pauses a type of event.
type pauseType struct {
	pausing
}

// Help is shown below the command's line.
func (c *pauseType) Help() string {
	return `No process claims events of the type then, until almanac resume. What is claimed goes on; what comes due waits. The type need not be one that this program knows, and is taken as it is written.

    almanac pause BIRTHDAY`
}

// Run pauses.
func (c *pauseType) Run(ctx context.Context, env *environment) error {
	return c.change(ctx, env, "paused", almanac.Scheduler.Pause)
}

// resumeType lets a type of event be delivered again.
type resumeType struct {
	pausing
}

// Help is shown below the command's line.
func (c *resumeType) Help() string {
	return `What waits is delivered, oldest first, unless its handler calls it too late.

    almanac resume BIRTHDAY`
}

// Run resumes.
func (c *resumeType) Run(ctx context.Context, env *environment) error {
	return c.change(ctx, env, "not paused", almanac.Scheduler.Resume)
}

// pausing is about a type of event.
type pausing struct {
	Type string `arg:"" help:"The type, such as BIRTHDAY."`
	JSON bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

func (p *pausing) change(ctx context.Context, env *environment, is string, change func(almanac.Scheduler, context.Context, string) error) error {
	var errType error
	if p.Type == "" {
		errType = errors.New("<type> is required")
	}
	if err := misused(errType, p.Tables.understand()); err != nil {
		return err
	}
	scheduler, closing, err := p.Tables.operator(ctx)
	if err != nil {
		return err
	}
	defer closing()
	if err := change(scheduler, ctx, p.Type); err != nil {
		return err
	}
	if p.JSON {
		return writeJSON(env.out, map[string]any{"type": p.Type, "paused": is == "paused"})
	}
	_, err = fmt.Fprintf(env.out, "%s is %s\n", printable(p.Type), is)
	return err
}

// listPauses lists what is paused.
type listPauses struct {
	JSON bool `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// Help is shown below the command's line.
func (c *listPauses) Help() string {
	return `    almanac pauses --json`
}

type pauseReport struct {
	Type  string    `json:"type"`
	Since time.Time `json:"since"` // UTC
}

// Run lists.
func (c *listPauses) Run(ctx context.Context, env *environment) error {
	if err := misused(c.Tables.understand()); err != nil {
		return err
	}
	scheduler, closing, err := c.Tables.operator(ctx)
	if err != nil {
		return err
	}
	defer closing()
	paused, err := scheduler.Paused(ctx)
	if err != nil {
		return err
	}
	reports := []pauseReport{}
	for _, p := range paused {
		reports = append(reports, pauseReport{p.EventType, p.Since.UTC()})
	}
	if c.JSON {
		return writeJSON(env.out, reports)
	}
	table := tabwriter.NewWriter(env.out, 0, 0, 2, ' ', 0)
	if len(reports) == 0 {
		fmt.Fprintln(table, "nothing is paused")
	} else {
		fmt.Fprintln(table, "TYPE\tSINCE")
	}
	for _, r := range reports {
		fmt.Fprintf(table, "%s\t%s\n", printable(r.Type), instantText(r.Since))
	}
	return table.Flush()
}
