package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
	almanacjetstream "github.com/almanac-go/almanac/contrib/jetstream"
	"github.com/almanac-go/almanac/postgres"
)

// streamServer is a NATS server in this process, which keeps its stream on files.
type streamServer struct {
	dir  string
	port int
	*server.Server
}

func startStream() (*streamServer, error) {
	dir, err := os.MkdirTemp("", "almanac-bench-stream-")
	if err != nil {
		return nil, err
	}
	s := &streamServer{dir: dir, port: server.RANDOM_PORT}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *streamServer) start() error {
	one, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: s.port, JetStream: true, StoreDir: s.dir, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	one.Start()
	if !one.ReadyForConnections(10 * time.Second) {
		return errors.New("the NATS server accepts no connections")
	}
	s.Server, s.port = one, one.Addr().(*net.TCPAddr).Port
	return nil
}

// halt ends the server, and keeps its files.
func (s *streamServer) halt() {
	s.Shutdown()
	s.WaitForShutdown()
}

func (s *streamServer) close() error {
	s.halt()
	return os.RemoveAll(s.dir)
}

// runner is a scheduler, or a part of one on either side of a stream.
type runner interface {
	Run(ctx context.Context) error
	Health() almanac.Health
}

// runner returns what the process runs.
func (o orders) runner(pool *pgxpool.Pool, e ears) (runner, error) {
	if o.Part == scheduling {
		return newScheduler(pool, e, o.options()...)
	}
	store, err := postgres.New(pool)
	if err != nil {
		return nil, err
	}
	registry, err := almanac.NewRegistry(almanac.Birthday{}, appointment{})
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(o.Stream, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	settings := almanacjetstream.Settings{JetStream: js, Repository: store, Registry: registry, Lease: o.Lease, Log: slog.New(slog.DiscardHandler)}
	switch o.Part {
	case dispatching:
		return almanacjetstream.NewDispatcher(settings, o.options()...)
	case delivering:
		return almanacjetstream.NewWorker(settings, e.options(o.options()...)...)
	default:
		return nil, fmt.Errorf("there is no part %q", o.Part)
	}
}
