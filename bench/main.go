// Command bench measures Almanac beside its peers, on one durable PostgreSQL
// server of its own. README.md says what each row is, and what it does not say.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := measureAll
	if os.Getenv(ordersVariable) != "" {
		run = work
	}
	if err := run(ctx); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measureAll is the program as it is called by hand.
func measureAll(ctx context.Context) error {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		return err
	}
	if o.from != "" {
		r, err := readReport(o.from)
		if err != nil {
			return err
		}
		return r.illustrate(o.pictures)
	}
	b, err := newBench(ctx, o, os.Stderr)
	if err != nil {
		return err
	}
	err = b.run(ctx)
	if err == nil && o.pictures != "" {
		err = b.report.illustrate(o.pictures)
	}
	// What was measured before something failed is worth having.
	return errors.Join(err, b.report.print(os.Stdout), b.report.write(o.out), b.cluster.close(ctx))
}

// options are what the flags say.
type options struct {
	sizes    sizes
	only     *regexp.Regexp
	out      string
	pictures string // where to write pictures; "" for nowhere
	from     string // a report to draw, instead of measuring
	nodeDir  string
	settings map[string]string
}

// sizes say how much is measured. They are part of the report.
type sizes struct {
	Rounds    int             `json:"rounds"`
	Events    int             `json:"events"`             // of a backlog
	Limit     time.Duration   `json:"limit_nanoseconds"`  // of working one off
	Spread    int             `json:"spread"`             // events one after the other
	Over      time.Duration   `json:"over_nanoseconds"`   // from the first of them to the last
	Burst     int             `json:"burst"`              // events due at one instant
	Tries     int             `json:"tries"`              // events that are planned 50 ms ahead
	Tables    []int           `json:"tables"`             // rows behind which is claimed
	Idle      []int           `json:"idle"`               // events far off, while nothing is due
	Held      int             `json:"held"`               // events ahead of their instant in one process
	Aged      int             `json:"aged"`               // events worked off while an old transaction is open, or released from dead workers
	Crowd     int             `json:"crowd"`              // events of a lane beside few of another one
	Beside    int             `json:"beside"`             // events of a backlog beside a neighbour
	Waiting   int             `json:"waiting"`            // due events of a paused or an unhandled type
	Ended     int             `json:"ended"`              // ended events of a user who is edited
	History   int             `json:"history"`            // ended events of all users
	Viewed    []int           `json:"viewed"`             // events of all users, before which a dashboard is looked at
	Processes []int           `json:"processes"`          // how many work at once
	Fans      []int           `json:"fans"`               // how many deliver, with and without a stream
	Takes     []time.Duration `json:"takes_nanoseconds"`  // of their receivers
	Shards    int             `json:"shards"`             // schemas of the row with many
	Crash     int             `json:"crash"`              // events of a backlog while a worker is killed
	Window    time.Duration   `json:"window_nanoseconds"` // of writing, and of idling
}

// takes are how long a receiver takes to answer: not at all, as long as one nearby, and as
// long as one far away.
var takes = []time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond}

func fullSizes() sizes {
	return sizes{
		Rounds: 3, Events: 60_000, Limit: 6 * time.Second,
		Spread: 2000, Over: time.Minute, Burst: 100_000, Tries: 3,
		Tables: []int{1000, 10_000, 100_000, 1_000_000}, Idle: []int{100_000}, Held: 100_000, Aged: 300_000, Crowd: 60_000, Beside: 20_000, Waiting: 500_000, Ended: 3650, History: 1_000_000, Viewed: []int{100_000}, Processes: []int{1, 2, 4, 8}, Fans: []int{1, 2, 4}, Takes: takes, Shards: 64, Crash: 2000, Window: 5 * time.Second,
	}
}

