// Quickstart is the program of the README: it stores one person in the database
// that DATABASE_URL names and greets them on each of their birthdays, at nine in
// the morning where they live, until it is interrupted.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	check(postgres.Migrate(ctx, pool))
	store := must(postgres.New(pool))

	registry := must(almanac.NewRegistry(almanac.Birthday{}))
	deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		fmt.Println(d.Event.Wall, d.Event.Zone, string(d.Event.Payload))
		return nil // an error would be tried again; package webhook sends HTTP
	})
	scheduler := must(almanac.NewScheduler(store, registry,
		almanac.WithDeliverer(almanac.ChannelWebhook, deliver)))

	ada := must(scheduler.CreateUser(ctx, almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace",
		DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	}))
	fmt.Println(ada.User.Name(), "will be greeted at", ada.Events[0].Wall, ada.Events[0].Zone)

	check(scheduler.Run(ctx)) // until ctx is done; then it drains
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
