// Fanout shows deliveries by more workers than the process that claims: one
// dispatcher, two workers, and a stream of NATS JetStream between them. Here they are
// goroutines and the server is embedded; each of them could be on a machine of its own.
//
// It keeps what it plans in the database that DATABASE_URL names. Twenty people have
// their birthday in a moment; when all were greeted, it says who greeted how many, and
// ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
	almanacjetstream "github.com/almanac-go/almanac/contrib/jetstream"
	"github.com/almanac-go/almanac/postgres"
)

const (
	people = 20
	ahead  = 2 * time.Second // how soon their birthday is
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("DATABASE_URL"), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, database string, out io.Writer) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool); err != nil {
		return err
	}
	store, err := postgres.New(pool)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fanout")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	broker, err := embed(dir)
	if err != nil {
		return err
	}
	defer broker.WaitForShutdown()
	defer broker.Shutdown()
	return greet(ctx, store, broker.ClientURL(), out)
}

// greet has everybody greeted, and returns when they are, or when ctx is done.
func greet(ctx context.Context, store *postgres.Store, broker string, out io.Writer) error {
	birthday, born, err := soon(ctx, store)
	if err != nil {
		return err
	}
	registry, err := almanac.NewRegistry(birthday)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	t := &tally{out: out, greeted: make(map[string]int), done: stop}

	var runs []func(context.Context) error
	for _, name := range []string{"worker 1", "worker 2"} {
		settings, hangUp, err := connect(broker, store, registry)
		if err != nil {
			return err
		}
		defer hangUp()
		w, err := almanacjetstream.NewWorker(settings, almanac.WithWorkers(4), almanac.WithDeliverer(almanac.ChannelWebhook, t.by(name)))
		if err != nil {
			return err
		}
		runs = append(runs, w.Run)
	}
	settings, hangUp, err := connect(broker, store, registry)
	if err != nil {
		return err
	}
	defer hangUp()
	d, err := almanacjetstream.NewDispatcher(settings)
	if err != nil {
		return err
	}
	if err := enrol(ctx, store, registry, born); err != nil {
		return err
	}
	err = together(ctx, append(runs, d.Run)...)
	t.sum()
	return err
}

// soon returns the birthday of somebody who is born on the day that it will be in a
// moment in Tokyo, and greeted at the time that it will be.
func soon(ctx context.Context, store *postgres.Store) (almanac.Birthday, almanac.Date, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return almanac.Birthday{}, almanac.Date{}, err
	}
	tokyo, err := almanac.LoadTimezone("Asia/Tokyo")
	if err != nil {
		return almanac.Birthday{}, almanac.Date{}, err
	}
	due := tokyo.WallTime(now.Add(ahead + time.Second)) // it is cut to the second
	at := func(almanac.User) almanac.Clock { return due.Clock }
	return almanac.Birthday{At: at}, almanac.Date{Year: 1996, Month: due.Date.Month, Day: due.Date.Day}, nil
}

func enrol(ctx context.Context, store *postgres.Store, registry almanac.Registry, born almanac.Date) error {
	planner, err := almanac.NewScheduler(store, registry)
	if err != nil {
		return err
	}
	for i := range people {
		_, err := planner.CreateUser(ctx, almanac.Profile{
			FirstName: "Guest", LastName: fmt.Sprint(i + 1), DateOfBirth: born.String(), Timezone: "Asia/Tokyo",
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// connect gives each part a connection of its own, as another machine has.
func connect(broker string, store almanac.Repository, registry almanac.Registry) (almanacjetstream.Settings, func(), error) {
	conn, err := nats.Connect(broker, nats.MaxReconnects(-1))
	if err != nil {
		return almanacjetstream.Settings{}, nil, err
	}
	js, err := jetstream.New(conn)
	return almanacjetstream.Settings{JetStream: js, Repository: store, Registry: registry}, conn.Close, err
}

func embed(dir string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the embedded server does not start")
	}
	return s, nil
}

// together runs all until ctx is done and all have returned. When one fails, the
// others are told to stop.
func together(ctx context.Context, runs ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(runs))
	var all sync.WaitGroup
	for i, run := range runs {
		all.Go(func() {
			defer stop()
			errs[i] = run(ctx)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// tally counts who greeted how many. Done is called when everybody was.
type tally struct {
	out  io.Writer
	done func()

	mu      sync.Mutex
	greeted map[string]int
	keys    map[almanac.IdempotencyKey]bool
}

// by delivers in the name of a worker. A greeting takes it a tenth of a second.
func (t *tally) by(name string) almanac.DelivererFunc {
	return func(ctx context.Context, d almanac.Delivery) error {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.keys[d.Event.IdempotencyKey] {
			return nil // a receiver that remembers keys acts once
		}
		if t.keys == nil {
			t.keys = make(map[almanac.IdempotencyKey]bool)
		}
		t.keys[d.Event.IdempotencyKey] = true
		t.greeted[name]++
		_, err := fmt.Fprintln(t.out, name, d.Event.Wall, strings.TrimSpace(string(d.Event.Payload)))
		if len(t.keys) == people {
			t.done() // what is in hand is settled before Run returns
		}
		return err
	}
}

func (t *tally) sum() {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "worker 1 greeted %d, worker 2 greeted %d\n", t.greeted["worker 1"], t.greeted["worker 2"])
}
