package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// countryZones are the zones of a country.
type countryZones struct {
	Country string        `json:"country"`
	Zones   []countryZone `json:"zones"`
}

type countryZone struct {
	Name   string  `json:"name"`
	Now    string  `json:"now"`              // what clocks show
	Offset string  `json:"offset"`           // east of UTC
	Change *change `json:"change,omitempty"` // the next one, if there is one within twenty years
}

// list lists the zones of the country.
func (c *zone) list(env *environment, data *calendar.ZoneData, errData error) error {
	zones, mistake, failure := zonesOf(c.Country)
	var errName error
	if c.Name != "" {
		errName = errors.New("<name>: has no meaning with --country")
	}
	if err := misused(errName, mistake, errData); err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	listed := countryZones{Country: strings.ToUpper(c.Country)}
	for _, z := range zones {
		z, err := data.Timezone(z.String())
		if err != nil {
			return err
		}
		next := countryZone{Name: z.String(), Now: z.WallTime(env.now).String(), Offset: offsetText(offsetAt(z, env.now))}
		if to, ok := z.NextChange(env.now); ok {
			next.Change = &change{to.At, offsetText(to.Before), offsetText(to.After), to.String()}
		}
		listed.Zones = append(listed.Zones, next)
	}
	return env.report(c.JSON, listed, func() error { return listed.write(env.out) })
}

func (l countryZones) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ZONE\tNOW\tOFFSET\tNEXT CHANGE")
	for _, z := range l.Zones {
		next := "none within twenty years"
		if c := z.Change; c != nil {
			next = fmt.Sprintf("%s  %s → %s  %s", c.Instant.Format(time.RFC3339), c.Before, c.After, c.Reason)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", z.Name, z.Now, z.Offset, next)
	}
	return table.Flush()
}