// quickSizes are for looking whether it works: their figures mean little.
func quickSizes() sizes {
	return sizes{
		Rounds: 1, Events: 10_000, Limit: 3 * time.Second,
		Spread: 300, Over: 6 * time.Second, Burst: 10_000, Tries: 3,
		Tables: []int{1000, 10_000, 100_000}, Idle: []int{10_000}, Held: 10_000, Aged: 30_000, Crowd: 10_000, Beside: 5000, Waiting: 50_000, Ended: 3650, History: 100_000, Viewed: []int{100_000}, Processes: []int{1, 2}, Fans: []int{1, 2}, Takes: takes, Shards: 64, Crash: 1000, Window: 2 * time.Second,
	}
}

func parse(args []string, out io.Writer) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	quick := flags.Bool("quick", false, "take small sizes, to see that it works")
	huge := flags.Bool("huge", false, "measure claims, idling, beside and dashboard also with ten million rows, and lanes/fair with a million, which takes long to prepare")
	rounds := flags.Int("rounds", 0, "how many rounds of what is run in rounds; 0 means 3, or 1 with -quick")
	events := flags.Int("events", 0, "the size of a backlog; 0 means 60,000, or 10,000 with -quick")
	burst := flags.Int("burst", 0, "how many events are due at one instant; 0 means 100,000, or 10,000 with -quick")
	only := flags.String("only", "", "run the rows whose section/name matches this expression")
	path := flags.String("out", "bench.json", "where to write the report")
	pictures := flags.String("pictures", "", "write pictures of the report, and its figures, into this directory")
	from := flags.String("from", "", "measure nothing: draw the -pictures of this report")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *rounds < 0 || *events < 0 || *burst < 0 {
		return options{}, errors.New("a size is negative")
	}
	if *from != "" && *pictures == "" {
		return options{}, errors.New("-from needs -pictures")
	}
	expression, err := regexp.Compile(*only)
	if err != nil {
		return options{}, fmt.Errorf("-only: %w", err)
	}
	o := options{sizes: fullSizes(), only: expression, out: *path, pictures: *pictures, from: *from, nodeDir: "node", settings: settings()}
	if *quick {
		o.sizes = quickSizes()
	}
	if *huge {
		o.sizes.Tables = append(o.sizes.Tables, 10_000_000)
		o.sizes.Idle = append(o.sizes.Idle, 1_000_000, 10_000_000)
		o.sizes.History = 10_000_000
		o.sizes.Crowd = 1_000_000
		o.sizes.Viewed = append(o.sizes.Viewed, 10_000_000)
	}
	for _, given := range []struct{ flag, size *int }{
		{rounds, &o.sizes.Rounds}, {events, &o.sizes.Events}, {burst, &o.sizes.Burst},
	} {
		if *given.flag > 0 {
			*given.size = *given.flag
		}
	}
	return o, nil
}

// bench is one run of this program.
type bench struct {
	sizes
	only    *regexp.Regexp
	nodeDir string
	// settings are those of further servers.
	settings map[string]string
	cluster  *cluster
	report   *report
	log      io.Writer
	filling  time.Duration // spent on templates so far
}

func newBench(ctx context.Context, o options, log io.Writer) (*bench, error) {
	b := &bench{sizes: o.sizes, only: o.only, nodeDir: o.nodeDir, settings: o.settings, log: log, report: &report{Began: time.Now().UTC(), Sizes: o.sizes}}
	var err error
	if b.report.Machine, err = describeMachine(); err != nil {
		return nil, err
	}
	if b.cluster, err = startCluster(ctx, o.settings); err != nil {
		return nil, err
	}
	if b.report.Versions, err = b.cluster.versions(ctx); err != nil {
		return nil, err
	}
	b.report.Server, err = b.cluster.serverSettings(ctx)
	b.logf("%s; a flush takes %.0f µs", b.cluster.server.Describe(), b.report.Machine.Flush)
	return b, err
}

// durations is the section with how long each section took.
const durations = "time"

