package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// club keeps the host's rows of its members.
type club struct {
	pool      *pgxpool.Pool
	scheduler almanac.Scheduler
}

// together runs work in a transaction, with a scheduler bound to it. An error rolls back both sides.
func (c club) together(ctx context.Context, work func(pgx.Tx, almanac.Scheduler) error) error {
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		store, err := postgres.New(tx)
		if err != nil {
			return err
		}
		return work(tx, c.scheduler.With(store))
	})
}

func (c club) join(ctx context.Context, email string, p almanac.Profile) (id uuid.UUID, err error) {
	err = c.together(ctx, func(tx pgx.Tx, bound almanac.Scheduler) error {
		enrolled, err := bound.CreateUser(ctx, p)
		if err != nil {
			return err
		}
		id = enrolled.User.ID
		_, err = tx.Exec(ctx, "INSERT INTO members VALUES ($1, $2, $3)", id, email, p.Timezone)
		return err
	})
	return id, err
}

func (c club) move(ctx context.Context, id uuid.UUID, zone string) error {
	return c.together(ctx, func(tx pgx.Tx, bound almanac.Scheduler) error {
		if _, err := tx.Exec(ctx, "UPDATE members SET zone = $2 WHERE id = $1", id, zone); err != nil {
			return err
		}
		_, err := bound.UpdateUser(ctx, id, almanac.ProfileChange{Timezone: &zone})
		return err
	})
}

func (c club) leave(ctx context.Context, id uuid.UUID) error {
	return c.together(ctx, func(tx pgx.Tx, bound almanac.Scheduler) error {
		if _, err := tx.Exec(ctx, "DELETE FROM members WHERE id = $1", id); err != nil {
			return err
		}
		_, err := bound.DeleteUser(ctx, id, almanac.DeleteOptions{})
		return err
	})
}
