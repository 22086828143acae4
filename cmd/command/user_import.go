package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// importUsers stores the users of a file, or changes them. A file has no opt-outs.
type importUsers struct {
	File      string `arg:"" help:"The file, or - for standard input."`
	Format    string `help:"${format} (default: by the file's name)." placeholder:"FORMAT"`
	knownBy   `embed:""`
	Update    bool `help:"Also change the users who exist: each cell that is not empty replaces what is stored. A row without an id is for the user with its externalId. Run it again after an interruption."`
	leniency  `embed:""`
	Unknown   string `help:"Read this date of birth as absent, such as 1900-01-01; with --optional-profile." name:"unknown-date" placeholder:"DATE"`
	MaxErrors string `help:"Stop after this many bad rows (default ${default}); with --update, at the end of their page of 1000 rows." placeholder:"N" default:"1000"`
	DryRun    bool   `help:"Check every row, count, and store nothing. Without --update it needs no database."`
	JSON      bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
	Plans  plans  `embed:"" group:"Their events:"`
}

// knownBy says by which ids the users of a file are known.
type knownBy struct {
	IDFrom    string `help:"Make missing ids from this column, such as email." name:"id-from" placeholder:"COLUMN"`
	Namespace string `help:"The namespace of these ids, a UUID (default ${default})." placeholder:"UUID" default:"4e6f0c62-93a5-4e6d-9d57-0f6a1f1f7c55"`
	NewIDs    bool   `help:"Give each user without an id a new id. Every run stores these users again." name:"new-ids"`
}

// importSettings is what the arguments of an import ask for.
type importSettings struct {
	format   string
	who      identity
	most     int  // bad rows
	optional bool // users need neither names nor a date of birth
	zoneless bool // users need no zone
	update   bool // users who exist are changed, so rows need not be whole
	rules    []almanac.Option
	registry almanac.Registry
}

const maxRefusals = 1_000_000

func (c *importUsers) parse(env *environment) (importSettings, error) {
	var p importSettings
	var errFormat, errWho, errUnknown, errMost, errTables, errPlans error
	switch {
	case c.Format != "":
		p.format, errFormat = c.Format, oneOf("--format", c.Format)
	default:
		if p.format = formatOf(c.File); p.format == "" {
			errFormat = errors.New("--format is required where the file's name does not end in .csv, .jsonl or .ndjson")
		}
	}
	p.update = c.Update
	p.who, errWho = c.identity()
	p.rules = c.rules(env)
	p.zoneless = !needsZone(env, p.rules)
	if p.optional = takes(env, almanac.Profile{Timezone: "UTC"}, p.rules); c.Unknown != "" {
		errUnknown = c.unknown(p.optional)
	}
	p.most, errMost = number("--max-errors", c.MaxErrors, 1, maxRefusals)
	if errTables = validateSchema(c.Tables.Schema); c.asksDatabase() {
		errTables = c.Tables.validate(env)
	}
	p.registry, errPlans = c.Plans.parse(env.host)
	return p, misused(errFormat, errWho, c.validate(), errUnknown, errMost, errTables, errPlans)
}

// asksDatabase reports whether an import needs a database: to store users, or to compare rows with them.
func (c *importUsers) asksDatabase() bool { return c.Update || !c.DryRun }

// takes reports whether a profile is accepted.
func takes(env *environment, p almanac.Profile, rules []almanac.Option) bool {
	_, err := almanac.NewUser(p, env.now, rules...)
	return err == nil
}

// needsZone reports whether each profile needs a zone. A profile with a bad date of birth is refused before
// its zone is guessed, so the host's guess is not called for a user who does not exist.
func needsZone(env *environment, rules []almanac.Option) bool {
	_, err := almanac.NewUser(almanac.Profile{DateOfBirth: "-"}, env.now, rules...)
	return slices.ContainsFunc(problemsOf(err), func(p problem) bool { return p.Field == "timezone" })
}

// unknown returns an error if the date that stands for an absent one is not usable.
func (c *importUsers) unknown(optional bool) error {
	if !optional {
		return errors.New("--unknown-date is for --optional-profile")
	}
	_, err := almanac.ParseDateOfBirth(c.Unknown, "")
	return about("--unknown-date", err)
}

