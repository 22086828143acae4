package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// jobArgs are the arguments of a job that does nothing, like those of River's own benchmark.
type jobArgs struct {
	Num  int `json:"num"`
	Year int `json:"year,omitempty"` // of a successor: each has a year more than the job before it
}

func (jobArgs) Kind() string { return "benchmark" }

type jobWorker struct {
	river.WorkerDefaults[jobArgs]
	started func(place uint64, due time.Time)
	succeed func(ctx context.Context, job *river.Job[jobArgs]) error // nil if a job has no successor
}

func (w *jobWorker) Work(ctx context.Context, job *river.Job[jobArgs]) error {
	if w.started != nil {
		w.started(uint64(job.ID), job.ScheduledAt)
	}
	if w.succeed != nil {
		return w.succeed(ctx, job)
	}
	return nil
}

// riverSettings are how a client fetches.
type riverSettings struct {
	workers  int
	cooldown time.Duration                                            // zero is River's default
	poll     time.Duration                                            // zero is River's default
	succeed  func(ctx context.Context, job *river.Job[jobArgs]) error // nil if jobs have no successor
}

// benchSettings are those that "river bench" chooses for the highest throughput.
func benchSettings() riverSettings {
	return riverSettings{workers: 2000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond}
}

func riverSystem() system {
	return system{
		name: baseline, template: "river",
		contract: "no successor; one client with the settings of its own benchmark; keeps the job",
		migrate:  migrateRiver,
		store:    storeJobs,
		start:    riverStarter(benchSettings()),
	}
}

// riverDefaults is River as its documentation sets it up.
func riverDefaults() system {
	s := riverSystem()
	s.name, s.contract = "river-defaults", "one client with River's defaults and 100 workers"
	s.start = riverStarter(riverSettings{workers: 100})
	return s
}

func migrateRiver(ctx context.Context, db database) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(db.pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// storeJobs inserts jobs, five thousand at a time.
func storeJobs(ctx context.Context, db database, o load) error {
	client, err := river.NewClient(riverpgxv5.New(db.pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	const batch = 5000
	for from := 0; from < o.count; from += batch {
		if err := insertJobs(ctx, client, o, from, min(from+batch, o.count)); err != nil {
			return err
		}
	}
	return nil
}

func insertJobs(ctx context.Context, client *river.Client[pgx.Tx], o load, from, to int) error {
	jobs := make([]river.InsertManyParams, 0, to-from)
	for n := from; n < to; n++ {
		job := river.InsertManyParams{Args: jobArgs{Num: n}}
		if !o.first.IsZero() {
			job.InsertOpts = &river.InsertOpts{ScheduledAt: o.first.Add(time.Duration(n) * o.step)}
		}
		jobs = append(jobs, job)
	}
	_, err := client.InsertManyFast(ctx, jobs)
	return err
}

func riverStarter(s riverSettings) func(context.Context, database, hooks) (*running, error) {
	return func(ctx context.Context, db database, e hooks) (*running, error) { return startRiver(ctx, db, s, e) }
}

func startRiver(ctx context.Context, db database, s riverSettings, e hooks) (*running, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &jobWorker{started: e.started, succeed: s.succeed})
	client, err := river.NewClient(riverpgxv5.New(db.pool), &river.Config{
		FetchCooldown: s.cooldown, FetchPollInterval: s.poll,
		Logger:  slog.New(slog.DiscardHandler),
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.workers}},
		Workers: workers,
	})
	if err != nil {
		return nil, err
	}
	// A subscription is notified of a job once its completion is stored. It drops events
	// if its channel is full.
	received, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 200_000, Kinds: []river.EventKind{
		river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled,
	}})
	var failed error
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for event := range received {
			if event.Kind != river.EventKindJobCompleted {
				failed = errors.Join(failed, fmt.Errorf("river: job %d: %s", event.Job.ID, event.Kind))
			} else if e.stored != nil {
				e.stored()
			}
		}
	}()
	if err := client.Start(ctx); err != nil {
		unsubscribe()
		return nil, err
	}
	stop := func() error {
		err := client.Stop(context.WithoutCancel(ctx))
		unsubscribe() // closes the channel
		<-counted
		return errors.Join(err, failed)
	}
	plan := func(ctx context.Context, due time.Time) error {
		_, err := client.Insert(ctx, jobArgs{}, &river.InsertOpts{ScheduledAt: due})
		return err
	}
	return &running{plan, stop}, nil
}

// checkRiver makes sure that what was counted is what is stored.
func checkRiver(ctx context.Context, db database, done int) error {
	var completed int
	err := db.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&completed)
	if err == nil && completed < done {
		err = fmt.Errorf("counted %d jobs, but %d are completed", done, completed)
	}
	return err
}

// succeedingPool is how many connections River has where each job has a transaction. On two
// cores 48 are no faster.
const succeedingPool = 16

// riverSuccessorSystem is River whose jobs store their successors as its documentation says:
// a unique job, inserted in the transaction that completes the present one.
func riverSuccessorSystem() system {
	s := riverSystem()
	s.name = riverSuccessor
	s.contract = "a job inserts its unique successor and completes itself in one transaction, on a pool of 16"
	s.start = startRiverSuccessor
	return s
}

func startRiverSuccessor(ctx context.Context, db database, e hooks) (*running, error) {
	pool, err := poolOf(ctx, db.url, succeedingPool)
	if err != nil {
		return nil, err
	}
	db.pool = pool
	settings := benchSettings()
	settings.succeed = succeedOn(pool)
	r, err := startRiver(ctx, db, settings, e)
	if err != nil {
		pool.Close()
		return nil, err
	}
	stop := func() error {
		defer pool.Close()
		return r.stop()
	}
	return &running{r.plan, stop}, nil
}

func succeedOn(pool *pgxpool.Pool) func(context.Context, *river.Job[jobArgs]) error {
	return func(ctx context.Context, job *river.Job[jobArgs]) error {
		next := &river.InsertOpts{ScheduledAt: job.ScheduledAt.AddDate(1, 0, 0), UniqueOpts: river.UniqueOpts{ByArgs: true}}
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := river.ClientFromContext[pgx.Tx](ctx).InsertTx(ctx, tx, jobArgs{Num: job.Args.Num, Year: job.Args.Year + 1}, next)
			if err != nil {
				return err
			}
			_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
	}
}

// checkRiverSuccessor makes sure that each completed job has its successor, once.
func checkRiverSuccessor(ctx context.Context, db database, done int) error {
	if err := checkRiver(ctx, db, done); err != nil {
		return err
	}
	var completed, followed int
	err := db.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE state = 'completed'),
			count(DISTINCT args) FILTER (WHERE state = 'scheduled' AND unique_key IS NOT NULL AND args ->> 'year' = '1')
		FROM river_job`).Scan(&completed, &followed)
	if err == nil && completed != followed {
		err = fmt.Errorf("%d jobs are completed, but %d have a successor", completed, followed)
	}
	return err
}
