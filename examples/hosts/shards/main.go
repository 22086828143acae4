// Shards keeps users in databases on several servers, and works on them as on one: each user is in
// one database, pages are about all, and one Run delivers for all. The arguments are the URLs of
// the databases: always all of them, and always in the same order.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/shards"
)

// cluster is a store over the databases.
type cluster struct {
	*shards.Store
	pools []*pgxpool.Pool // of the databases, and one of the reservations
}

// pool opens a pool that is closed with the cluster.
func (c *cluster) pool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	pool, err := pgxpool.New(ctx, url)
	if err == nil {
		c.pools = append(c.pools, pool)
	}
	return pool, err
}

func (c *cluster) close() {
	for _, pool := range c.pools {
		pool.Close()
	}
}

// open migrates all databases, and opens a store over them. The slots of users are divided equally
// among them, so the number of databases stays what it is.
func open(ctx context.Context, urls ...string) (c *cluster, err error) {
	c = new(cluster)
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	var places []shards.Place
	var schemas []shards.Schema
	for i, url := range urls {
		name := fmt.Sprint("shard-", i+1)
		pool, err := c.pool(ctx, url)
		if err != nil {
			return nil, err
		}
		if err := postgres.Migrate(ctx, pool); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		store := must(postgres.New(pool)) // fails for wrong options only
		places = append(places, shards.Place{Schema: name})
		schemas = append(schemas, shards.Schema{Name: name, Repository: store, Statistics: store})
	}
	// External ids are unique over all databases: they are reserved in the first one, by a pool of its own.
	pool, err := c.pool(ctx, urls[0])
	if err != nil {
		return nil, err
	}
	reservations := shards.NewPostgresReservations(pool, "almanac_shards")
	if err := reservations.Create(ctx); err != nil {
		return nil, err
	}
	c.Store, err = shards.New(shards.Options{
		Directory: shards.NewDirectory(places...), Schemas: schemas, Reservations: reservations,
		OnError: func(shard string, err error) { log.Println(shard, err) },
	})
	return c, err
}

// upcoming prints the next events of all databases in the order in which they are due, each with the
// database of its user. If a server is down it prints what the others have, and returns the error.
func upcoming(ctx context.Context, c *cluster, out io.Writer, n int) error {
	found, err := c.Find(ctx, almanac.InStatus(almanac.Pending), almanac.Page{Order: almanac.NextFirst, Limit: n})
	for _, e := range found.Items {
		fmt.Fprintln(out, e.Due.UTC().Format("2006-01-02 15:04"), e.Type, e.UserID, c.SchemaOf(e.UserID))
	}
	return err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := must(open(ctx, os.Args[1:]...))
	defer c.close()
	registry := must(almanac.NewRegistry(almanac.Birthday{}))
	scheduler := must(almanac.NewScheduler(c.Store, registry, almanac.WithDeliverer(almanac.ChannelWebhook, greet)))
	if err := upcoming(ctx, c, os.Stdout, 10); err != nil {
		log.Println(err) // Run works for the other databases
	}
	if err := scheduler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

var greet = almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
	_, err := fmt.Println(string(d.Event.Payload))
	return err
})

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
