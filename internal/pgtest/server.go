package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// server makes databases on the server of this process.
type server struct {
	at      url.URL
	bouncer *bouncer // for the connections of tests, or nil
	admin   *pgxpool.Pool
	release func(context.Context) error // stops what was started for this process
	copying string                      // the method of copying a database, for CREATE DATABASE

	templating sync.Mutex
	template   string // the migrated database that others are cloned from; empty until it is needed

	reusables reusables
}

// startServer chooses a server, checks that it works, and prints which it is.
func startServer(ctx context.Context) (*server, error) {
	from, err := choose(ctx)
	if err != nil {
		return nil, err
	}
	s, what, err := connect(ctx, from)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %s: %w", from.what, err), from.release(ctx))
	}
	line := "pgtest: " + from.what + what
	if from.instead != nil {
		line += " (" + strings.Join(strings.Fields(from.instead.Error()), " ") + ")"
	}
	fmt.Fprintln(os.Stderr, line)
	if named := os.Getenv(BouncerVariable); named != "" {
		if err := s.bounce(ctx, named); err != nil {
			return nil, errors.Join(fmt.Errorf("pgtest: %w", err), s.stop(ctx))
		}
	}
	return s, nil
}

// bounce makes tests connect through a PgBouncer, and prints that. pgtest's own connections
// bypass it: a connection of PgBouncer to the template would make cloning fail.
func (s *server) bounce(ctx context.Context, named string) error {
	b, err := startBouncer(ctx, named, s.admin.Config().ConnConfig)
	if err != nil {
		return err
	}
	s.bouncer = b
	fmt.Fprintf(os.Stderr, "pgtest: through %s in transaction mode, pools of %d, port %s\n", b.version, poolSize, b.at.Port())
	return nil
}

// connect returns the server, and its version if the source did not state it.
func connect(ctx context.Context, from source) (_ *server, what string, err error) {
	at, err := url.Parse(from.url)
	if err != nil || at.Scheme != "postgres" && at.Scheme != "postgresql" {
		return nil, "", errors.New("not a URL of the form postgres://user:password@host:port/database")
	}
	config, err := pgxpool.ParseConfig(from.url)
	if err != nil {
		return nil, "", err
	}
	// Each connection is used for one CREATE or DROP DATABASE. More concurrent ones do not
	// make the server faster.
	config.MaxConns = 4
	admin, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, "", err
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
		return nil, "", err
	}
	if !strings.Contains(from.what, "PostgreSQL ") {
		what = ", PostgreSQL " + version
	}
	s := &server{at: *at, admin: admin, release: from.release}
	// The default copies through the write-ahead log, which takes twice the processor time.
	// Copying files takes two checkpoints, which are expensive when flushes are on
	// (PostgreSQL manual, CREATE DATABASE).
	if major >= 15 && !durable {
		s.copying = " STRATEGY FILE_COPY"
	}
	return s, what, nil
}

// url returns the URL with which a test connects to the database of that name.
func (s *server) url(database string) string {
	if s.bouncer != nil {
		return s.bouncer.url(database)
	}
	return s.direct(database)
}

// direct returns the URL of the database of that name on the server itself.
func (s *server) direct(database string) string {
	u := s.at
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
	template, err := s.migrateOnce(ctx)
	if err != nil {
		return "", err
	}
	return s.create(ctx, "TEMPLATE "+pgx.Identifier{template}.Sanitize())
}

// migrateOnce returns the template of this process. On a shared server each process has its
// own, because it may have other migrations.
func (s *server) migrateOnce(ctx context.Context) (string, error) {
	s.templating.Lock()
	defer s.templating.Unlock()
	if s.template != "" {
		return s.template, nil
	}
	name, err := s.empty(ctx)
	if err != nil {
		return "", err
	}
	if err := s.prepare(ctx, name); err != nil {
		return "", errors.Join(err, s.drop(ctx, name))
	}
	s.template = name
	return name, nil
}

// prepare migrates the database and then forbids connections, because one connection to a
// template makes cloning fail.
func (s *server) prepare(ctx context.Context, name string) error {
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

// stop drops the template and releases the server.
func (s *server) stop(ctx context.Context) error {
	s.templating.Lock()
	defer s.templating.Unlock()
	err := s.closeReusables(ctx)
	if s.bouncer != nil {
		err = errors.Join(err, s.bouncer.process.stop(ctx))
	}
	if s.template != "" {
		err = errors.Join(err, s.drop(ctx, s.template))
	}
	s.admin.Close()
	if err := errors.Join(err, s.release(ctx)); err != nil {
		return fmt.Errorf("pgtest: stop: %w", err)
	}
	return nil
}
