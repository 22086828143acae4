package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// doctor looks for what is wrong with a database.
type doctor struct {
	tables
	Zoneinfo string `help:"A directory or zip file of zone files to use instead of this machine's own." placeholder:"PATH"`
	Patience string `help:"How long a transaction may be open, and an event in an expired lease (default ${default})." placeholder:"DURATION" default:"10m"`
	JSON     bool   `help:"Write JSON." name:"json"`
}

// doctorLimit is patience with one question.
const doctorLimit = 30 * time.Second

// severity is how bad a finding is.
type severity string

const (
	fine   severity = "ok"
	notice severity = "note"
	warns  severity = "warning"
	broken severity = "error"
)

// finding is what one look came to.
type finding struct {
	About    string   `json:"about"`
	Severity severity `json:"severity"`
	Text     string   `json:"text"`
	Advice   string   `json:"advice,omitempty"` // what to do
}

// diagnosis is all that was found.
type diagnosis struct {
	Schema   string    `json:"schema"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings []finding `json:"findings"`
}

// patient is what the doctor looks at.
type patient struct {
	env      *environment
	tables   *tables
	data     *calendar.ZoneData
	patience time.Duration // with transactions and expired leases
	now      func() time.Time
	conn     *pgx.Conn
	store    *postgres.Store
}

// Run looks.
func (c *doctor) Run(ctx context.Context, env *environment) error {
	began := time.Since(env.now)
	p := patient{env: env, tables: &c.tables, now: func() time.Time { return env.now.Add(time.Since(env.now) - began) }}
	var errPatience, errData error
	p.patience, errPatience = time.ParseDuration(c.Patience)
	if errPatience != nil || p.patience < 0 {
		errPatience = fmt.Errorf("--patience: %q is not a duration such as 10m", c.Patience)
	}
	p.data, errData = openData(c.Zoneinfo)
	if err := misused(c.tables.validate(env), errData, errPatience); err != nil {
		return err
	}
	d := diagnosis{Schema: c.Schema, Findings: p.examine(ctx)}
	for _, f := range d.Findings {
		switch f.Severity {
		case broken:
			d.Errors++
		case warns:
			d.Warnings++
		}
	}
	err := env.report(c.JSON, d, func() error { return d.write(env.out) })
	if d.Errors+d.Warnings > 0 {
		err = errors.Join(err, fmt.Errorf("%s and %s", counted(d.Errors, "error"), counted(d.Warnings, "warning")))
	}
	return err
}

// examine looks at one thing after the other. What cannot be asked is a finding too.
func (p *patient) examine(ctx context.Context) []finding {
	var err error
	if p.conn, p.store, err = p.tables.dial(ctx, p.env, doctorLimit); err != nil {
		return []finding{{"database", broken, "cannot be reached: " + oneLine(err), "see that the server runs, and that address, role and password are right"}}
	}
	defer disconnect(ctx, p.conn)
	looks := []struct {
		about string
		look  func(context.Context) ([]finding, error)
	}{
		{"server", p.server}, {"settings", p.settings}, {"schema", p.schema}, {"publications", p.publications}, {"outbox", p.migrated(p.outbox)}, {"role", p.role},
		{"zones", p.migrated(p.zones)}, {"calendars", p.migrated(p.calendars)}, {"releases", p.migrated(p.releases)}, {"programs", p.migrated(p.programs)}, {"series", p.migrated(p.series)}, {"events", p.migrated(p.lost)}, {"leases", p.leases},
		{"clock", p.clock}, {"vacuum", p.vacuum}, {"connections", p.connections}, {"notifications", p.notifications},
	}
	var findings []finding
	for _, l := range looks {
		found, err := p.ask(ctx, l.look)
		if err != nil {
			found = append(found, finding{Severity: broken, Text: "cannot be asked: " + oneLine(err)})
		}
		for _, f := range found {
			f.About, f.Advice = l.about, p.env.renamed(f.Advice)
			findings = append(findings, f)
		}
	}
	return findings
}

// migrated skips a check if a migration is missing, because the check of the schema reports that.
func (p *patient) migrated(look func(context.Context) ([]finding, error)) func(context.Context) ([]finding, error) {
	return func(ctx context.Context) ([]finding, error) {
		if err := p.store.Verify(ctx); errors.Is(err, almanac.ErrOutdated) {
			return nil, nil
		}
		return look(ctx)
	}
}

func (p *patient) ask(ctx context.Context, look func(context.Context) ([]finding, error)) ([]finding, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorLimit)
	defer cancel()
	return look(ctx)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (d diagnosis) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range d.Findings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Severity, f.About, f.Text)
		if f.Advice != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", f.Advice)
		}
	}
	return table.Flush()
}
