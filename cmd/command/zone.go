package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// zone explains a time zone, or lists those of a country.
type zone struct {
	Name        string `arg:"" optional:"" help:"The IANA name; it or --country is required."`
	Country     string `help:"A country, such as US: list its zones, each with the next change of clocks." placeholder:"CODE"`
	Changes     string `help:"How many changes of clocks to show (default ${default})." placeholder:"N" default:"4"`
	Zoneinfo    string `help:"A directory or zip file of zone files to use instead of this machine's own." placeholder:"PATH"`
	DatabaseURL string `help:"Also show a single zone by the data of this PostgreSQL server." placeholder:"URL" env:"DATABASE_URL"`
	JSON        bool   `help:"Write JSON." name:"json"`
}

const maxChanges = 100

// explanation is what there is to say about a zone.
type explanation struct {
	Name        string      `json:"name"`
	Canonical   string      `json:"canonical"`
	OtherNames  []string    `json:"otherNames"`  // of the same place
	Version     string      `json:"version"`     // of the zone data; empty where it is not known
	Fingerprint string      `json:"fingerprint"` // of what the rules do in ten years from this one on
	Now         string      `json:"now"`         // what clocks show
	Offset      string      `json:"offset"`      // east of UTC
	Changes     []change    `json:"changes"`     // the next ones
	Database    *comparison `json:"database,omitempty"`
}

type change struct {
	Instant time.Time `json:"instant"` // UTC
	Before  string    `json:"before"`
	After   string    `json:"after"`
	Reason  string    `json:"reason"` // what clocks do
}

// Run explains the zone.
func (c *zone) Run(ctx context.Context, env *environment) error {
	data, errData := openData(c.Zoneinfo)
	if c.Country != "" {
		return c.list(env, data, errData)
	}
	z, errZone, failure := findZone("<name>", data, c.Name)
	if c.Name == "" {
		errZone = errors.New("<name> or --country is required")
	}
	changes, errChanges := number("--changes", c.Changes, 0, maxChanges)
	if err := misused(errZone, errData, errChanges); err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	e, err := explain(z, env.now, changes)
	if err != nil {
		return err
	}
	if c.DatabaseURL != "" || env.host.Open != nil {
		e.Database = compare(ctx, env, c.DatabaseURL, z)
	}
	return env.report(c.JSON, e, func() error { return e.write(env.out, changes) })
}

func explain(z calendar.Timezone, now time.Time, changes int) (explanation, error) {
	rules, err := z.Rules(now.UTC().Year())
	if err != nil {
		return explanation{}, err
	}
	e := explanation{
		Name: z.String(), Canonical: z.Canonical(), OtherNames: otherNames(z),
		Version: rules.Version, Fingerprint: fmt.Sprintf("%016x", uint64(rules.Fingerprint)),
		Now: z.WallTime(now).String(), Offset: offsetText(offsetAt(z, now)), Changes: []change{},
	}
	for at := now; len(e.Changes) < changes; {
		next, ok := z.NextChange(at)
		if !ok {
			break
		}
		e.Changes = append(e.Changes, change{next.At, offsetText(next.Before), offsetText(next.After), next.String()})
		at = next.At
	}
	return e, nil
}

// otherNames returns the other names of z's place.
func otherNames(z calendar.Timezone) []string {
	return slices.DeleteFunc(calendar.TimezoneNames(), func(name string) bool {
		other := calendar.StoredTimezone(name)
		return !other.Equal(z) || other.String() == z.String()
	})
}

func (e explanation) write(out io.Writer, changes int) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("zone", "%s", e.Name)
	if e.Canonical != e.Name {
		row("canonical", "%s", e.Canonical)
	}
	for _, name := range e.OtherNames {
		if name != e.Canonical {
			row("also", "%s", name)
		}
	}
	version := "release " + e.Version
	if e.Version == "" {
		version = "of an unknown release"
	}
	row("zone data", "%s, rules %s", version, e.Fingerprint)
	row("now", "%s, UTC%s", e.Now, e.Offset)
	for _, c := range e.Changes {
		row("change", "%s  %s → %s  %s", c.Instant.Format(time.RFC3339), c.Before, c.After, c.Reason)
	}
	if len(e.Changes) < changes {
		none := "none"
		if len(e.Changes) > 0 {
			none = "no other"
		}
		row("change", "%s within twenty years", none)
	}
	row("database", "%s", e.Database)
	return table.Flush()
}

