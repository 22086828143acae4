package command

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// server says which database a command works on.
type server struct {
	DatabaseURL string `help:"The PostgreSQL database; required." placeholder:"URL" env:"DATABASE_URL" default:""`
}

func (s *server) validate(env *environment) error {
	if env.host.Open != nil {
		return nil // there is no such flag
	}
	if s.DatabaseURL == "" {
		return errors.New("--database-url or DATABASE_URL is required")
	}
	_, err := pgxpool.ParseConfig(s.DatabaseURL)
	return about("--database-url", err)
}

// pool returns the host's pool, or one of so many connections at most, and tries it.
func (s *server) pool(ctx context.Context, env *environment, connections int32) (*pgxpool.Pool, error) {
	open := env.host.Open
	if open == nil {
		open = func(ctx context.Context) (*pgxpool.Pool, error) {
			config, err := pgxpool.ParseConfig(s.DatabaseURL)
			if err != nil {
				return nil, err
			}
			config.ConnConfig.RuntimeParams["application_name"] = env.host.Name
			config.MaxConns = connections
			return pgxpool.NewWithConfig(ctx, config)
		}
	}
	pool, err := open(ctx)
	if err != nil {
		return nil, err
	}
	trying, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if err := pool.Ping(trying); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// tables says where users and events are that a command is about.
type tables struct {
	Server server `embed:""`
	Schema string `help:"The schema of the tables (default ${default})." placeholder:"NAME" default:"${schema}"`
	As     string `help:"Who asks for changes: stored with steps, pauses and opt-outs (default: the user of the operating system)." placeholder:"NAME"`
}

// asking returns a context with the principal of changes: that of the flag --as, or the one of the host, or the user of the operating
// system.
func asking(ctx context.Context, flags []*kong.Flag) context.Context {
	for _, f := range flags {
		if name, given := f.Target.Interface().(string); f.Name == "as" && given && name != "" {
			return almanac.WithPrincipal(ctx, name)
		}
	}
	if almanac.Principal(ctx) != "" {
		return ctx
	}
	if u, err := user.Current(); err == nil {
		return almanac.WithPrincipal(ctx, u.Username)
	}
	return ctx // the database then stores its role
}

// validate returns everything that is wrong with it, without asking the database.
func (t *tables) validate(env *environment) error {
	return errors.Join(t.Server.validate(env), validateSchema(t.Schema))
}

func validateSchema(name string) error {
	_, err := postgres.New(new(pgx.Conn), postgres.WithSchema(name)) // which does not connect
	return about("--schema", err)
}

// statementLimit is patience with one statement: what a command asks for may be
// rare, and found by looking at everything.
const statementLimit = time.Minute

// open returns a store on a database that this release can work on, and what closes it.
func (t *tables) open(ctx context.Context, env *environment, connections int32, options ...postgres.Option) (*postgres.Store, func(), error) {
	pool, store, err := t.opened(ctx, env, connections, options...)
	if err != nil {
		return nil, nil, err
	}
	return store, pool.Close, nil
}

// use opens a store for do, if neither the flags nor other arguments are wrong.
func (t *tables) use(ctx context.Context, env *environment, wrong error, do func(*postgres.Store) error) error {
	if err := misused(wrong, t.validate(env)); err != nil {
		return err
	}
	store, closing, err := t.open(ctx, env, 1)
	if err != nil {
		return err
	}
	defer closing()
	return do(store)
}

// opened is open for a command that also queries the pool itself. The caller closes the pool.
func (t *tables) opened(ctx context.Context, env *environment, connections int32, options ...postgres.Option) (*pgxpool.Pool, *postgres.Store, error) {
	pool, err := t.Server.pool(ctx, env, connections)
	if err != nil {
		return nil, nil, err
	}
	options = append([]postgres.Option{postgres.WithSchema(t.Schema), postgres.WithTimeout(statementLimit)}, options...)
	store, err := postgres.New(pool, options...)
	if err == nil {
		err = store.Verify(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return pool, store, nil
}

// dial returns a connection and a store on it, whatever release the database is of,
// with some patience for each operation.
func (t *tables) dial(ctx context.Context, env *environment, patience time.Duration) (*pgx.Conn, *postgres.Store, error) {
	conn, err := env.connect(ctx, t.Server.DatabaseURL)
	if err != nil {
		return nil, nil, err
	}
	store, err := postgres.New(conn, postgres.WithSchema(t.Schema), postgres.WithTimeout(patience))
	if err != nil {
		disconnect(ctx, conn)
		return nil, nil, err
	}
	return conn, store, nil
}

//go:embed queries/*.sql
var queries embed.FS

// statement returns one of the files under queries, for a schema. Each begins with
// what it takes, what it returns and what it costs.
func statement(name, schema string) string {
	text, err := queries.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("almanac: no statement %s: %v", name, err)) // it was embedded
	}
	return strings.ReplaceAll(string(text), `:"schema"`, pgx.Identifier{schema}.Sanitize())
}

// connectLimit is patience with a server that does not answer at all.
const connectLimit = 10 * time.Second

// connect returns a connection from the host's pool, or to the server of url. In the latter case the
// name of the command is the application_name of the session. It wins over that of the URL, which mostly
// is the URL of a program: otherwise the trail would attribute what the command did to the program.
func (e *environment) connect(ctx context.Context, url string) (*pgx.Conn, error) {
	if e.host.Open != nil {
		return e.take(ctx)
	}
	return e.dial(ctx, url)
}

// dial is connect for the server of a URL, whatever the host opens.
func (e *environment) dial(ctx context.Context, url string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	config, err := pgxpool.ParseConfig(url) // which also knows the settings of pools, such as pool_max_conns
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = e.host.Name
	return pgx.ConnectConfig(ctx, config.ConnConfig)
}

// take opens the host's pool for one of its connections, which outlives the pool.
func (e *environment) take(ctx context.Context) (*pgx.Conn, error) {
	pool, err := e.host.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	acquired, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return acquired.Hijack(), nil
}

// disconnect closes a connection also when the command was interrupted.
func disconnect(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the server notices either way
}

// comparison says whether a database would place the same wall times at the same instants.
type comparison struct {
	State verdict `json:"state"`
	// Instant is the first one, of those that were compared, at which they differ, in
	// UTC; Here and There are the offsets at it.
	Instant *time.Time `json:"instant,omitempty"`
	Here    string     `json:"here,omitempty"`
	There   string     `json:"there,omitempty"`
	Error   string     `json:"error,omitempty"` // why it is unavailable
}

// verdict is what a comparison comes to.
type verdict string

const (
	agrees      verdict = "agrees"
	differs     verdict = "differs"
	unknownZone verdict = "unknownZone"
	unavailable verdict = "unavailable"
)

// comparedYears is how far ahead a comparison looks.
const comparedYears = 10

// compare asks a database for its offsets in ten years, once a week and around each change that z knows.
func compare(ctx context.Context, env *environment, url string, z calendar.Timezone) *comparison {
	conn, err := env.connect(ctx, url)
	if err != nil {
		return &comparison{State: unavailable, Error: oneLine(err)}
	}
	defer disconnect(ctx, conn)
	store, err := postgres.New(conn)
	if err != nil {
		return &comparison{State: unavailable, Error: oneLine(err)}
	}
	return compareOn(ctx, store, z, env.now)
}

// compareOn is compare for a database that one is connected to.
func compareOn(ctx context.Context, store *postgres.Store, z calendar.Timezone, now time.Time) *comparison {
	instants := samples(z, now)
	theirs, err := store.Offsets(ctx, z.String(), instants)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == invalidParameterValue {
		return &comparison{State: unknownZone}
	}
	if err != nil {
		return &comparison{State: unavailable, Error: oneLine(err)}
	}
	for i, instant := range instants {
		if here := offsetAt(z, instant); here != theirs[i] {
			return &comparison{State: differs, Instant: &instant, Here: offsetText(here), There: offsetText(theirs[i])}
		}
	}
	return &comparison{State: agrees}
}

// invalidParameterValue is PostgreSQL's answer to a zone that it does not have.
const invalidParameterValue = "22023"

func samples(z calendar.Timezone, now time.Time) []time.Time {
	const week = 7 * 24 * time.Hour
	now = now.UTC().Truncate(time.Second)
	end := now.AddDate(comparedYears, 0, 0)
	var instants []time.Time
	for at := now; at.Before(end); at = at.Add(week) {
		instants = append(instants, at)
	}
	for at := now; ; {
		next, ok := z.NextChange(at)
		if !ok || next.At.After(end) {
			break
		}
		instants = append(instants, next.At.Add(-time.Second), next.At)
		at = next.At
	}
	slices.SortFunc(instants, time.Time.Compare)
	return instants
}

// offsetAt returns how far clocks in z stand east of UTC.
func offsetAt(z calendar.Timezone, instant time.Time) time.Duration {
	return z.WallTime(instant).Labelled().Sub(instant.Truncate(time.Second))
}

// String says it in words. A nil comparison was never made.
func (c *comparison) String() string {
	switch {
	case c == nil:
		return "not asked; give --database-url"
	case c.State == agrees:
		return fmt.Sprintf("agrees for the next %d years", comparedYears)
	case c.State == differs:
		return fmt.Sprintf("differs: at %s clocks stand at %s there, at %s here", c.Instant.Format(time.RFC3339), c.There, c.Here)
	case c.State == unknownZone:
		return "does not know this zone"
	}
	return "cannot be asked: " + c.Error
}
