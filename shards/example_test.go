package shards_test

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/shards"
)

// A scheduler works on a store over two schemas as on one.
func ExampleNew() {
	directory := shards.NewDirectory(shards.Place{Schema: "west"}, shards.Place{Schema: "east"})
	store, err := shards.New(shards.Options{
		Directory: directory,
		Schemas: []shards.Schema{
			{Name: "west", Repository: almanactest.NewRepository(nil)}, // or a postgres.Store
			{Name: "east", Repository: almanactest.NewRepository(nil)},
		},
		Reservations: shards.NewMemoryReservations(), // or NewPostgresReservations
	})
	if err != nil {
		panic(err)
	}
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(store, registry)
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"} {
		created, err := scheduler.CreateUser(context.Background(), almanac.Profile{
			ID: uuid.MustParse(id), FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(store.SchemaOf(created.User.ID))
	}
	n, err := store.Count(context.Background(), nil)
	fmt.Println(n, err)
	// Output:
	// east
	// west
	// 2 <nil>
}

// Reservations have a pool of their own. The database can be one of those with users.
func ExampleNewPostgresReservations() {
	open := func(ctx context.Context, directory shards.Directory, west, east, own *pgxpool.Pool) (*shards.Store, error) {
		reservations := shards.NewPostgresReservations(own, "almanac_shards")
		if err := reservations.Create(ctx); err != nil {
			return nil, err
		}
		var schemas []shards.Schema
		for name, pool := range map[string]*pgxpool.Pool{"west": west, "east": east} {
			store, err := postgres.New(pool)
			if err != nil {
				return nil, err
			}
			schemas = append(schemas, shards.Schema{Name: name, Repository: store, Statistics: store})
		}
		return shards.New(shards.Options{Directory: directory, Schemas: schemas, Reservations: reservations})
	}
	_ = open
}