// needs returns the columns that a file must have.
func (p importSettings) needs() []string {
	if p.update {
		return nil
	}
	return slices.DeleteFunc(requiredColumns(p.optional), func(name string) bool { return p.zoneless && name == "timezone" })
}

const (
	// importConnections are those of the two transactions that an enrolment has at a time.
	importConnections = 2
	// lockPatience is how long an import waits for a user whom another transaction has locked.
	lockPatience = time.Second
)

// Run imports.
func (c *importUsers) Run(ctx context.Context, env *environment) error {
	plan, err := c.parse(env)
	if err != nil {
		return err
	}
	in, err := openInput(ctx, env.in, c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	name := c.File
	if name == "-" {
		name = "standard input"
	}
	users, err := plan.read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	repository := almanac.Repository(nowhere{now: env.now})
	options := []almanac.Option{almanac.WithOptionalProfile()} // nothing is stored in a dry run, so no observer of the host is notified
	if c.asksDatabase() {
		options = plan.rules
		store, closing, err := c.Tables.open(ctx, env, importConnections, postgres.WithLockTimeout(lockPatience))
		if err != nil {
			return err
		}
		defer closing()
		repository = store
	}
	i := &importing{name: name, rows: users, most: plan.most, stretch: 50_000, progress: newProgress(env.errs, in), quiet: c.JSON,
		judging: judging{plan.rules, c.Unknown, c.DryRun, c.Update}}
	if c.Update {
		i.stretch = 1000 // a page of ops.PutUsers: what it refuses is known before the next page is read
	}
	err = i.run(ctx, repository, plan.registry, options...)
	i.progress.end()
	report := i.report(err)
	return cmp.Or(err, env.report(c.JSON, report, func() error { return report.write(env.out) }), i.verdict())
}

func (p importSettings) read(in io.Reader) (rows, error) {
	if p.format == "csv" {
		return readCSV(in, p.who, p.needs())
	}
	return &jsonRows{reader: bufio.NewReaderSize(in, 64<<10), who: p.who, needs: p.needs()}, nil
}

// importReport is what there is to say about an import.
type importReport struct {
	File   string `json:"file"`
	DryRun bool   `json:"dryRun"`
	update bool
	// Complete says whether the file was read to its end.
	Complete bool `json:"complete"`
	Rows     int  `json:"rows"`
	tally
	Seconds  float64   `json:"seconds"`
	Refusals []refusal `json:"refusals"`
	Error    string    `json:"error,omitempty"` // why it is not complete
}

func (i *importing) report(err error) importReport {
	r := importReport{
		File: i.name, DryRun: i.dry, update: i.update, Complete: err == nil, Rows: i.done.rows(), tally: i.done,
		Seconds: time.Since(i.progress.begun).Seconds(), Refusals: append([]refusal{}, i.refusals...),
	}
	if err != nil {
		r.Error = bare(err.Error())
	}
	return r
}

func (r importReport) write(out io.Writer) error {
	text := fmt.Sprintf("stored %s with %s; %s there already", counted(r.Created, "user"), counted(r.Events, "event"), counted(r.Existing, "user"))
	switch {
	case r.update && r.DryRun:
		text = fmt.Sprintf("would create %s and change %s; %d unchanged", counted(r.Created, "user"), counted(r.Changed, "user"), r.Unchanged)
	case r.update:
		text = fmt.Sprintf("created %s and changed %s; %d unchanged; %s added, %d moved, %d removed", counted(r.Created, "user"), counted(r.Changed, "user"), r.Unchanged,
			counted(r.Events, "event"), r.Moved, r.Removed)
	case r.DryRun:
		text = fmt.Sprintf("would store %s with %s", counted(r.Created, "user"), counted(r.Events, "event"))
	}
	text += fmt.Sprintf("; %s refused", counted(r.Refused, "row"))
	if r.Optional > 0 {
		text += fmt.Sprintf(" (--optional-profile accepts %d)", r.Optional)
	}
	if !r.Complete {
		text += "; not read to the end"
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// verdict is an error where a row was refused.
func (i *importing) verdict() error {
	if i.done.Refused == 0 {
		return nil
	}
	return fmt.Errorf("%s of %d refused", counted(i.done.Refused, "row"), i.done.rows())
}
