package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/postgres"
)

// passConns is all that a pass needs: one connection to claim and to store, one to renew
// leases.
const passConns = 2

// pass greets the users who are due and prints the result. It ends when no event is due any
// more, or when ctx is done.
func pass(ctx context.Context, c config, std streams) error {
	return briefly(ctx, c, std, func(scheduler almanac.Scheduler, _ almanac.Registry) error {
		did, err := scheduler.RunOnce(ctx, almanac.RunOnceOptions{})
		fmt.Fprintf(std.out, "claimed %d: %d completed, %d failed, %d called off, %d to be tried again, %d released, %d not stored; %d recovered; more: %t\n",
			did.Claimed, did.Completed, did.Failed, did.Cancelled, did.Retried, did.Released, did.Unstored, did.Recovered, did.More)
		return err
	})
}

// backfill stores the events that existing users lack, and prints how many for each type.
func backfill(ctx context.Context, c config, std streams) error {
	return briefly(ctx, c, std, func(scheduler almanac.Scheduler, registry almanac.Registry) error {
		for _, t := range registry.EventTypes() {
			did, err := scheduler.Backfill(ctx, t, almanac.BackfillOptions{})
			fmt.Fprintf(std.out, "%s: %d events stored for %d users, %d refused\n", t, did.Events, did.Users, len(did.Refused))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// briefly puts the library together without a service, for one call.
func briefly(ctx context.Context, c config, std streams, do func(almanac.Scheduler, almanac.Registry) error) (err error) {
	log := c.log.logger(std.err)
	db, err := findDatabase(ctx, c, sources{pgserver.Start, download}, log)
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, stopDatabase(ctx, db)) }()
	pool, err := open(ctx, db.url, passConns)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := await(ctx, pool, log); err != nil {
		return stopped(ctx, err)
	}
	if err := postgres.Migrate(ctx, pool); err != nil {
		return stopped(ctx, err)
	}
	store, err := postgres.New(pool)
	if err != nil {
		return err
	}
	registry, err := almanac.NewRegistry(c.handlers()...)
	if err != nil {
		return err
	}
	deliverers, err := c.deliverers(log)
	if err != nil {
		return err
	}
	options := c.options(log)
	for channel, deliverer := range deliverers {
		options = append(options, almanac.WithDeliverer(channel, deliverer))
	}
	scheduler, err := almanac.NewScheduler(store, registry, options...)
	if err != nil {
		return err
	}
	return do(scheduler, registry)
}
