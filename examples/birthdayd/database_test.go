package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestWithoutAnyPostgresTheChoicesAreNamed(t *testing.T) {
	t.Parallel()
	nowhere := sources{
		start: func(context.Context, pgserver.Config) (*pgserver.Server, error) {
			return nil, &pgserver.NotFoundError{Looked: []string{"PATH"}}
		},
		download: func(context.Context, string) (pgserver.Binaries, error) {
			return pgserver.Binaries{}, errors.New("download PostgreSQL: unable to connect")
		},
	}

	_, err := findDatabase(t.Context(), config{dataDir: t.TempDir()}, nowhere, slog.New(slog.DiscardHandler))

	for _, choice := range []string{"-database-url", "BIRTHDAYD_DATABASE_URL", "DATABASE_URL", "apt install postgresql", repositoryURL,
		"looked in PATH", "unable to connect"} {
		require.ErrorContains(t, err, choice)
	}
	require.ErrorIs(t, err, pgserver.ErrNotFound)
}

func TestDownloadedProgramsAreUsedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	programs := filepath.Join(dir, "download", binariesDir)
	require.NoError(t, os.MkdirAll(programs, 0o755))
	for _, name := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho 'postgres (PostgreSQL) 18.3'\n"
		require.NoError(t, os.WriteFile(filepath.Join(programs, name), []byte(script), 0o755))
	}
	stop := errors.New("far enough")
	var used pgserver.Config

	_, err := findDatabase(t.Context(), config{dataDir: dir}, sources{
		start: func(_ context.Context, c pgserver.Config) (*pgserver.Server, error) {
			used = c
			return nil, stop
		},
	}, slog.New(slog.DiscardHandler))

	require.ErrorIs(t, err, stop)
	require.Equal(t, pgserver.Binaries{Dir: programs, Version: "18.3", Major: 18}, used.Binaries)
	require.Equal(t, dir, used.Dir)
	require.True(t, used.Durable)
}

func TestAnAbsentDatabaseIsWaitedForUntilTold(t *testing.T) {
	t.Parallel()
	p := begin(t, "-webhook-url", "https://example.com/", "-database-url", "postgres://nobody:hunter2@127.0.0.1:1/x", "-addr", "127.0.0.1:0")
	require.Eventually(t, func() bool { return len(p.log.String()) > 0 }, patience, pollEvery)

	require.Contains(t, p.log.String(), "the database does not answer yet")
	began := time.Now()
	require.Equal(t, exitOK, p.stop(), "stopped while it waited")
	require.Less(t, time.Since(began), connectLimit/2)
	require.NotContains(t, p.log.String(), "hunter2")
}

func TestADatabaseThatRefusesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	there, err := url.Parse(pgtest.EmptyURL(t))
	require.NoError(t, err)
	there.Path = "/no_such_database"
	password, _ := there.User.Password()
	began := time.Now()

	p := begin(t, "-demo", "-addr", "127.0.0.1:0", "-database-url", there.String())

	require.Equal(t, exitFailure, p.wait())
	require.Less(t, time.Since(began), connectLimit/2)
	require.Contains(t, p.log.String(), "no_such_database")
	require.NotContains(t, p.log.String(), password)
}

func TestAnAddressInUseIsTold(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()

	p := begin(t, "-demo", "-addr", l.Addr().String(), "-data-dir", t.TempDir())

	require.Equal(t, exitFailure, p.wait())
	require.Contains(t, p.log.String(), "-addr: listen tcp "+l.Addr().String())
}
