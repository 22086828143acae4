package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/almanac-go/almanac/internal/pgserver"
)

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
