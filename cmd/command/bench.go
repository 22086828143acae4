package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/postgres"
)

// benchmark measures a database.
type benchmark struct {
	Events  string `help:"How many users to create, each with an event that is due at once (default ${default})." placeholder:"N" default:"20000"`
	Spread  string `help:"How many further events to deliver, one every 25 ms, to measure how late they are (default ${default})." placeholder:"N" default:"200"`
	Workers string `help:"How many events are delivered at once (default ${default})." placeholder:"N" default:"1000"`
	Limit   string `help:"Stop measuring after this time, and report the results so far (default ${default})." placeholder:"DURATION" default:"2m"`
	JSON    bool   `help:"Write JSON." name:"json"`

	Server server `embed:""`
}

// Help is shown below the command's line.
func (c *benchmark) Help() string {
	return `It works in a schema of its own, almanac_bench_ and eight digits, which it creates and drops, also when it is interrupted. The role must be allowed to create a schema. Meanwhile the database is under full load. Deliveries do nothing, so the figures are upper limits for this database from this machine.

    almanac bench
    almanac bench --events 100000 --json`
}

const (
	maxBenchEvents  = 1_000_000
	maxBenchSpread  = 10_000
	maxBenchWorkers = 10_000
)

// benchPlan is how much is to be measured.
type benchPlan struct {
	events, spread, workers int
	limit                   time.Duration
}

func (c *benchmark) understand(env *environment) (benchPlan, error) {
	var p benchPlan
	var errEvents, errSpread, errWorkers, errLimit error
	p.events, errEvents = number("--events", c.Events, 1, maxBenchEvents)
	p.spread, errSpread = number("--spread", c.Spread, 1, maxBenchSpread)
	p.workers, errWorkers = number("--workers", c.Workers, 1, maxBenchWorkers)
	limit, err := time.ParseDuration(c.Limit)
	if p.limit = limit; err != nil || limit <= 0 {
		errLimit = fmt.Errorf("--limit: %q is not a duration such as 90s or 2m", c.Limit)
	}
	return p, misused(errEvents, errSpread, errWorkers, errLimit, c.Server.understand(env))
}

// benchConnections are enough for Run and an enrolment.
const benchConnections = 8

// Run measures.
func (c *benchmark) Run(ctx context.Context, env *environment) error {
	plan, err := c.understand(env)
	if err != nil {
		return err
	}
	pool, err := c.Server.pool(ctx, env, benchConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	report := benchReport{Workers: plan.workers}
	if report.Server, err = serverSettings(ctx, pool); err != nil {
		return err
	}
	schema := "almanac_bench_" + uuid.NewString()[:8]
	fmt.Fprintf(env.errs, "measuring in schema %s, which is dropped afterwards\n", schema)
	err = measureIn(ctx, pool, schema, func(store *postgres.Store) error {
		m := &measurement{plan: plan, pool: pool, schema: schema, store: store}
		return m.measure(ctx, &report)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.out, report)
	}
	return report.write(env.out)
}

// dropLimit is patience with the removal of what was measured in.
const dropLimit = time.Minute

// measureIn makes the tables in a schema of their own, and takes them away again
// whatever happens.
func measureIn(ctx context.Context, pool *pgxpool.Pool, schema string, measure func(*postgres.Store) error) (err error) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropLimit)
		defer cancel()
		if errDrop := dropSchema(ctx, pool, schema); errDrop != nil {
			err = fmt.Errorf("schema %s is left, and has to be dropped by hand: %w", schema, errDrop)
		}
	}()
	options := []postgres.Option{postgres.WithSchema(schema), postgres.WithTimeout(statementLimit)}
	if err := postgres.Migrate(ctx, pool, options...); err != nil {
		return err
	}
	store, err := postgres.New(pool, options...)
	if err != nil {
		return err
	}
	return measure(store)
}

// dropSchema drops a schema that may never have been made, for want of the right to.
func dropSchema(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	exists := true
	if err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", schema).Scan(&exists); err != nil || !exists {
		return err
	}
	_, err := pool.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return err
}

// serverSettings returns those that the figures depend on most.
func serverSettings(ctx context.Context, pool *pgxpool.Pool) (map[string]string, error) {
	names := []string{
		"server_version", "fsync", "synchronous_commit", "synchronous_standby_names", "full_page_writes", "wal_compression",
		"max_wal_size", "checkpoint_timeout", "shared_buffers", "max_connections",
	}
	found, err := pool.Query(ctx, "SELECT name, coalesce(current_setting(name, true), '') FROM pg_catalog.unnest($1::text[]) AS name", names)
	if err != nil {
		return nil, err
	}
	settings := make(map[string]string)
	var name, setting string
	_, err = pgx.ForEachRow(found, []any{&name, &setting}, func() error {
		settings[name] = setting
		return nil
	})
	return settings, err
}

// benchReport is what was measured.
type benchReport struct {
	// Complete says whether the limit was not reached before the end.
	Complete  bool              `json:"complete"`
	Workers   int               `json:"workers"`
	RoundTrip float64           `json:"roundTripMs"` // to the server and back, the median
	Enrolment rate              `json:"enrolment"`   // users, each with an event
	Delivery  rate              `json:"delivery"`    // events, each with its successor
	Lateness  *lateness         `json:"lateness,omitempty"`
	Server    map[string]string `json:"server"`
}

// rate is how fast something was done.
type rate struct {
	Count     int     `json:"count"`
	Seconds   float64 `json:"seconds"`
	PerSecond int     `json:"perSecond"`
}

func rateOf(n int, took time.Duration) rate { return rate{n, took.Seconds(), perSecond(n, took)} }

// lateness is how long after their instants deliveries began, by the server's clock.
type lateness struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50Ms"`
	P99   float64 `json:"p99Ms"`
	Max   float64 `json:"maxMs"`
}

func latenessOf(late []time.Duration) *lateness {
	if len(late) == 0 {
		return nil
	}
	slices.Sort(late)
	at := func(q float64) float64 { return millis(late[min(int(q*float64(len(late))), len(late)-1)]) }
	return &lateness{len(late), at(0.50), at(0.99), at(1)}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (r benchReport) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("round trip", "%.2f ms", r.RoundTrip)
	row("enrolment", "%s/s, %s in %.1f s", grouped(r.Enrolment.PerSecond), counted(r.Enrolment.Count, "user"), r.Enrolment.Seconds)
	row("delivery", "%s/s, %s in %.1f s by %s", grouped(r.Delivery.PerSecond), counted(r.Delivery.Count, "event"), r.Delivery.Seconds, counted(r.Workers, "worker"))
	if late := r.Lateness; late != nil {
		row("lateness", "p50 %.1f ms, p99 %.1f ms, at most %.1f ms, of %s", late.P50, late.P99, late.Max, counted(late.Count, "event"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Server)) {
		row(name, "%s", cmp.Or(r.Server[name], "-"))
	}
	for _, remark := range r.remarks() {
		fmt.Fprintln(table, remark)
	}
	return table.Flush()
}

// remarks say what the figures are not worth.
func (r benchReport) remarks() []string {
	var list []string
	if !r.Complete {
		list = append(list, "the limit was reached before all was measured; see --limit")
	}
	if r.Server["fsync"] == "off" {
		list = append(list, "fsync is off: a server that keeps what it acknowledged is slower")
	}
	if r.Server["synchronous_commit"] == "off" {
		list = append(list, "synchronous_commit is off: what was acknowledged last can be lost in a crash")
	}
	return list
}
