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

// pass greets the users whose birthday is due and prints the result. It ends when no event
// is due any more, or when ctx is done.
func pass(ctx context.Context, c config, std streams) (err error) {
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
	registry, err := almanac.NewRegistry(newGreeter(c))
	if err != nil {
		return err
	}
	deliverer, err := c.sender(log)
	if err != nil {
		return err
	}
	scheduler, err := almanac.NewScheduler(store, registry, append(c.options(log), almanac.WithDeliverer(almanac.ChannelWebhook, deliverer))...)
	if err != nil {
		return err
	}
	did, err := scheduler.RunOnce(ctx, almanac.RunOnceOptions{})
	fmt.Fprintf(std.out, "claimed %d: %d completed, %d failed, %d called off, %d to be tried again, %d released, %d not stored; %d recovered; more: %t\n",
		did.Claimed, did.Completed, did.Failed, did.Cancelled, did.Retried, did.Released, did.Unstored, did.Recovered, did.More)
	return err
}
