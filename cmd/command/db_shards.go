package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/shards"
)

// ofShards are commands about schemas that are parts of a store.
type ofShards struct {
	Move    moveSchema  `cmd:"" help:"Move a schema to another server, while programs use it."`
	Abandon abandonMove `cmd:"" help:"Undo a move before the new server takes writes."`
}

// between says which schema moves, and between which servers.
type between struct {
	Schema string `arg:"" help:"The schema."`
	Server server `embed:""`
	To     string `help:"The database on the new server; required." placeholder:"URL"`
}

// maxMoved is the most bytes of the name of a schema that moves.
const maxMoved = 50

func (b *between) validate(env *environment) error {
	var errSchema, errTo error
	switch _, err := postgres.New(new(pgx.Conn), postgres.WithSchema(b.Schema)); { // which does not connect
	case err != nil:
		errSchema = about("<schema>", err)
	case len(b.Schema) > maxMoved:
		errSchema = fmt.Errorf("<schema>: has more than %d bytes", maxMoved)
	}
	if b.To == "" {
		errTo = errors.New("--to is required")
	} else if _, err := pgxpool.ParseConfig(b.To); err != nil {
		errTo = about("--to", err)
	}
	return errors.Join(errSchema, errTo, b.Server.validate(env))
}

// dial connects to both servers. The caller calls the function.
func (b *between) dial(ctx context.Context, env *environment) (from, to *pgx.Conn, closing func(), err error) {
	from, err = env.connect(ctx, b.Server.DatabaseURL)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the old server: %w", err)
	}
	to, err = env.dial(ctx, b.To)
	if err != nil {
		disconnect(ctx, from)
		return nil, nil, nil, fmt.Errorf("the new server: %w", err)
	}
	return from, to, func() { disconnect(ctx, from); disconnect(ctx, to) }, nil
}

// moveSchema moves a schema.
type moveSchema struct {
	Between between `embed:""`
	Source  string  `help:"How the new server reaches the old database (default: as --database-url)." placeholder:"URL"`
	Publish string  `help:"The command of a shell that gives programs the new address." placeholder:"COMMAND"`
	Wait    string  `help:"How long programs are kept waiting in one attempt to close the old schema, 10ms to 1m (default ${default})." placeholder:"DURATION" default:"500ms"`
	DryRun  bool    `help:"Change nothing; show which steps are left, and what is missing."`
	Yes     bool    `help:"Move the schema."`
	JSON    bool    `help:"Write JSON." name:"json"`
}

func (c *moveSchema) parse(env *environment) (o shards.MoveOptions, err error) {
	var errYes, errWait, errSource, errPublish error
	o = shards.MoveOptions{Schema: c.Between.Schema, Source: c.Source, DryRun: c.DryRun}
	if c.DryRun == c.Yes {
		errYes = errors.New("either --dry-run or --yes is required")
	}
	if o.Wait, err = time.ParseDuration(c.Wait); err != nil || o.Wait < 10*time.Millisecond || o.Wait > time.Minute {
		errWait = fmt.Errorf("--wait: %q is not a duration from 10ms to 1m", c.Wait)
	}
	if o.Source == "" {
		o.Source = c.Between.Server.DatabaseURL
	}
	if o.Source == "" && c.Yes && env.host.Open != nil {
		errSource = errors.New("--source is required")
	}
	if c.Publish == "" && c.Yes {
		errPublish = errors.New("--publish is required with --yes")
	}
	o.Publish = func(ctx context.Context) error { return env.shell(ctx, c.Publish) }
	return o, misused(c.Between.validate(env), errYes, errWait, errSource, errPublish)
}

// shell runs a command of a shell. What it prints is messages.
func (e *environment) shell(ctx context.Context, command string) error {
	run := exec.CommandContext(ctx, "sh", "-c", command)
	run.Stdout, run.Stderr = e.errs, e.errs
	if err := run.Run(); err != nil {
		return fmt.Errorf("--publish: %w", err)
	}
	return nil
}

// moveReport is what there is to say about a move.
type moveReport struct {
	Schema string            `json:"schema"`
	DryRun bool              `json:"dryRun"`
	Step   shards.MoveStep   `json:"step"` // that comes next
	Left   []shards.MoveStep `json:"left"` // with that one
	Tries  int               `json:"tries"`
	Closed float64           `json:"closedSeconds"`
	Kept   string            `json:"kept,omitempty"`
	Error  string            `json:"error,omitempty"`
}

// moveSteps are the steps in their order, and what each does.
var moveSteps = []struct {
	step shards.MoveStep
	does string
}{
	{shards.Prepare, "make the schema on the new server, without rows"},
	{shards.Copy, "copy the rows, and send what changes meanwhile"},
	{shards.Close, "rename the old schema when no transaction writes to it"},
	{shards.Wake, "let the new server take writes"},
	{shards.Publish, "give programs the new address, and end the replication"},
}

