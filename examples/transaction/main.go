// Transaction shows a host that keeps its own row of a member consistent with Almanac's user and events.
// Both are stored, changed and deleted in one transaction, or not at all. It uses pgx, in the database
// that DATABASE_URL names, and ends. The example hosts/databasesql uses database/sql.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

const schema = `
CREATE TABLE IF NOT EXISTS members (
	id    uuid PRIMARY KEY,
	email text NOT NULL UNIQUE,
	zone  text NOT NULL
)`

func main() {
	ctx := context.Background()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	check(postgres.Migrate(ctx, pool))
	must(pool.Exec(ctx, schema))

	registry := must(almanac.NewRegistry(almanac.Birthday{}))
	scheduler := must(almanac.NewScheduler(must(postgres.New(pool)), registry))

	check(show(ctx, os.Stdout, club{pool, scheduler}))
}

// show lets a user join, fail to join again, move and leave.
func show(ctx context.Context, out io.Writer, c club) error {
	ada := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}
	id, err := c.join(ctx, "ada@example.org", ada)
	if err != nil {
		return err
	}
	if err := report(ctx, out, c.pool, "joined"); err != nil {
		return err
	}
	if _, err := c.join(ctx, "ada@example.org", ada); err == nil { // another user, with the same address
		return fmt.Errorf("two members have one address")
	}
	if err := report(ctx, out, c.pool, "refused"); err != nil {
		return err
	}
	if err := c.move(ctx, id, "Asia/Tokyo"); err != nil {
		return err
	}
	if err := report(ctx, out, c.pool, "moved"); err != nil {
		return err
	}
	if err := c.leave(ctx, id); err != nil {
		return err
	}
	return report(ctx, out, c.pool, "left")
}

// report prints what is stored on both sides.
func report(ctx context.Context, out io.Writer, pool *pgxpool.Pool, what string) error {
	var members, users, events, zones string
	err := pool.QueryRow(ctx, `
		SELECT
			(SELECT count(*) FROM members),
			(SELECT count(*) FROM almanac.users),
			(SELECT count(*) FROM almanac.events),
			(SELECT coalesce(string_agg(zone, ' '), '-') FROM members) || ', ' ||
			(SELECT coalesce(string_agg(target_timezone, ' '), '-') FROM almanac.events)`).Scan(&members, &users, &events, &zones)
	fmt.Fprintf(out, "%-8s %s members, %s users, %s events in %s\n", what, members, users, events, zones)
	return err
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
