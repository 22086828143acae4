package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/almanac-go/almanac/internal/pgserver"
)

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

// findDatabase returns the database that the configuration names. Without one, it starts a
// server on the data directory, with programs from this machine or downloaded ones. The
// error names every option.
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
