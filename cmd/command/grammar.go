package command

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/alecthomas/kong"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// commands is what the command line can say.
type commands struct {
	When       when       `cmd:"" help:"Show when a rule happens in a zone, and why."`
	Zone       zone       `cmd:"" help:"Explain a time zone."`
	Zones      zones      `cmd:"" help:"Manage the zone rules that a database follows."`
	Databases  databases  `embed:""`
	Users      users      `cmd:"" help:"Manage users."`
	Events     events     `cmd:"" help:"Show events, and change single events."`
	Why        why        `cmd:"" help:"Explain what became of a user's event on a day, or why there is none." set:"birthdays=true"`
	Types      types      `embed:""`
	Completion completion `cmd:"" help:"Print a script for completion in a shell."`

	Version kong.VersionFlag `help:"Print the version."`
}

// databases are commands about a database as a whole.
type databases struct {
	Migrate migrate  `cmd:"" help:"Migrate a database, or export the migrations."`
	Doctor  doctor   `cmd:"" help:"Examine a database for problems."`
	Stats   stats    `cmd:"" help:"Count the rows of a database, and its waiting events."`
	Shards  ofShards `cmd:"" name:"shards" help:"Move a schema to another server."`
}

// types are commands about a type of event as a whole, and the trail of all of them.
type types struct {
	Backfill backfillType `cmd:"" help:"Store the events of a type that users lack." set:"birthdays=false"`

	Broadcasts broadcasts `cmd:"" help:"Send one event to each of many users."`

	RollOut rollOutType `cmd:"" name:"roll-out" help:"Plan the pending events of a type again, by a changed rule." set:"birthdays=false"`

	Rehearse rehearse `cmd:"" help:"Count the events that users will have, before they happen." set:"birthdays=false"`

	Pause  pauseType  `cmd:"" help:"Pause the delivery of a type of event."`
	Resume resumeType `cmd:"" help:"Resume the delivery of a type of event."`
	Pauses listPauses `cmd:"" help:"List which types of events are paused."`
	Lane   setLane    `cmd:"" help:"Limit how many events of a type start and are in flight."`
	Lanes  listLanes  `cmd:"" help:"List the limits of lanes."`
	Audit  audit      `cmd:"" help:"Write and show an audit trail of events."`
}

type zones struct {
	Reconcile reconcile `cmd:"" help:"Move pending events by this machine's zone rules."`
}

const description = `Almanac makes things happen at a local time of day.

    almanac when --zone America/New_York --at 02:30 --from 2026-03-07
    almanac zone Europe/Dublin
    almanac zones reconcile --dry-run
    almanac migrate up
    almanac doctor
    almanac stats
    almanac users import people.csv --id-from email
    almanac users find "ada lo"
    almanac events list --upcoming
    almanac pause BIRTHDAY

` + whichDatabase + `

It exits with 0 on success, 1 on failure, 2 when the arguments were not understood, and 130 when it was interrupted.`

// whichDatabase says where commands take the database from, unless a host opens it.
const whichDatabase = `Commands that use a database take its URL from --database-url or from the environment variable DATABASE_URL.`

// Run does what a command line says, and returns the exit code of the program:
//
//	0    when all went well
//	1    when something went wrong, or when a row or an event was refused
//	2    when the arguments were not understood
//	130  when ctx was cancelled, and the command ended in good order
//
// The arguments are those after the program's name. Results go to host.Out, and messages to host.Err.
// Changes have a principal, which is stored with them: the NAME of the flag --as, or the principal of ctx
// ([almanac.WithPrincipal]), or else the user of the operating system. Several calls may run side by side. The only global state that Run changes are the calendars that the
// process knows: it registers those of contrib/calendars, unless the host has registered others of the same
// names. Run reads the environment variables DATABASE_URL, COLUMNS (the width of the help, and of lists on a terminal), NO_COLOR and TERM.
func Run(ctx context.Context, args []string, host Host) int {
	return run(ctx, args, host.environment(time.Now()))
}

// run does what the arguments say, and returns the exit code.
func run(ctx context.Context, args []string, env *environment) (code int) {
	registerCalendars()
	type asked struct{ code int }
	defer func() { // kong asks to exit once it has shown the help or the version
		switch cause := recover().(type) {
		case nil:
		case asked:
			code = cause.code
		default:
			panic(cause)
		}
	}()
	parser := kong.Must(new(commands), kong.Name(env.host.Name), kong.Description(description), kong.Writers(env.out, env.errs),
		kong.WithHyphenPrefixedParameters(true), // --on -1
		choices, kong.Vars{"version": env.version(), "schema": env.host.Schema},
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(env),
		kong.Exit(func(code int) { panic(asked{code}) }))
	env.fit(parser.Model.Node)
	chosen, err := parser.Parse(args)
	if bad, ok := errors.AsType[*kong.ParseError](err); ok {
		if incomplete(bad.Context) {
			parser.Stdout = env.errs
			_ = bad.Context.PrintUsage(false) // that it is written to a broken pipe is not worth another message
			return exitUsage
		}
		return env.fail(bad.Context, misused(bad))
	}
	if err == nil {
		err = misused(emptyFlags(chosen)...)
	}
	if err == nil {
		chosen.BindTo(asking(ctx, chosen.Flags()), (*context.Context)(nil))
		err = chosen.Run()
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(env.errs, env.prefix()+"interrupted")
		return exitInterrupted
	}
	return env.fail(chosen, err)
}

// emptyFlags refuses flags with an empty value, which an unset variable of a shell gives: without its
// filter, a command would change more than was meant. A flag that may be empty, as --email of users
// edit, has a pointer for a field.
func emptyFlags(c *kong.Context) (errs []error) {
	for _, given := range c.Path {
		if f := given.Flag; f != nil && (f.Target.Kind() == reflect.String || f.Target.Kind() == reflect.Slice) && f.Target.Len() == 0 {
			errs = append(errs, fmt.Errorf("--%s: is empty", f.Name))
		}
	}
	return errs
}

// incomplete reports whether the arguments have no error, but do not name a command yet.
func incomplete(c *kong.Context) bool {
	return c.Error == nil && (c.Selected() == nil || !c.Selected().Leaf())
}
