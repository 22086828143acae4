package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/almanac-go/almanac"
)

// reconcile brings pending events into step with zone rules.
type reconcile struct {
	tables
	Zoneinfo string `help:"A directory or zip file of zone files to use instead of this machine's own." placeholder:"PATH"`
	DryRun   bool   `help:"Change nothing; show what would move, even if the rules are not newer."`
	Trust    bool   `help:"Use the rules even if they are not known to be newer than the rules that the database follows."`
	JSON     bool   `help:"Write JSON." name:"json"`
}

// reconcileLimit is patience with one statement.
const reconcileLimit = time.Minute

// Run compares and moves.
func (c *reconcile) Run(ctx context.Context, env *environment) error {
	options, err := c.parse(env)
	if err != nil {
		return err
	}
	conn, store, err := c.dial(ctx, env, reconcileLimit)
	if err != nil {
		return err
	}
	defer disconnect(ctx, conn)
	scheduler, err := env.operatorOn(store) // events move by their stored wall times; no handler is asked
	if err != nil {
		return err
	}
	result, err := scheduler.Reconcile(ctx, options)
	if err != nil {
		return err
	}
	report := reportOf(result, c.DryRun)
	if c.JSON {
		return writeJSON(env.out, report)
	}
	return report.write(env.out)
}

func (c *reconcile) parse(env *environment) (almanac.ReconcileOptions, error) {
	data, errData := openData(c.Zoneinfo)
	return almanac.ReconcileOptions{Data: data, DryRun: c.DryRun, Trust: c.Trust},
		misused(c.tables.validate(env), errData)
}

// reconciliation is what there is to say about a run.
type reconciliation struct {
	DryRun   bool         `json:"dryRun"`
	Moved    int          `json:"moved"`
	Zones    []zoneReport `json:"zones"`
	Outdated []string     `json:"outdated"` // zones whose rules are not newer than the database's
}

type zoneReport struct {
	Zone    string `json:"zone"`
	Version string `json:"version"` // of the zone data; empty where it is not known
	Checked int    `json:"checked"`
	Moved   int    `json:"moved"`
	Left    int    `json:"left"` // their policy refuses the wall time under these rules
	// How far events moved, in seconds: positive when they are later now.
	Smallest int64 `json:"smallestSeconds"`
	Largest  int64 `json:"largestSeconds"`
}

func reportOf(r almanac.ReconcileResult, dryRun bool) reconciliation {
	report := reconciliation{DryRun: dryRun, Moved: r.Moved(), Zones: []zoneReport{}, Outdated: []string{}}
	report.Outdated = append(report.Outdated, r.Outdated...)
	for _, z := range r.Zones {
		report.Zones = append(report.Zones, zoneReport{
			Zone: z.Zone, Version: z.Version, Checked: z.Checked, Moved: z.Moved, Left: z.Left,
			Smallest: int64(z.Smallest / time.Second), Largest: int64(z.Largest / time.Second),
		})
	}
	return report
}

func (r reconciliation) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(r.Zones) > 0 {
		fmt.Fprintln(table, "ZONE\tDATA\tCHECKED\tMOVED\tLEFT\tSMALLEST\tLARGEST")
	}
	left := 0
	for _, z := range r.Zones {
		left += z.Left
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n", z.Zone, orDash(z.Version), z.Checked, z.Moved, z.Left, moveText(z.Smallest), moveText(z.Largest))
	}
	if left > 0 {
		fmt.Fprintln(table, "left: their policy refuses the wall time under these rules, so they keep their instant")
	}
	if len(r.Outdated) > 0 {
		fmt.Fprintf(table, "not known to be newer than the rules that the database follows: %s\n", strings.Join(r.Outdated, ", "))
		fmt.Fprintln(table, "events there stay as they are without --trust")
	}
	verb := "moved"
	if r.DryRun {
		verb = "would move"
	}
	fmt.Fprintf(table, "%s %s in %s\n", verb, counted(r.Moved, "event"), counted(len(r.Zones), "zone"))
	return table.Flush()
}
