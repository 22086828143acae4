// Tenants keeps each tenant of a program in a PostgreSQL schema of its own. All tenants share one
// pool, and each has its own scheduler. The arguments are names of tenants.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// fleet runs tenants until its context is done. It is safe for concurrent use.
type fleet struct {
	ctx      context.Context
	pool     *pgxpool.Pool
	registry almanac.Registry
	deliver  func(tenant string) almanac.Deliverer

	running sync.WaitGroup // has every Run
	mu      sync.Mutex
	tenants map[string]*tenant
}

type tenant struct {
	almanac.Scheduler
	stop  context.CancelFunc
	ended chan struct{} // closed when Run has returned
}

func schema(name string) string { return "tenant_" + name }

// open creates or migrates a tenant, runs it, and returns its scheduler. The context bounds the
// migration. The error says so if the name is none for a schema.
func (f *fleet) open(ctx context.Context, name string) (almanac.Scheduler, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t, ok := f.tenants[name]; ok {
		return t, nil
	}
	// Without PollOnly, each tenant holds one more connection, to learn at once of what other
	// processes store. What this process stores wakes the scheduler anyway.
	options := []postgres.Option{postgres.WithSchema(schema(name)), postgres.PollOnly()}
	if err := postgres.Migrate(ctx, f.pool, options...); err != nil {
		return nil, err
	}
	store, err := postgres.New(f.pool, options...)
	if err != nil {
		return nil, err
	}
	scheduler, err := almanac.NewScheduler(store, f.registry, almanac.WithLogger(slog.With("tenant", name)),
		almanac.WithDeliverer(almanac.ChannelWebhook, f.deliver(name)))
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(f.ctx)
	t := &tenant{scheduler, stop, make(chan struct{})}
	f.tenants[name] = t
	f.running.Go(func() {
		defer close(t.ended)
		if err := t.Run(running); err != nil { // the other tenants go on
			slog.Error("tenant has stopped", "tenant", name, "error", err)
		}
	})
	return t, nil
}

// drop stops a tenant, lets its deliveries finish, and deletes all that is stored of it. If other
// processes run the tenant, stop it there first.
func (f *fleet) drop(ctx context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.tenants[name]
	if !ok {
		return fmt.Errorf("tenant %q does not run here", name)
	}
	t.stop()
	<-t.ended
	delete(f.tenants, name)
	_, err := f.pool.Exec(ctx, "DROP SCHEMA "+schema(name)+" CASCADE") // open has checked the name
	return err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	f := &fleet{ctx: ctx, pool: pool, registry: must(almanac.NewRegistry(almanac.Birthday{})), deliver: greet, tenants: map[string]*tenant{}}
	for _, name := range os.Args[1:] {
		must(f.open(ctx, name))
	}
	<-ctx.Done() // stops every tenant
	f.running.Wait()
}

func greet(tenant string) almanac.Deliverer {
	return almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		_, err := fmt.Println(tenant, string(d.Event.Payload))
		return err
	})
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
