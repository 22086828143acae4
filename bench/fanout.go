package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
	almanacjetstream "github.com/almanac-go/almanac/contrib/jetstream"
	"github.com/almanac-go/almanac/postgres"
)

const (
	fanWorkers  = 200 // workers of a process, and messages that the dispatcher publishes at once
	fewWorkers  = 10  // workers of a process that is to be limited by its receivers alone
	linearTakes = 50 * time.Millisecond
	fanSpread   = 200 // events whose lateness is measured
	fanStep     = 5 * time.Millisecond
	crashLease  = 6 * time.Second
	crashTakes  = 200 * time.Millisecond
	crashWorker = 100              // workers of a process of which one is killed
	away        = time.Second      // how long the stream is gone
	crashLimit  = 40 * time.Second // until everything is stored after a crash
	crashGrain  = 5 * time.Millisecond
)

// fan is one way to deliver with several processes.
type fan struct {
	stream  bool // one more process claims and publishes; the workers take events from the stream
	workers int
	takes   time.Duration
	size    int // workers of a process
}

func (f fan) String() string {
	if f.size == fewWorkers {
		return fmt.Sprintf("receiver takes %v, %d workers each, %d", f.takes, f.size, f.workers)
	}
	way := "no stream"
	if f.stream {
		way = "stream"
	}
	return fmt.Sprintf("receiver takes %v, %s, %d", f.takes, way, f.workers)
}

// fanout measures delivery by processes that claim for themselves, and by processes that take
// events from a stream to which a dispatcher publishes them.
func (b *bench) fanout(ctx context.Context) error {
	const section = "fanout"
	var entries []entry
	for _, f := range b.allFans() {
		contract := fmt.Sprintf("processes of %d workers that claim for themselves", f.size)
		if f.stream {
			contract = fmt.Sprintf("processes of %d workers behind a dispatcher and a JetStream server", f.size)
		}
		entries = append(entries, entry{name: f.String(), contract: contract, run: b.cluster.on(withheld, func(ctx context.Context, db database) ([]reading, error) {
			return b.fanOut(ctx, db, f)
		})})
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return !b.chosen(section, e.name) })
	if len(entries) == 0 {
		return nil
	}
	if err := b.withholdBacklog(ctx); err != nil {
		return err
	}
	return b.rounds(ctx, section, 1, entries)
}

// allFans returns every fan. The last ones show whether twice the processes deliver twice as much, while
// the receivers limit them and not the machine.
func (b *bench) allFans() (fans []fan) {
	for _, takes := range b.Takes {
		for _, stream := range []bool{false, true} {
			for _, workers := range b.Fans {
				fans = append(fans, fan{stream, workers, takes, fanWorkers})
			}
		}
	}
	for _, workers := range b.Processes {
		fans = append(fans, fan{workers: workers, takes: linearTakes, size: fewWorkers})
	}
	return fans
}

// team is the processes of a fan.
type team struct {
	*crew      // the workers
	dispatcher *crew
	stream     *streamServer
}

// assemble starts the processes of a fan, with their settings.
func assemble(f fan, o orders) (t *team, err error) {
	t = &team{crew: &crew{}, dispatcher: &crew{reported: make(chan struct{}, 1)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.stop())
		}
	}()
	o.Takes = f.takes
	if f.stream {
		if t.stream, err = startStream(); err != nil {
			return t, err
		}
		o.Stream, o.Part = t.stream.ClientURL(), dispatching
		if t.dispatcher, err = muster(o, 1); err != nil {
			return t, err
		}
		o.Part = delivering
	}
	if t.crew, err = muster(o, f.workers); err != nil {
		return t, err
	}
	return t, errors.Join(t.dispatcher.begin(), t.crew.begin())
}

func (t *team) stop() error {
	errs := []error{t.dispatcher.stop(), t.crew.stop()}
	if t.stream != nil {
		errs = append(errs, t.stream.close())
	}
	return errors.Join(errs...)
}

// fanOut measures how late events are while there are few, and then how many are stored a
// second while there are more than enough.
func (b *bench) fanOut(ctx context.Context, db database, f fan) (readings []reading, err error) {
	t, err := assemble(f, orders{URL: db.url, Workers: f.size})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	if err := errors.Join(t.dispatcher.settled(ctx), t.settled(ctx)); err != nil {
		return nil, err
	}
	spread := min(fanSpread, b.Events)
	if err := storeUsers(ctx, db, load{count: spread, first: time.Now().Add(lead / 2), step: fanStep}); err != nil {
		return nil, err
	}
	if err := t.until(ctx, t.beyond(spread), lead+3*b.Limit); err != nil {
		return nil, err
	}
	var late []float64
	for _, p := range t.processes {
		late = append(late, p.late.take()...)
	}
	slices.Sort(late)
	worked, err := b.saturate(ctx, db, t.crew)
	if err != nil {
		return nil, err
	}
	readings = []reading{{"rate", "events/s", worked.rate}}
	if f.takes > 0 {
		possible := float64(f.workers*f.size) / f.takes.Seconds()
		readings = append(readings, reading{"of what is possible", "%", 100 * worked.rate / possible})
	}
	return append(readings,
		reading{"late p50", "ms", quantile(late, 0.5)}, reading{"late p99", "ms", quantile(late, 0.99)},
		reading{"least share", "%", worked.least}, reading{"server", "µs/event", float64(worked.server) / float64(time.Microsecond)},
	), nil
}

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
func (o orders) runner(pool *pgxpool.Pool, e hooks) (runner, error) {
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
