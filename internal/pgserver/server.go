package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is a running PostgreSQL server. Its methods are safe for concurrent use.
type Server struct {
	home     homeDir
	version  string // "PostgreSQL 15.18 from …", or what is known of a joined server
	port     int
	password string
	log      *slog.Logger

	stopping sync.Mutex
	process  *process // nil when another program started the server, or after Stop
}

const (
	createLimit = 2 * time.Minute  // initdb takes a second or two; a slow disk much longer
	readyLimit  = 30 * time.Second // crash recovery included
	stopLimit   = 30 * time.Second // including the last checkpoint
	killLimit   = 10 * time.Second // the server itself kills its children after five
)

// Start returns a server that accepts connections. It creates a cluster if the directory has none.
// If another program's server already runs there, Start joins it: then Stop does nothing, and the
// server ends with the program that started it. A cluster left by a killed server is recovered.
//
// The context bounds only the start: the server runs until [Server.Stop], or until this program
// dies. The server has half a minute to become ready, and a new cluster two minutes to be created.
//
// Start returns a [*NotFoundError] when there are no binaries. Other errors contain the last lines of the
// server's log. A cluster of another major version than the binaries is an error that names both versions.
func Start(ctx context.Context, c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	home, err := openHome(c.Dir, c.Durable)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, createLimit+readyLimit)
	defer cancel()
	s, err := open(ctx, home, c)
	if err != nil {
		return nil, errors.Join(err, home.remove())
	}
	return s, nil
}

// open joins the server that runs in the directory, or starts one. Only one program at a time does so.
func open(ctx context.Context, home homeDir, c Config) (*Server, error) {
	unlock, err := home.lock(ctx, startLock)
	if err != nil {
		return nil, err
	}
	defer unlock()

	s := &Server{home: home, log: c.Log}
	s.log = cmp.Or(s.log, slog.New(slog.DiscardHandler))
	major, err := home.major()
	if err != nil {
		return nil, err
	}
	if major == 0 {
		return s, s.begin(ctx, c, 0)
	}

	waiting, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	p, found, err := home.running(waiting)
	if err != nil {
		return nil, err
	}
	if !found {
		return s, s.begin(ctx, c, major)
	}
	s.version = fmt.Sprintf("PostgreSQL %d of another program (pid %d)", major, p.pid)
	s.port = p.port
	s.password, err = home.readPassword()
	if err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "joined a server", "server", s.Describe())
	return s, nil
}

// begin starts a server on the cluster of version major, or on a new cluster when major is 0.
func (s *Server) begin(ctx context.Context, c Config, major int) error {
	b, err := choose(c.Binaries, major)
	if err != nil {
		return err
	}
	if major != 0 && b.Major != major {
		return fmt.Errorf("pgserver: cluster in %s was made by PostgreSQL %d and cannot be served by %v",
			s.home.data(), major, b)
	}
	if err := s.home.admit(ctx, b); err != nil {
		return err
	}
	if major == 0 {
		if err := s.home.create(ctx, b, c.Durable); err != nil {
			return err
		}
	}
	s.version = b.String()
	if s.password, err = s.home.readPassword(); err != nil {
		return err
	}
	if err := s.serve(ctx, b, c); err != nil {
		return err
	}
	s.log.DebugContext(ctx, "started a server", "server", s.Describe())
	return nil
}

// URL returns the connection URL, including the password, of the cluster's initial database
// postgres, for its superuser.
func (s *Server) URL() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "postgres",
		RawQuery: "sslmode=disable", // the server has no certificate, and the data never leaves the machine
	}
	return u.String()
}

// Describe describes the server in one line for a log. It does not contain the password.
func (s *Server) Describe() string {
	return fmt.Sprintf("%s, data in %s, port %d", s.version, s.home.path, s.port)
}

// Config is the configuration of the server that [Start] starts.
type Config struct {
	// Binaries are the programs to run. For the zero Binaries, Start uses those of [Find],
	// preferring a version that fits an existing cluster.
	Binaries Binaries
	// Dir is the directory of the cluster and its files. It is created if missing. Empty
	// means a new temporary directory that is removed at Stop: under TMPDIR if that is set,
	// else in memory if the cluster need not be durable and the system has room there, else
	// where the system keeps temporary files.
	Dir string
	// Durable makes commits survive a crash of the machine. Without it the server is
	// faster, and a crash of the machine may damage the cluster.
	Durable bool
	// MaxConnections is how many clients may be connected; 0 means 100.
	MaxConnections int
	// Settings are further server settings by name. Start refuses the settings that this
	// package sets: where the server listens and what it serves.
	Settings map[string]string
	// Log receives joined servers at Info, and started and stopped servers at Debug. Nil discards them.
	Log *slog.Logger
}

// check refuses settings that this package must control.
func (c Config) check() error {
	var errs []error
	if c.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("pgserver: %d connections", c.MaxConnections))
	}
	ours := []string{"data_directory", "hba_file", "ident_file", "listen_addresses", "logging_collector",
		"max_connections", "port", "unix_socket_directories"}
	for name := range c.Settings {
		if slices.Contains(ours, strings.ToLower(name)) {
			errs = append(errs, fmt.Errorf("pgserver: setting %q cannot be chosen", name))
		}
	}
	return errors.Join(errs...)
}

// settings are all settings of the server, the caller's last.
func (c Config) settings(port int) map[string]string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": "",
		"max_connections":         "100",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	if c.MaxConnections > 0 {
		settings["max_connections"] = strconv.Itoa(c.MaxConnections)
	}
	if !c.Durable {
		maps.Copy(settings, map[string]string{
			"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off",
			"jit": "off", // compiling costs more than it saves in tables of tests
		})
	}
	for name, value := range c.Settings {
		settings[strings.ToLower(name)] = value
	}
	return settings
}

// Stop stops the server, waits for its end, and removes its directory if that is temporary.
// Connected clients are disconnected; their commits are kept. When the context or half a
// minute ends first, Stop kills the server, and a durable cluster recovers at its next start.
//
// Stopping twice, or stopping a joined server, does nothing. Stop returns an error when the
// server had already ended by itself.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	if s.process == nil {
		return nil
	}

	var crashed error
	select {
	case <-s.process.ended:
		crashed = fmt.Errorf("pgserver: %s had ended by itself:%s", s.version, s.home.logTail())
	default:
	}
	options := fast
	if s.home.temporary {
		options = immediate // there is nothing to save
	}
	if err := errors.Join(crashed, s.halt(ctx, options), s.home.remove()); err != nil {
		return err
	}
	s.log.DebugContext(ctx, "stopped a server", "server", s.Describe())
	return nil
}

// halt ends the process by the given signal, and by stronger ones if necessary.
func (s *Server) halt(ctx context.Context, signal string) error {
	p := s.process
	s.process = nil

	steps := []struct {
		act   func() error
		limit time.Duration
	}{
		{func() error { return p.send(signal) }, stopLimit},
		{func() error { return p.send(immediate) }, killLimit},
		{p.kill, killLimit},
	}
	for i, step := range steps {
		_ = step.act() // fails when the server is gone, which the select detects
		patience := time.NewTimer(step.limit)
		defer patience.Stop()
		hurry := ctx.Done()
		if i > 0 {
			hurry = nil // the next steps are quick, and skipping them saves nothing
		}
		select {
		case <-p.ended:
			return nil
		case <-hurry:
		case <-patience.C:
		}
	}
	return fmt.Errorf("pgserver: %s (pid %d) cannot be stopped", s.version, p.pid)
}
