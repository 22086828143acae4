package command

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// Host is what a program brings to its own command. Each field may be left out; the zero
// Host is the stock command. Run does not change what the fields refer to.
type Host struct {
	// Name is the name of the command, as it is typed: one word. It begins each message,
	// stands in the help and in the completion scripts, and is the application_name of
	// database sessions, unless Open opens them. Empty means "almanac".
	Name string

	// Version is what --version prints after the name. Empty means the version of the
	// program's main module, by its build information.
	Version string

	// Registry has the handlers that plan events. Nil means no handlers, except that users
	// import, add, edit, preview and reschedule, why, backfill, roll-out and rehearse, plan by the ready-made Birthday
	// and Anniversary, as their flags say.
	Registry almanac.Registry

	// Options are options of the scheduler through which the command changes the database. Observers are
	// notified of each change. WithWindow decides when events run-now makes events due, and
	// WithOptionalProfile which users are accepted: give both as to the programs that deliver. Other
	// options about deliveries have no effect, because the command delivers nothing. Nil means the
	// defaults, without a log. Of these options, a dry run of users import heeds WithOptionalProfile
	// and WithZoneGuess.
	Options []almanac.Option

	// Open opens the pool of connections to the database. A command that needs the database calls it once,
	// and closes the pool before Run returns. The pool must allow two connections. With Open there is no
	// flag --database-url, and DATABASE_URL is not read. Nil means the database of that flag or variable.
	Open func(ctx context.Context) (*pgxpool.Pool, error)

	// Schema is the default of the flag --schema. Empty means [postgres.DefaultSchema].
	Schema string

	// In is read by "users import -". A read that has begun when the context ends is not
	// waited for. Nil means standard input.
	In io.Reader

	// Out takes the results. Nil means standard output. If it is an [*os.File] that is a
	// terminal, lists fit its width.
	Out io.Writer

	// Err takes messages and progress. Nil means standard error.
	Err io.Writer
}

// environment is what a command sees of the world.
type environment struct {
	host      Host // its Name and Schema are not empty
	in        io.Reader
	out, errs io.Writer
	terminal  terminal // that out goes to
	now       time.Time
}

// environment fills in what a host leaves out.
func (h Host) environment(now time.Time) *environment {
	e := &environment{host: h, now: now}
	e.host.Name, e.host.Schema = cmp.Or(h.Name, "almanac"), cmp.Or(h.Schema, postgres.DefaultSchema)
	e.in, e.out, e.errs = cmp.Or[io.Reader](h.In, os.Stdin), cmp.Or[io.Writer](h.Out, os.Stdout), cmp.Or[io.Writer](h.Err, os.Stderr)
	e.terminal = terminalOf(e.out)
	return e
}

// prefix begins every message.
func (e *environment) prefix() string { return e.host.Name + ": " }

// version says what the program was built from.
func (e *environment) version() string {
	info, ok := debug.ReadBuildInfo()
	switch {
	case ok:
		return fmt.Sprintf("%s %s %s", e.host.Name, cmp.Or(e.host.Version, info.Main.Version), info.GoVersion)
	case e.host.Version != "":
		return e.host.Name + " " + e.host.Version
	}
	return e.host.Name + ", of unknown version"
}

// operatorOn returns a scheduler with the host's handlers and options on a store.
func (e *environment) operatorOn(store *postgres.Store) (almanac.Scheduler, error) {
	registry, err := e.registry()
	if err != nil {
		return nil, err
	}
	return almanac.NewScheduler(store, registry, quietly(e.host.Options)...)
}

// registry returns the host's handlers, or none.
func (e *environment) registry() (almanac.Registry, error) {
	if e.host.Registry != nil {
		return e.host.Registry, nil
	}
	return almanac.NewRegistry()
}

// quietly puts before options that nothing is logged.
func quietly(options []almanac.Option) []almanac.Option {
	return slices.Concat([]almanac.Option{almanac.WithLogger(slog.New(slog.DiscardHandler))}, options)
}

// Where help and advice name the command: before its subcommands, and in names of files.
var (
	invocation = regexp.MustCompile(`\balmanac (when|zones?|migrate|doctor|stats|shards|users|events|why|backfill|broadcasts|roll-out|rehearse|pauses?|lanes?|resume|audit|completion)\b`)
	scriptFile = regexp.MustCompile(`/_almanac"|completions/almanac\.fish`)
)

// renamed returns a text about the stock command as one about the host's.
func (e *environment) renamed(text string) string {
	named := func(found string) string { return strings.Replace(found, "almanac", e.host.Name, 1) }
	return scriptFile.ReplaceAllStringFunc(invocation.ReplaceAllStringFunc(text, named), named)
}

// fit makes the parser's model that of the host's command, in flags and in help.
func (e *environment) fit(n *kong.Node) {
	if e.host.Open != nil {
		drop(n, "database-url")
		n.Help = strings.Replace(n.Help, whichDatabase+"\n\n", "", 1)
	}
	if e.host.Registry != nil && slices.Contains(plannedBy, n.Path()) {
		drop(n, "birthday", "anniversary", "at", "gap", "fold", "leap-day")
	}
	n.Help, n.Detail = e.renamed(n.Help), e.renamed(e.detail(n.Path()))
	for _, child := range n.Children {
		e.fit(child)
	}
}

//go:embed help.txt
var helpTexts string

// details has what the help of each command says below its line, by the path of the command.
var details = template.Must(template.New("").Parse(helpTexts))

// detail returns what the help says below the line of a command, or "" for a group of commands.
func (e *environment) detail(path string) string {
	if details.Lookup(path) == nil {
		return ""
	}
	var text strings.Builder
	about := struct{ Handlers, Options bool }{e.host.Registry != nil, len(e.host.Options) > 0}
	if err := details.ExecuteTemplate(&text, path, about); err != nil {
		panic(err) // the template was embedded
	}
	return strings.Trim(text.String(), "\n")
}

// drop takes flags away from a command.
func drop(n *kong.Node, names ...string) {
	n.Flags = slices.DeleteFunc(n.Flags, func(f *kong.Flag) bool { return slices.Contains(names, f.Name) })
}
