package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// errNoEngine reports that no Docker engine answers.
var errNoEngine = errors.New("no Docker engine answers")

// dialLimit keeps a machine without Docker from waiting for it.
const dialLimit = 200 * time.Millisecond

// findEngine returns an error unless something listens where a Docker engine would. testcontainers
// checks the same places and some more, but takes many seconds for a socket without an engine.
func findEngine(ctx context.Context) error {
	hosts := []string{os.Getenv("DOCKER_HOST")}
	if hosts[0] == "" {
		home, _ := os.UserHomeDir() // without a home directory, two places are not checked
		hosts = []string{
			"unix:///var/run/docker.sock",
			"unix://" + filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "docker.sock"),
			"unix://" + filepath.Join(home, ".docker/run/docker.sock"),
			"unix://" + filepath.Join(home, ".docker/desktop/docker.sock"),
		}
	}
	dialer := net.Dialer{Timeout: dialLimit}
	for _, host := range hosts {
		network, address, _ := strings.Cut(host, "://")
		if network != "unix" && network != "tcp" {
			return nil // ssh and Windows pipes: only testcontainers can check them
		}
		if conn, err := dialer.DialContext(ctx, network, address); err == nil {
			return conn.Close()
		}
	}
	return errNoEngine
}

// runContainer starts a server in a container of the image, which must accept the variables
// and arguments of the official image.
func runContainer(ctx context.Context, image string) (source, error) {
	if err := findEngine(ctx); err != nil {
		return source{}, err
	}
	quiet := log.NewNoopLogger()
	log.SetDefault(quiet) // it would log every step to standard error
	const user = "almanac"
	password := rand.Text()

	c, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        image,
			ExposedPorts: []string{"5432/tcp"},
			Env: map[string]string{
				"POSTGRES_USER":     user,
				"POSTGRES_PASSWORD": password,
				"POSTGRES_DB":       "postgres",
			},
			Cmd: []string{
				"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off",
				"-c", "max_connections=" + strconv.Itoa(maxConnections), "-c", "timezone=UTC",
			},
		},
		Started: true,
		Logger:  quiet,
	})
	release := func(context.Context) error {
		// The server has no data to keep, so no orderly stop is needed.
		return testcontainers.TerminateContainer(c, testcontainers.StopTimeout(0))
	}
	if err != nil {
		return source{}, errors.Join(fmt.Errorf("no container of %s: %w", image, err), release(ctx))
	}
	host, err := await(ctx, c, url.UserPassword(user, password))
	if err != nil {
		return source{}, errors.Join(fmt.Errorf("container of %s: %w", image, err), release(ctx))
	}
	return source{url: host, what: "container of " + image, release: release}, nil
}

// readyLimit is how long a container may take from its start to its first response.
const readyLimit = time.Minute

// await returns the URL of the server in the container once it responds. The official image
// first runs a server for its own preparations, but that server does not listen on the network.
func await(ctx context.Context, c testcontainers.Container, user *url.Userinfo) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		address, err := connectable(ctx, c, user)
		if err == nil {
			return address, nil
		}
		if state, failed := c.State(ctx); failed == nil && !state.Running {
			return "", fmt.Errorf("ended with status %d:%s", state.ExitCode, lastWords(ctx, c))
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), err)
		}
	}
}

// connectable returns the URL of the server if it accepts a connection.
func connectable(ctx context.Context, c testcontainers.Container, user *url.Userinfo) (string, error) {
	told, err := c.Host(ctx)
	if err != nil {
		return "", err
	}
	port, err := c.MappedPort(ctx, "5432/tcp")
	if err != nil {
		return "", err
	}
	// testcontainers may mistake this machine for a container, and then returns the gateway, which
	// is wrong on a machine made from an image. "localhost" may be ::1, where the port belongs to
	// another container. The password shows whether the server is the right one.
	var refused error
	for _, host := range []string{"127.0.0.1", told} {
		u := url.URL{
			Scheme: "postgres", User: user, Host: net.JoinHostPort(host, port.Port()),
			Path: "/postgres", RawQuery: "sslmode=disable",
		}
		err := try(ctx, u.String())
		if err == nil {
			return u.String(), nil
		}
		refused = errors.Join(refused, err)
	}
	return "", refused
}

// try opens a connection and closes it.
func try(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// lastWords returns the end of the container's output.
func lastWords(ctx context.Context, c testcontainers.Container) string {
	logs, err := c.Logs(ctx)
	if err != nil {
		return " " + err.Error()
	}
	defer logs.Close()
	text, err := io.ReadAll(io.LimitReader(logs, 1<<20))
	if err != nil {
		return " " + err.Error()
	}
	const most = 2000
	return "\n" + string(text[max(0, len(text)-most):])
}
