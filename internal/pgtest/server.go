package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// server makes databases on a server.
type server struct {
	at       url.URL
	pooler   *url.URL // for the connections of the tested code, or nil
	what     string
	admin    *pgxpool.Pool
	release  func(context.Context) error // stops what was started for this process
	copying  string                      // the method of copying a database, for CREATE DATABASE
	template string                      // the migrated database that others are cloned from
	owned    bool                        // whether this process made the template

	reusables reusables
}

// startServer connects to a server for the tests of this process, and prints which it is.
func startServer(ctx context.Context) (*server, error) {
	s, err := openServer(ctx, choose)
	if err != nil {
		return nil, err
	}
	if address := os.Getenv(PoolerVariable); address != "" {
		if s.pooler, err = parseURL(address); err != nil {
			return nil, errors.Join(fmt.Errorf("pgtest: %s: %w", PoolerVariable, err), s.stop(ctx))
		}
		s.what += ", through the pooler at " + s.pooler.Host
	}
	fmt.Fprintln(os.Stderr, "pgtest: "+s.what)
	return s, nil
}

// openServer checks that the chosen server works, and makes the template if it has none.
func openServer(ctx context.Context, choose func(context.Context) (source, error)) (*server, error) {
	from, err := choose(ctx)
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, from)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %s: %w", from.what, err), from.release(ctx))
	}
	if s.template == "" {
		if err := s.makeTemplate(ctx); err != nil {
			return nil, errors.Join(err, s.stop(ctx))
		}
	}
	return s, nil
}

func parseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("not a URL of the form postgres://user:password@host:port/database")
	}
	return u, nil
}

func connect(ctx context.Context, from source) (*server, error) {
	at, err := parseURL(from.url)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(from.url)
	if err != nil {
		return nil, err
	}
	// Each connection is used for one CREATE or DROP DATABASE. More concurrent ones do not
	// make the server faster.
	config.MaxConns = 4
	admin, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}

	const facts = `
SELECT current_setting('server_version'), current_setting('server_version_num')::int / 10000,
       rolname, rolcreatedb OR rolsuper, current_setting('fsync')::boolean
FROM pg_roles
WHERE rolname = current_user`
	var (
		version, role string
		major         int
		creates       bool
		durable       bool
	)
	err = admin.QueryRow(ctx, facts).Scan(&version, &major, &role, &creates, &durable)
	switch {
	case err != nil:
	case major < pgserver.OldestMajor:
		err = fmt.Errorf("PostgreSQL %s is older than %d", version, pgserver.OldestMajor)
	case !creates:
		err = fmt.Errorf("role %q may not create databases", role)
	}
	if err != nil {
		admin.Close()
		return nil, err
	}
	s := &server{at: *at, what: from.what, admin: admin, release: from.release, template: from.template}
	if !strings.Contains(s.what, "PostgreSQL ") {
		s.what += ", PostgreSQL " + version
	}
	// The default copies through the write-ahead log, which takes twice the processor time. Copying files
	// takes two checkpoints, which are expensive when flushes are on (PostgreSQL manual, CREATE DATABASE).
	if major >= 15 && !durable {
		s.copying = " STRATEGY FILE_COPY"
	}
	return s, nil
}

// url returns the URL with which the tested code connects to the database of that name.
func (s *server) url(database string) string {
	if s.pooler != nil {
		return in(*s.pooler, database)
	}
	return s.direct(database)
}

// direct returns the URL of the database of that name on the server itself.
func (s *server) direct(database string) string { return in(s.at, database) }

func in(u url.URL, database string) string {
	u.Path = "/" + database
	query := u.Query()
	query.Del("dbname") // it would override the path
	query.Del("database")
	u.RawQuery = query.Encode()
	return u.String()
}

