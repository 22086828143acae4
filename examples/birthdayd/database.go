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

// database is a PostgreSQL server that was given, found or started.
type database struct {
	url    string
	choice string // which it is and where, in one line without the password
	stop   func(context.Context) error
}

// sources are where server programs can come from when no database is given.
type sources struct {
	start    func(context.Context, pgserver.Config) (*pgserver.Server, error)
	download func(ctx context.Context, dir string) (pgserver.Binaries, error)
}

// stopLimit is how long the program's own server has to stop.
const stopLimit = 30 * time.Second

// findDatabase returns the database that the configuration names. If it names
// none, it starts a server on the data directory, from programs on this machine or
// else from downloaded ones. The error names every choice there is.
func findDatabase(ctx context.Context, c config, from sources, log *slog.Logger) (database, error) {
	if c.databaseURL != "" {
		return database{url: c.databaseURL, stop: func(context.Context) error { return nil }}, nil
	}
	if err := os.MkdirAll(c.dataDir, 0o755); err != nil { // the server may run as another user, who must pass
		return database{}, fmt.Errorf("-data-dir: %w", err)
	}
	// Otherwise the server's log, whose end an error may quote, repeats whole rows that
	// it refused, with names and dates of birth.
	terse := map[string]string{"log_error_verbosity": "terse"}
	want := pgserver.Config{Dir: c.dataDir, Durable: true, Settings: terse, Log: log}
	downloads := filepath.Join(c.dataDir, "download")

	// What was downloaded once made the cluster, and stays its server.
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

// noDatabaseError says what to do when there is no PostgreSQL to be had.
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
