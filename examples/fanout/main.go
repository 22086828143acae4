// Fanout shows deliveries by more workers than the process that claims: one dispatcher, two
// workers, and a stream of NATS JetStream between them. Here they are goroutines and the
// server is embedded. Each could run on its own machine.
//
// It stores its events in the database that DATABASE_URL names. Twenty users have their birthday in a
// moment. When all have been greeted, it prints how many greetings each worker delivered, and ends.
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
	"github.com/almanac-go/almanac/calendar"
	almanacjetstream "github.com/almanac-go/almanac/contrib/jetstream"
	"github.com/almanac-go/almanac/postgres"
)

const (
	users = 20
	ahead = 4 * time.Second // how soon their birthday is: all are enrolled by then
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

// greet runs the parts until every user is greeted, or until ctx is done.
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

// soon returns a birthday handler and a date of birth, so that in Tokyo the birthday is
// today and the greeting is due in a moment.
func soon(ctx context.Context, store *postgres.Store) (almanac.Birthday, calendar.Date, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return almanac.Birthday{}, calendar.Date{}, err
	}
	tokyo, err := calendar.LoadTimezone("Asia/Tokyo")
	if err != nil {
		return almanac.Birthday{}, calendar.Date{}, err
	}
	due := tokyo.WallTime(now.Add(ahead + time.Second)) // truncated to the second
	at := func(almanac.User) calendar.Clock { return due.Clock }
	return almanac.Birthday{At: at}, calendar.Date{Year: 1996, Month: due.Date.Month, Day: due.Date.Day}, nil
}

func enrol(ctx context.Context, store *postgres.Store, registry almanac.Registry, born calendar.Date) error {
	planner, err := almanac.NewScheduler(store, registry)
	if err != nil {
		return err
	}
	_, err = planner.CreateUsers(ctx, func(yield func(almanac.Profile, error) bool) {
		for i := range users {
			guest := almanac.Profile{FirstName: "Guest", LastName: fmt.Sprint(i + 1), DateOfBirth: born.String(), Timezone: "Asia/Tokyo"}
			if !yield(guest, nil) {
				return
			}
		}
	}, almanac.CreateUsersOptions{})
	return err
}

// connect opens a separate connection for one part, as on another machine.
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

// together runs all functions until ctx is done and all have returned. When one fails, the
// others are stopped.
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

// tally counts the greetings of each worker. It calls done when every user has been greeted.
type tally struct {
	out  io.Writer
	done func()

	mu      sync.Mutex
	greeted map[string]int
	keys    map[almanac.IdempotencyKey]bool
}

// by returns a deliverer for a worker. A greeting takes it a tenth of a second.
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
			return nil // a receiver that stores keys acts once
		}
		if t.keys == nil {
			t.keys = make(map[almanac.IdempotencyKey]bool)
		}
		t.keys[d.Event.IdempotencyKey] = true
		t.greeted[name]++
		_, err := fmt.Fprintln(t.out, name, d.Event.Wall, strings.TrimSpace(string(d.Event.Payload)))
		if len(t.keys) == users {
			t.done() // Run settles the held events before it returns
		}
		return err
	}
}

func (t *tally) sum() {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "worker 1 greeted %d, worker 2 greeted %d\n", t.greeted["worker 1"], t.greeted["worker 2"])
}
