package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestWithoutPostgresTheErrorListsTheChoices(t *testing.T) {
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

func TestAnAbsentDatabaseIsWaitedForUntilStopped(t *testing.T) {
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

// A role without a free connection gets the same error as every role on a full server. It
// stands for a server that a rolling deployment has filled.
func TestADatabaseWithoutAFreeConnectionIsWaitedFor(t *testing.T) {
	t.Parallel()
	address := pgtest.EmptyURL(t)
	admin, err := pgx.Connect(t.Context(), pgtest.Direct(t, address))
	require.NoError(t, err)
	there, err := url.Parse(pgtest.Direct(t, address))
	require.NoError(t, err)
	role := strings.TrimPrefix(there.Path, "/") + "_crowd"
	do := func(sql string) {
		_, err := admin.Exec(context.WithoutCancel(t.Context()), fmt.Sprintf(sql, pgx.Identifier{role}.Sanitize()))
		require.NoError(t, err)
	}
	do("CREATE ROLE %s LOGIN PASSWORD 'crowd' CONNECTION LIMIT 0")
	t.Cleanup(func() { do("DROP ROLE %s"); _ = admin.Close(context.WithoutCancel(t.Context())) })
	there.User = url.UserPassword(role, "crowd")
	pool, err := open(t.Context(), there.String(), 1)
	require.NoError(t, err)
	defer pool.Close()
	refusal := new(pgconn.PgError)
	require.ErrorAs(t, pool.Ping(t.Context()), &refusal)
	require.Equal(t, "53300", refusal.Code)

	told := make(chan string, 1)
	log := slog.New(slog.NewTextHandler(writing(func(line string) { told <- line }), nil))
	got := make(chan error, 1)
	go func() { got <- await(t.Context(), pool, log) }()
	select {
	case line := <-told:
		require.Contains(t, line, "the database does not answer yet")
		require.Contains(t, line, "53300")
	case err := <-got:
		require.NoError(t, err, "it did not wait")
	}
	do("ALTER ROLE %s CONNECTION LIMIT -1")

	require.NoError(t, <-got)
}

// writing makes an io.Writer of a function that gets each line.
type writing func(line string)

func (w writing) Write(line []byte) (int, error) { w(string(line)); return len(line), nil }

func TestAnAddressInUseIsReported(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()

	p := begin(t, "-demo", "-addr", l.Addr().String(), "-data-dir", t.TempDir())

	require.Equal(t, exitFailure, p.wait())
	require.Contains(t, p.log.String(), "-addr: listen tcp "+l.Addr().String())
}
