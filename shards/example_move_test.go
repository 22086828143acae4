package shards_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/shards"
)

func ExampleMove() {
	ctx := context.Background()
	from, err := pgx.Connect(ctx, "postgres://mover@old/app")
	if err != nil {
		log.Fatal(err)
	}
	to, err := pgx.Connect(ctx, "postgres://mover@new/app")
	if err != nil {
		log.Fatal(err)
	}
	result, err := shards.Move(ctx, from, to, shards.MoveOptions{
		Schema:   "almanac",
		Source:   "host=old dbname=app user=mover",
		Publish:  func(context.Context) error { return nil }, // tells the programs
		Progress: func(p shards.MoveProgress) { log.Print(p) },
	})
	if err != nil {
		log.Fatal(err) // repeat it
	}
	fmt.Println("no server took writes for", result.Closed)
}
