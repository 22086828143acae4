package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

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

func startRiverSuccessor(ctx context.Context, db database, e ears) (*running, error) {
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
