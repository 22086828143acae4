// Cron greets the users whose birthday is due, on one connection, and ends. Run it from
// cron, as a Cloud Run job, or from EventBridge. In a crontab, the line is "* * * * *
// DATABASE_URL=postgres://localhost/birthdays cron".
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	config := must(pgxpool.ParseConfig(os.Getenv("DATABASE_URL")))
	config.MaxConns = 1
	pool := must(pgxpool.NewWithConfig(ctx, config))
	defer pool.Close()

	registry := must(almanac.NewRegistry(almanac.Birthday{}))
	deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		fmt.Println(d.Event.Wall, d.Event.Zone, string(d.Event.Payload))
		return nil // an error would be retried; package webhook sends HTTP
	})
	scheduler := must(almanac.NewScheduler(must(postgres.New(pool)), registry,
		almanac.WithDeliverer(almanac.ChannelWebhook, deliver)))

	for more := true; more && ctx.Err() == nil; {
		did := must(scheduler.RunOnce(ctx, almanac.RunOnceOptions{Limit: 1000, Within: 45 * time.Second}))
		fmt.Println(did.Completed, "greeted")
		more = did.More && did.Claimed > 0 // otherwise the remaining events are locked for now
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