// Run moves the schema, or shows what is left to do.
func (c *moveSchema) Run(ctx context.Context, env *environment) error {
	o, err := c.parse(env)
	if err != nil {
		return err
	}
	from, to, closing, err := c.Between.dial(ctx, env)
	if err != nil {
		return err
	}
	defer closing()
	if err := c.sameRelease(ctx, from); err != nil {
		return err
	}
	show := newMoveProgress(env)
	if c.Yes {
		o.Progress = show.update
	}
	result, err := shards.Move(ctx, from, to, o)
	show.end()
	report := moveReport{Schema: o.Schema, DryRun: o.DryRun, Step: result.Step, Left: stepsFrom(result.Step), Tries: result.Tries, Closed: result.Closed.Seconds(), Kept: result.Kept}
	if err != nil {
		report.Error = bare(err.Error())
	}
	if problem := env.report(c.JSON, report, func() error { return report.write(env) }); problem != nil {
		return problem
	}
	if err != nil && c.Yes {
		env.advise(result.Step)
	}
	return err
}

// sameRelease refuses a schema of another version than this program makes. A schema that is closed has another name.
func (c *moveSchema) sameRelease(ctx context.Context, from *pgx.Conn) error {
	store, err := postgres.New(from, postgres.WithSchema(c.Between.Schema))
	if err != nil {
		return err
	}
	v, err := store.SchemaVersion(ctx)
	if err != nil || v.Found == 0 || v.Found == v.Known {
		return err
	}
	return errors.New(versionText(v) + ": move it with its own release, or migrate it")
}

// stepsFrom returns a step and those that follow it.
func stepsFrom(step shards.MoveStep) []shards.MoveStep {
	left := []shards.MoveStep{}
	for _, one := range moveSteps {
		if one.step == step || len(left) > 0 {
			left = append(left, one.step)
		}
	}
	return left
}

func (r moveReport) write(env *environment) error {
	switch {
	case r.DryRun && len(r.Left) > 0:
		table := tabwriter.NewWriter(env.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "STEP\tWOULD")
		for _, one := range moveSteps[len(moveSteps)-len(r.Left):] {
			fmt.Fprintf(table, "%s\t%s\n", one.step, one.does)
		}
		return table.Flush()
	case r.Error != "":
		return nil
	case r.DryRun || r.Tries == 0 && r.Closed == 0:
		return writeText(env, fmt.Sprintf("schema %s is on the new server; the old one keeps %s\n", r.Schema, r.Kept))
	}
	closed := time.Duration(r.Closed * float64(time.Second)).Round(time.Millisecond)
	return writeText(env, fmt.Sprintf("moved schema %s; no server took writes for %s; the old one keeps %s\n", r.Schema, closed, r.Kept))
}

// advise says what to do after a move that was not done to its end.
func (e *environment) advise(step shards.MoveStep) {
	switch step {
	case shards.Prepare, shards.Copy, shards.Close:
		fmt.Fprintln(e.errs, e.renamed("programs go on with the old server; run the command again, or undo the move by almanac shards abandon"))
	case shards.Wake:
		fmt.Fprintln(e.errs, e.renamed("no server takes writes: run the command again, or undo the move by almanac shards abandon"))
	case shards.Publish:
		fmt.Fprintln(e.errs, "the new server takes writes: run the command again, so that programs get its address")
	}
}

// moveProgress shows how far a move is.
type moveProgress struct {
	*progress
	step shards.MoveStep
}

func newMoveProgress(env *environment) *moveProgress {
	return &moveProgress{progress: newProgress(env.errs, new(input))}
}

// update shows a line for each step when it begins, and one for how far it is.
func (p *moveProgress) update(at shards.MoveProgress) {
	if at.Step != p.step {
		p.step = at.Step
		for _, one := range moveSteps {
			if one.step == at.Step {
				p.say(fmt.Sprintf("%s: %s", one.step, one.does))
			}
		}
		return
	}
	p.draw(func(time.Duration) string { return farText(at) })
}

// farText says how far a step is.
func farText(at shards.MoveProgress) string {
	parts := []string{string(at.Step) + ":"}
	if at.Of > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tables", at.Tables, at.Of))
	}
	if at.Behind > 0 {
		parts = append(parts, grouped(int(at.Behind>>10))+" kB behind")
	}
	if at.Tries > 0 {
		parts = append(parts, "a transaction was in the way "+counted(at.Tries, "time"))
	}
	return strings.Join(parts, "  ")
}

// abandonMove undoes a move.
type abandonMove struct {
	Between between `embed:""`
	JSON    bool    `help:"Write JSON." name:"json"`
}

// Run abandons the move.
func (c *abandonMove) Run(ctx context.Context, env *environment) error {
	if err := misused(c.Between.validate(env)); err != nil {
		return err
	}
	from, to, closing, err := c.Between.dial(ctx, env)
	if err != nil {
		return err
	}
	defer closing()
	if err := shards.Abandon(ctx, from, to, shards.MoveOptions{Schema: c.Between.Schema}); err != nil {
		return err
	}
	text := fmt.Sprintf("abandoned the move of schema %s: programs go on with the old server\n", c.Between.Schema)
	return env.report(c.JSON, map[string]any{"schema": c.Between.Schema, "abandoned": true}, func() error { return writeText(env, text) })
}
