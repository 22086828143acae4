package main

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// sqlClub keeps its members through database/sql.
type sqlClub struct {
	db        *sql.DB // with pgx's driver
	scheduler almanac.Scheduler
}

// together runs work in a transaction, with a scheduler bound to it. An error rolls back
// both sides.
func (c sqlClub) together(ctx context.Context, work func(*sql.Tx, almanac.Scheduler) error) error {
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

func (c sqlClub) join(ctx context.Context, email string, p almanac.Profile) (id uuid.UUID, err error) {
	err = c.together(ctx, func(tx *sql.Tx, bound almanac.Scheduler) error {
		enrolled, err := bound.CreateUser(ctx, p)
		if err != nil {
			return err
		}
		id = enrolled.User.ID
		_, err = tx.ExecContext(ctx, "INSERT INTO members VALUES ($1, $2, $3)", id, email, p.Timezone)
		return err
	})
	return id, err
}

func (c sqlClub) move(ctx context.Context, id uuid.UUID, zone string) error {
	return c.together(ctx, func(tx *sql.Tx, bound almanac.Scheduler) error {
		if _, err := tx.ExecContext(ctx, "UPDATE members SET zone = $2 WHERE id = $1", id, zone); err != nil {
			return err
		}
		_, err := bound.UpdateUser(ctx, id, almanac.ProfileChange{Timezone: &zone})
		return err
	})
}

func (c sqlClub) leave(ctx context.Context, id uuid.UUID) error {
	return c.together(ctx, func(tx *sql.Tx, bound almanac.Scheduler) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM members WHERE id = $1", id); err != nil {
			return err
		}
		_, err := bound.DeleteUser(ctx, id, almanac.DeleteOptions{})
		return err
	})
}
