// Command birthdayd greets users on their birthday, at a time of day where they live, with
// a signed webhook. It is a whole deployment of Almanac in one process: an HTTP API for
// users, PostgreSQL for users and events, and workers that deliver the events.
//
//	go run ./examples/birthdayd -demo
//
// shows it at work; birthdayd -h lists its flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // the rules of all zones, for machines that have none

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

func main() {
	signalled, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	// A second signal ends the process at once: after the first, signals have their default effect again.
	context.AfterFunc(signalled, func() { release(); stop() })
	if err := misspelt(os.Environ()); err != nil {
		fmt.Fprintf(os.Stderr, "birthdayd: %v\nbirthdayd -h lists all variables.\n", err)
		os.Exit(exitUsage)
	}
	os.Exit(run(ctx, os.Args[1:], os.LookupEnv, streams{os.Stdout, os.Stderr}))
}

// streams are the program's standard output and standard error.
type streams struct{ out, err io.Writer }

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// run runs the program until ctx is done, and returns its exit code.
func run(ctx context.Context, args []string, lookup lookupEnv, std streams) int {
	c, err := parse(args, lookup)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(std.out, help())
		return exitOK
	case err != nil:
		fmt.Fprintf(std.err, "birthdayd: %v\nbirthdayd -h lists all flags.\n", err)
		return exitUsage
	case c.version:
		fmt.Fprintln(std.out, version())
		return exitOK
	}
	if err := calendar.RegisterSystems(calendars.All()...); err != nil {
		fmt.Fprintf(std.err, "birthdayd: %v\n", err)
		return exitFailure
	}
	do := serve
	switch {
	case c.greeting.once:
		do = pass
	case c.greeting.backfill:
		do = backfill
	}
	if err := do(ctx, c, std); err != nil {
		fmt.Fprintf(std.err, "birthdayd: %v\n", err)
		return exitFailure
	}
	return exitOK
}

// version returns what the binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "birthdayd, of unknown version"
	}
	return fmt.Sprintf("birthdayd %s %s", info.Main.Version, info.GoVersion)
}
