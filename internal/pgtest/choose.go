package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// Environment variables that select the server of the tests.
const (
	// DatabaseVariable names a running server by URL, such as
	// postgres://user:password@localhost:5432/postgres.
	DatabaseVariable = "ALMANAC_TEST_DATABASE_URL"
	// ImageVariable names the image to run in a container. Tests then use nothing else.
	ImageVariable = "ALMANAC_TEST_POSTGRES_IMAGE"
	// BouncerVariable, when set, puts a PgBouncer between the tests and the server:
	// the program of that path, or the one on the machine when it says "yes".
	BouncerVariable = "ALMANAC_TEST_PGBOUNCER"
)

// DefaultImage is run in a container unless [ImageVariable] names another.
const DefaultImage = "postgres:17-alpine"

// maxConnections is enough for dozens of parallel tests with a pool each.
const maxConnections = 300

// source is a chosen server.
type source struct {
	url     string
	what    string // for the line that describes it; never contains a password
	instead error  // why a preferred source was not available
	release func(context.Context) error
}

// choose returns the first available server.
func choose(ctx context.Context) (source, error) {
	if address := os.Getenv(DatabaseVariable); address != "" {
		return given(address), nil
	}

	image := os.Getenv(ImageVariable)
	container, noContainer := runContainer(ctx, cmp.Or(image, DefaultImage))
	if noContainer == nil {
		return container, nil
	}
	if image != "" {
		return source{}, fmt.Errorf("pgtest: %s is set, so nothing else will do: %w", ImageVariable, noContainer)
	}

	local, noLocal := runLocal(ctx)
	if noLocal == nil {
		if !errors.Is(noContainer, errNoEngine) {
			local.instead = noContainer
		}
		return local, nil
	}
	return source{}, fmt.Errorf("pgtest: no PostgreSQL to test with: set %s to the URL of a server, "+
		"or start a Docker engine (%w), or install the server's binaries (%w)",
		DatabaseVariable, noContainer, noLocal)
}

// given returns the server at the address. This process does not stop it.
func given(address string) source {
	what := "server that " + DatabaseVariable + " names"
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		what += " at " + u.Host
	}
	return source{
		url:     address,
		what:    what,
		release: func(context.Context) error { return nil },
	}
}

// runLocal starts a private server from binaries on the machine.
func runLocal(ctx context.Context) (source, error) {
	s, err := pgserver.Start(ctx, pgserver.Config{
		MaxConnections: maxConnections,
	})
	if err != nil {
		return source{}, err
	}
	return source{url: s.URL(), what: s.Describe(), release: s.Stop}, nil
}
