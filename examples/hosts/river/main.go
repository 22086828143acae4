// River is a host that delivers by jobs: Almanac decides when, and River does the slow sending.
//
// The job is inserted when the event is due, not when it is planned: until then the event follows
// a user who moves, is edited or is deleted. The promise is at least once. A repeated delivery has
// the same idempotency key, and River drops its job while it keeps the first (see newClient). As
// River tries jobs again too, the worker passes the key on to the provider.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// letter has what the worker needs, because the user may be gone when it works.
type letter struct {
	Key     string `json:"key" river:"unique"`
	To      string `json:"to"`
	Message string `json:"message"`
}

func (letter) Kind() string { return "letter" }

// InsertOpts makes jobs unique by key in every state: the default leaves out discarded jobs.
func (letter) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: rivertype.JobStates()}}
}

// queue is the deliverer: it is quick, and the job is stored when it returns nil.
type queue struct{ client *river.Client[pgx.Tx] }

func (q queue) Deliver(ctx context.Context, d almanac.Delivery) error {
	_, err := q.client.Insert(ctx, letter{string(d.Event.IdempotencyKey), d.User.Email, string(d.Event.Payload)}, nil)
	return err
}

type sender struct {
	river.WorkerDefaults[letter]
	send func(ctx context.Context, l letter) error
}

func (s sender) Work(ctx context.Context, job *river.Job[letter]) error { return s.send(ctx, job.Args) }

// newClient keeps ended jobs for three days. By default the attempts of an event end within hours.
func newClient(pool *pgxpool.Pool, send func(context.Context, letter) error) *river.Client[pgx.Tx] {
	workers, keep := river.NewWorkers(), 72*time.Hour
	river.AddWorker(workers, sender{send: send})
	return must(river.NewClient(riverpgxv5.New(pool), &river.Config{
		Workers: workers, SoftStopTimeout: 20 * time.Second, // then the contexts of jobs end
		Queues:                      map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 50}},
		CompletedJobRetentionPeriod: keep, CancelledJobRetentionPeriod: keep, DiscardedJobRetentionPeriod: keep,
	}))
}

func newScheduler(pool *pgxpool.Pool, deliver almanac.Deliverer) almanac.Scheduler {
	return must(almanac.NewScheduler(must(postgres.New(pool)), must(almanac.NewRegistry(almanac.Birthday{})),
		almanac.WithDeliverer(almanac.ChannelWebhook, deliver)))
}

func migrate(ctx context.Context, pool *pgxpool.Pool) {
	check(postgres.Migrate(ctx, pool))
	must(must(rivermigrate.New(riverpgxv5.New(pool), nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))
}

// run works until ctx is done. Almanac stops first, and jobs that have not begun wait.
func run(ctx context.Context, pool *pgxpool.Pool, send func(context.Context, letter) error) error {
	client := newClient(pool, send)
	scheduler, lasting := newScheduler(pool, queue{client}), context.WithoutCancel(ctx)
	if err := client.Start(lasting); err != nil {
		return err
	}
	err := scheduler.Run(ctx)
	return errors.Join(err, client.Stop(lasting))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	migrate(ctx, pool)
	check(run(ctx, pool, func(_ context.Context, l letter) error {
		log.Print(l.To, ": ", l.Message) // a provider is given l.Key too
		return nil
	}))
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
