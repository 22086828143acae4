// Quickstart is the program of the README. It stores one user in the database that
// DATABASE_URL names, and greets them on each birthday at nine in the morning where they
// live. It runs until it is interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"

	"github.com/google/uuid"
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

	ada := almanac.Profile{
		ID:        uuid.MustParse("0198a1f0-7c3e-7d6a-9b1f-0a1b2c3d4e5f"), // your own id, so that later runs find the same user
		FirstName: "Ada", LastName: "Lovelace",
		DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	}
	if _, err := scheduler.CreateUser(ctx, ada); !errors.Is(err, almanac.ErrExists) {
		check(err) // on later runs, she exists already
	}
	for _, e := range must(scheduler.Schedule(ctx, ada.ID, almanac.TypeBirthday)) {
		fmt.Println(ada.FirstName, ada.LastName, "will be greeted at", e.Wall, e.Zone)
	}

	check(scheduler.Run(ctx)) // until ctx is done; then it drains
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
