package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
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

// Start returns a server that accepts connections. It creates a cluster if the directory
// has none. If another program's server already runs there, Start joins it: then Stop does
// nothing, and the server ends with the program that started it. A cluster left by a killed
// server is recovered.
//
// The context bounds only the start: the server runs until [Server.Stop], or until this
// program dies. The server has half a minute to become ready, and a new cluster two minutes
// to be created.
//
// Start returns a [*NotFoundError] when there are no binaries. Other errors contain the
// last lines of the server's log. A cluster of another major version than the binaries is
// an error that names both versions.
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

// open joins the server that runs in the directory, or starts one. Only one program at a
// time does so.
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

// begin starts a server on the cluster of version major, or on a new cluster when major is
// 0.
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
