// Relay publishes the domain events of the outbox to a stream of NATS JetStream, for
// services that must not miss one.
//
// It reads the database that DATABASE_URL names, whose outbox must be on (see
// [postgres.EnableOutbox]), and publishes to the server that NATS_URL names. Several may
// run: one reads at a time, and another goes on when it dies.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

const (
	consumer = "relay" // the name under which it reads the outbox
	stream   = "ALMANAC_OUTBOX"
	subjects = "almanac.outbox." // and the kind, such as user_deleted
	keep     = 7 * 24 * time.Hour
	batch    = 100
	poll     = 500 * time.Millisecond
	pruned   = 5000 // rows in a step
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := postgres.New(pool)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(os.Getenv("NATS_URL"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return relay(ctx, store, js)
}

// prune deletes every minute what all consumers have read, until ctx is done.
func prune(ctx context.Context, store *postgres.Store) {
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		select {
		case <-minute.C:
		case <-ctx.Done():
			return
		}
		for n := pruned; n == pruned; {
			var err error
			if n, err = store.PruneOutbox(ctx, pruned); err != nil && ctx.Err() == nil {
				log.Print(err)
			}
		}
	}
}

// relay publishes until ctx is done. It goes on after any failure.
func relay(ctx context.Context, store *postgres.Store, js jetstream.JetStream) error {
	var pruning sync.WaitGroup
	pruning.Go(func() { prune(ctx, store) })
	defer pruning.Wait()
	size := batch
	for ctx.Err() == nil {
		n, err := publishOnce(ctx, store, js, size)
		switch {
		case errors.Is(err, almanac.ErrLocked): // another relay is reading
		case err != nil && ctx.Err() == nil:
			size = max(1, size/2) // a slow stream may not take a batch within the timeout of the store
			log.Print(err)
		case n == size:
			size = min(2*size, batch)
			continue // there may be more
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
		}
	}
	return nil
}

// publishOnce publishes a batch, and moves the position when the stream has all of it.
func publishOnce(ctx context.Context, store *postgres.Store, js jetstream.JetStream, size int) (int, error) {
	n, err := store.Consume(ctx, consumer, size, func(ctx context.Context, _ pgx.Tx, events []postgres.DomainEvent) error {
		for _, e := range events {
			if err := publish(ctx, js, e); err != nil {
				return fmt.Errorf("publish domain event %s: %w", e.ID, err)
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, almanac.ErrNotFound):
		return 0, store.CreateConsumer(ctx, consumer)
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: stream, Subjects: []string{subjects + "*"}, MaxAge: keep, Duplicates: 2 * time.Minute,
		})
	}
	return n, err
}

// publish waits for the stream's answer, so that no later message passes one that was
// refused. The stream drops an id that it has seen within its duplicate window. After a
// longer outage a message may come again: receivers must drop ids that they have seen.
func publish(ctx context.Context, js jetstream.JetStream, e postgres.DomainEvent) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = js.Publish(ctx, subjects+string(e.Kind), data, jetstream.WithMsgID(e.ID.String()), jetstream.WithExpectStream(stream))
	return err
}
