// Databasesql is a host that keeps its members by database/sql, with pgx's driver. When a member
// joins or moves, Almanac's user and events are stored in the same transaction.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

const schema = "CREATE TABLE IF NOT EXISTS members (id uuid PRIMARY KEY, email text NOT NULL UNIQUE, zone text NOT NULL)"

type club struct {
	db        *sql.DB           // has the members
	scheduler almanac.Scheduler // has the users and their events
}

// open prepares the database. The *sql.DB borrows its connections from the pool, so that one
// limit holds for both; close it before the pool.
func open(ctx context.Context, pool *pgxpool.Pool, greet almanac.DelivererFunc) (club, error) {
	if err := postgres.Migrate(ctx, pool); err != nil {
		return club{}, err
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		return club{}, err
	}
	store, err := postgres.New(pool)
	if err != nil {
		return club{}, err
	}
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		return club{}, err
	}
	scheduler, err := almanac.NewScheduler(store, registry, almanac.WithDeliverer(almanac.ChannelWebhook, greet))
	if err != nil {
		return club{}, err
	}
	return club{stdlib.OpenDBFromPool(pool), scheduler}, nil
}

// together runs work in one transaction. An error of either side rolls back both.
func (c club) together(ctx context.Context, work func(*sql.Tx, almanac.Scheduler) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it has no effect
	store, err := postgres.NewSQL(tx)
	if err != nil {
		return err
	}
	if err := work(tx, c.scheduler.With(store)); err != nil {
		return err
	}
	return tx.Commit()
}

func (c club) join(ctx context.Context, p almanac.Profile) (id uuid.UUID, err error) {
	err = c.together(ctx, func(tx *sql.Tx, bound almanac.Scheduler) error {
		created, err := bound.CreateUser(ctx, p)
		if err != nil {
			return err
		}
		id = created.User.ID
		_, err = tx.ExecContext(ctx, "INSERT INTO members VALUES ($1, $2, $3)", id, p.Email, p.Timezone)
		return err
	})
	return id, err
}

func (c club) move(ctx context.Context, id uuid.UUID, zone string) error {
	return c.together(ctx, func(tx *sql.Tx, bound almanac.Scheduler) error {
		if _, err := tx.ExecContext(ctx, "UPDATE members SET zone = $2 WHERE id = $1", id, zone); err != nil {
			return err
		}
		_, err := bound.UpdateUser(ctx, id, almanac.ProfileChange{Timezone: &zone})
		return err
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("DATABASE_URL")); err != nil {
		log.Fatal(err)
	}
}

// run delivers until ctx is done. A host with a server of its own starts that beside Run, and
// its handlers call join and move.
func run(ctx context.Context, database string) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := open(ctx, pool, func(_ context.Context, d almanac.Delivery) error {
		_, err := fmt.Println(d.User.Email, string(d.Event.Payload))
		return err
	})
	if err != nil {
		return err
	}
	defer c.db.Close()
	return c.scheduler.Run(ctx)
}
