package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// zone explains a time zone.
type zone struct {
	Name        string `arg:"" help:"The IANA name."`
	Changes     string `help:"How many changes of clocks to show (default ${default})." placeholder:"N" default:"4"`
	Zoneinfo    string `help:"A directory or zip file of zone files to use instead of this machine's own." placeholder:"PATH"`
	DatabaseURL string `help:"Also show the zone by the data of this PostgreSQL server." placeholder:"URL" env:"DATABASE_URL"`
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
	z, errZone, failure := findZone("<name>", data, c.Name)
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
	if c.JSON {
		return writeJSON(env.out, e)
	}
	return e.write(env.out, changes)
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