// empty creates an empty database. It uses template0, because template1 of a given server
// may contain anything, and byte order for sorting.
func (s *server) empty(ctx context.Context) (string, error) {
	return s.create(ctx, "TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
}

// migrated creates a database with the schema, by cloning.
func (s *server) migrated(ctx context.Context) (string, error) {
	return s.create(ctx, "TEMPLATE "+pgx.Identifier{s.template}.Sanitize())
}

// makeTemplate makes a migrated database and then forbids connections to it, because one
// connection to a template makes cloning fail.
func (s *server) makeTemplate(ctx context.Context) error {
	name, err := s.empty(ctx)
	if err != nil {
		return err
	}
	s.template, s.owned = name, true
	conn, err := pgx.Connect(ctx, s.direct(name))
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	err = migrate(ctx, conn)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("pgtest: migrate: %w", err)
	}
	if _, err := s.admin.Exec(ctx, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" ALLOW_CONNECTIONS false"); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	return nil
}

func (s *server) create(ctx context.Context, as string) (string, error) {
	name := "almanac_test_" + strings.ToLower(rand.Text())
	if _, err := s.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" "+as+s.copying); err != nil {
		return "", fmt.Errorf("pgtest: create a database: %w", err)
	}
	return name, nil
}

func (s *server) drop(ctx context.Context, name string) error {
	if _, err := s.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("pgtest: drop a database: %w", err)
	}
	return nil
}

// stop drops what this process made, and releases the server.
func (s *server) stop(ctx context.Context) error {
	err := s.closeReusables(ctx)
	if s.owned {
		err = errors.Join(err, s.drop(ctx, s.template))
	}
	s.admin.Close()
	if err := errors.Join(err, s.release(ctx)); err != nil {
		return fmt.Errorf("pgtest: stop: %w", err)
	}
	return nil
}

// Environment variables that select the server of the tests.
const (
	// DatabaseVariable names a running server by URL, such as
	// postgres://user:password@localhost:5432/postgres.
	DatabaseVariable = "ALMANAC_TEST_DATABASE_URL"
	// PoolerVariable names a pooler in front of that server, also by URL. The tested code then
	// connects through the pooler.
	PoolerVariable = "ALMANAC_TEST_POOLER_URL"
	// ImageVariable names the image to run in a container. Tests then use nothing else.
	ImageVariable = "ALMANAC_TEST_POSTGRES_IMAGE"
)

// DefaultImage is run in a container unless [ImageVariable] names another.
const DefaultImage = "postgres:17-alpine"

// maxConnections is enough for dozens of parallel tests with a pool each, in as many packages as
// go test runs at once.
var maxConnections = 300 * min(runtime.NumCPU(), 16)

// source is a chosen server.
type source struct {
	url      string
	what     string // describes it; never contains a password
	template string // the migrated database to clone; empty until it is made
	release  func(context.Context) error
}

func keep(context.Context) error { return nil }

// choose returns the server that the environment names, or the one that the processes of this go
// command share, or one for this process alone.
func choose(ctx context.Context) (source, error) {
	if address := os.Getenv(DatabaseVariable); address != "" {
		return given(address), nil
	}
	if command, ok := findCommand(); ok {
		return command.attach()
	}
	return launch(ctx)
}

// given returns the server at the address. This process does not stop it.
func given(address string) source {
	what := "server that " + DatabaseVariable + " names"
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		what += " at " + u.Host
	}
	return source{url: address, what: what, release: keep}
}

// launch starts a container or, if that is not possible, a server from binaries on the machine.
func launch(ctx context.Context) (source, error) {
	image := os.Getenv(ImageVariable)
	container, noContainer := runContainer(ctx, cmp.Or(image, DefaultImage))
	if noContainer == nil {
		return container, nil
	}
	if image != "" {
		return source{}, fmt.Errorf("pgtest: %s is set, so nothing else will do: %w", ImageVariable, noContainer)
	}
	s, err := pgserver.Start(ctx, pgserver.Config{MaxConnections: maxConnections})
	if err != nil {
		return source{}, fmt.Errorf("pgtest: no PostgreSQL to test with: set %s to the URL of a server, "+
			"or start a Docker engine (%w), or install the server's binaries (%w)",
			DatabaseVariable, noContainer, err)
	}
	local := source{url: s.URL(), what: s.Describe(), release: s.Stop}
	if !errors.Is(noContainer, errNoEngine) {
		local.what += " (" + strings.Join(strings.Fields(noContainer.Error()), " ") + ")"
	}
	return local, nil
}