// run measures everything that was asked for.
func (b *bench) run(ctx context.Context) error {
	defer func() { b.report.Took = time.Since(b.report.Began).Seconds() }()
	for _, s := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"throughput", b.throughput}, {"lateness", b.lateness}, {"burst", b.burst}, {"wake", b.wake}, {"claims", b.claims}, {"lanes", b.lanes},
		{"horizon", b.horizon}, {"recovery", b.recovery}, {"beside", b.beside}, {"writing", b.writing}, {"broadcast", b.broadcasts}, {"processes", b.processes},
		{"fanout", b.fanout}, {"shards", b.shards}, {"failover", b.failover}, {"idle", b.idle}, {"held", b.held}, {"dashboard", b.dashboard},
	} {
		if err := b.timed(ctx, s.name, s.measure); err != nil {
			return err
		}
	}
	return nil
}

// timed measures a section, and reports how long that took.
func (b *bench) timed(ctx context.Context, section string, measure func(context.Context) error) error {
	rows, began := len(b.report.Rows), time.Now()
	b.filling = 0
	b.cluster.copying.Store(0)
	err := measure(ctx)
	if len(b.report.Rows) == rows { // none was chosen
		return err
	}
	b.report.declare(durations, section, "how long a section of this report took").add([]reading{
		{"whole", "s", time.Since(began).Seconds()},
		{"templates", "s", b.filling.Seconds()},
		{"copies", "s", time.Duration(b.cluster.copying.Load()).Seconds()},
	})
	return err
}

// chosen reports whether a row is to be measured.
func (b *bench) chosen(section, name string) bool { return b.only.MatchString(section + "/" + name) }

func (b *bench) leaveOut(section, name, reason string) {
	b.report.LeftOut = append(b.report.LeftOut, absence{section + "/" + name, reason})
	b.logf("%s/%s is left out: %s", section, name, reason)
}

// template prepares a database to copy, and says so, since it can take a while.
func (b *bench) template(ctx context.Context, name string, fill func(context.Context, database) error) error {
	began := time.Now()
	if b.cluster.templates[name] {
		return nil
	}
	err := b.cluster.template(ctx, name, fill)
	b.filling += time.Since(began)
	b.logf("prepared %s in %.1f s", name, time.Since(began).Seconds())
	return err
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(b.log, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// entry is a row on its way: something to run once in each round.
type entry struct {
	name     string
	contract string
	lacks    string // of Almanac's contract
	run      func(ctx context.Context) ([]reading, error)
}

// rounds runs every entry once in each round, each round beginning with another:
// what the machine does meanwhile meets them all alike.
func (b *bench) rounds(ctx context.Context, section string, count int, entries []entry) error {
	rows := make([]*row, len(entries))
	for i, e := range entries {
		rows[i] = b.report.declare(section, e.name, e.contract)
		rows[i].Lacks = e.lacks
	}
	for round := range count {
		for n := range entries {
			i := (n + round) % len(entries)
			readings, err := entries[i].run(ctx)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", section, entries[i].name, err)
			}
			rows[i].add(readings)
			b.logf("%s/%s, round %d: %s", section, entries[i].name, round+1, said(readings))
		}
	}
	return nil
}

// abreast runs every entry once, all at the same time: for what mostly waits.
func (b *bench) abreast(ctx context.Context, section string, entries []entry) error {
	results, errs := make([][]reading, len(entries)), make([]error, len(entries))
	var group sync.WaitGroup
	for i, e := range entries {
		group.Go(func() { results[i], errs[i] = e.run(ctx) })
	}
	group.Wait()
	for i, e := range entries {
		if errs[i] != nil {
			return fmt.Errorf("%s/%s: %w", section, e.name, errs[i])
		}
		b.report.declare(section, e.name, e.contract).add(results[i])
		b.logf("%s/%s: %s", section, e.name, said(results[i]))
	}
	return nil
}

func said(readings []reading) string {
	parts := make([]string, len(readings))
	for i, r := range readings {
		parts[i] = strings.TrimSpace(fmt.Sprintf("%s %s %s", r.name, figure(r.value), r.unit))
	}
	return strings.Join(parts, ", ")
}