// reconcile brings pending events into step with zone rules.
type reconcile struct {
	tables
	Zoneinfo string `help:"A directory or zip file of zone files to use instead of this machine's own." placeholder:"PATH"`
	DryRun   bool   `help:"Change nothing; show what would move, even if the rules are not newer."`
	Trust    bool   `help:"Use the rules even if they are not known to be newer than the rules that the database follows."`
	Reason   string `help:"The reason, stored with the releases that this accepts or refuses." placeholder:"TEXT"`
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
	if err != nil && len(result.Zones)+len(result.Calendars) == 0 {
		return err
	}
	report := reportOf(result, c.DryRun)
	book, errBook := store.ZoneRules(ctx)
	report.wait(book)
	err = cmp.Or(err, errBook)
	return cmp.Or(err, env.report(c.JSON, report, func() error { return report.write(env.out) }))
}

func (c *reconcile) parse(env *environment) (almanac.ReconcileOptions, error) {
	data, errData := openData(c.Zoneinfo)
	return almanac.ReconcileOptions{Data: data, DryRun: c.DryRun, Trust: c.Trust, Reason: c.Reason},
		misused(c.tables.validate(env), errData)
}

// reconciliation is what there is to say about a run.
type reconciliation struct {
	DryRun   bool         `json:"dryRun"`
	Moved    int          `json:"moved"`
	Zones    []zoneReport `json:"zones"`
	Outdated []string     `json:"outdated"` // zones whose rules are not newer than the database's
	// Those of the handlers of this program; a command without handlers has none.
	Calendars         []calendarReport `json:"calendars,omitempty"`
	OutdatedCalendars []string         `json:"outdatedCalendars,omitempty"`
	Waiting           []heldRelease    `json:"waiting,omitempty"` // releases that wait for an operator
}

// heldRelease is a release that waits for an operator.
type heldRelease struct {
	Name     string    `json:"name"` // the zone or the calendar
	Calendar bool      `json:"calendar"`
	Release  string    `json:"release"`
	Events   int       `json:"events"` // which it would change
	Largest  int64     `json:"largestSeconds"`
	First    string    `json:"first"`   // when the first of them starts at a wrong time if the release is right, by clocks there
	FirstAt  time.Time `json:"firstAt"` // UTC
	Since    time.Time `json:"since"`   // UTC
}

// wait adds the releases that still wait.
func (r *reconciliation) wait(book almanac.ZoneBook) {
	for _, q := range book.Quarantines {
		if q.Waits() {
			r.Waiting = append(r.Waiting, heldRelease{q.Name, q.Calendar, q.Release, q.Events, int64(q.Largest / time.Second), q.First.String(), q.FirstAt, q.Since})
		}
	}
}

type calendarReport struct {
	Name    string `json:"name"`
	Release string `json:"release"`
	Checked int    `json:"checked"`
	Moved   int    `json:"moved"`
	Removed int    `json:"removed"` // their occurrence no longer exists, or its new time has passed
	Added   int    `json:"added"`
	Left    int    `json:"left"` // they could not be planned again
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
	report.OutdatedCalendars = r.OutdatedCalendars
	for _, c := range r.Calendars {
		report.Calendars = append(report.Calendars, calendarReport{c.Name, c.Release, c.Checked, c.Moved, c.Removed, c.Added, c.Left})
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
	for _, c := range r.Calendars {
		fmt.Fprintf(table, "calendar %s, release %s: %d checked, %d moved, %d removed, %d added, %d left\n", c.Name, c.Release, c.Checked, c.Moved, c.Removed, c.Added, c.Left)
	}
	if len(r.OutdatedCalendars) > 0 {
		fmt.Fprintf(table, "older than the release that the database follows: %s\n", strings.Join(r.OutdatedCalendars, ", "))
	}
	for _, q := range r.Waiting {
		fmt.Fprintf(table, "waits for an operator since %s: %s, release %s; %s, by up to %s; the first wrong start would be at %s, %s\n",
			q.Since.Format(time.RFC3339), q.Name, q.Release, counted(q.Events, "event"), moveText(q.Largest), q.First, q.FirstAt.Format(time.RFC3339))
	}
	verb := "moved"
	if r.DryRun {
		verb = "would move"
	}
	fmt.Fprintf(table, "%s %s in %s\n", verb, counted(r.Moved, "event"), counted(len(r.Zones), "zone"))
	return table.Flush()
}
