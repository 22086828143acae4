// Command almanac looks at wall times, zones and what a database plans by them, and
// looks after that database.
//
//	almanac when --zone America/New_York --at 02:30 --from 2026-03-07 --rule daily
//	almanac zone Europe/Dublin
//	almanac zones reconcile --dry-run
//	almanac migrate up
//	almanac doctor
//	almanac stats
//	almanac users import people.csv --id-from email
//	almanac events list --overdue 5m
//	almanac events cancel 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --reason "asked not to be greeted"
//	almanac pause BIRTHDAY
//	almanac audit on
//	almanac bench
//	source <(almanac completion bash)
//
// It exits with
//
//	0    when all went well
//	1    when something went wrong; a row or an event that was refused is such a case
//	2    when the arguments were not understood
//	130  when it was interrupted, by ^C or SIGTERM, and could end in good order
//
// A second signal ends it at once, as signals do (143 in a shell for SIGTERM).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
	_ "time/tzdata" // a machine without zone files must not plan differently

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
	When       when       `cmd:"" help:"Show when a rule happens in a zone, and why then."`
	Zone       zone       `cmd:"" help:"Explain a time zone."`
	Zones      zones      `cmd:"" help:"Look after the zone rules that a database follows."`
	Migrate    migrate    `cmd:"" help:"Bring a database to a version of the schema, or write how."`
	Doctor     doctor     `cmd:"" help:"Look for what is wrong with a database."`
	Stats      stats      `cmd:"" help:"Show what a database holds, and what waits."`
	Users      users      `cmd:"" help:"Look after people."`
	Bench      benchmark  `cmd:"" help:"Measure a database."`
	Events     events     `cmd:"" help:"Look at events, and change single ones."`
	Types      types      `embed:""`
	Completion completion `cmd:"" help:"Print a script for completion in a shell."`

	Version kong.VersionFlag `help:"Print the version."`
}

// types are commands about a type of event as a whole, and the trail of all of them.
type types struct {
	Pause  pauseType  `cmd:"" help:"Let no process deliver a type of event."`
	Resume resumeType `cmd:"" help:"Let a type of event be delivered again."`
	Pauses listPauses `cmd:"" help:"List which types of events are paused."`
	Audit  audit      `cmd:"" help:"Keep a trail of what becomes of events."`
}

type zones struct {
	Reconcile reconcile `cmd:"" help:"Bring pending events into step with this machine's zone rules."`
}

const description = `Almanac makes things happen at a local time of day.

    almanac when --zone America/New_York --at 02:30 --from 2026-03-07
    almanac zone Europe/Dublin
    almanac zones reconcile --dry-run
    almanac migrate up
    almanac doctor
    almanac stats
    almanac users import people.csv --id-from email
    almanac events list --overdue 5m
    almanac pause BIRTHDAY

It exits with 0 when all went well, 1 when something went wrong, 2 when it was not understood, and 130 when it was interrupted.`

// environment is what a command sees of the world.
type environment struct {
	out, errs io.Writer
	now       time.Time
}

func main() {
	signalled, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	// A second signal ends the process at once.
	context.AfterFunc(signalled, func() { release(); stop() })
	os.Exit(run(ctx, os.Args[1:], environment{os.Stdout, os.Stderr, time.Now()}))
}

// run does what the arguments say, and returns the exit code.
func run(ctx context.Context, args []string, env environment) (code int) {
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
	parser := kong.Must(new(commands), kong.Name("almanac"), kong.Description(description), kong.Writers(env.out, env.errs),
		kong.WithHyphenPrefixedParameters(true), // --on -1
		choices, kong.Vars{"version": version()},
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&env),
		kong.Exit(func(code int) { panic(asked{code}) }))
	chosen, err := parser.Parse(args)
	if bad := (*kong.ParseError)(nil); errors.As(err, &bad) {
		if incomplete(bad.Context) {
			parser.Stdout = env.errs
			_ = bad.Context.PrintUsage(false) // that it is written to a broken pipe is not worth another message
			return exitUsage
		}
		return fail(env.errs, bad.Context, misused(bad))
	}
	if err == nil {
		err = chosen.Run()
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(env.errs, prefix+"interrupted")
		return exitInterrupted
	}
	return fail(env.errs, chosen, err)
}

// incomplete reports whether the arguments are right as far as they go, and name
// no command.
func incomplete(c *kong.Context) bool {
	return c.Error == nil && (c.Selected() == nil || !c.Selected().Leaf())
}

// version tells what the binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "almanac, of unknown version"
	}
	return fmt.Sprintf("almanac %s %s", info.Main.Version, info.GoVersion)
}
