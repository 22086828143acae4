package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

//go:embed seeds.sql
var seedsSQL string

// oweSeeds stores users with an overdue event each, in the same order as owe.sql.
const oweSeeds = `
	WITH owed AS MATERIALIZED (
		SELECT gen_random_uuid() AS user_id, n, date_trunc('day', now(), 'UTC') + interval '9 hours' - (2 + abs(hashint4(n) % 299)) * interval '1 day' AS due
		FROM generate_series(1, $1::integer) n
	), people AS (
		INSERT INTO users (id, first_name, last_name, date_of_birth, timezone)
		SELECT user_id, 'Ada', 'Lovelace ' || n, (due - interval '28 years')::date, 'UTC' FROM owed
	)
	INSERT INTO events (user_id, status, target_timestamp_utc, target_timestamp_local, target_timezone, idempotency_key, delivery_payload)
	SELECT user_id, 'PENDING', due, due, 'UTC', 'event-' || left(md5(user_id::text), 16),
		jsonb_build_object('message', 'Hey, Ada Lovelace ' || n || ' it''s your birthday')
	FROM owed`

// The statements of the seeds' loop.
const (
	seedsSelect = `
		SELECT id, user_id, target_timestamp_utc, version, delivery_payload FROM events
		WHERE status = 'PENDING' AND target_timestamp_utc <= now()
		ORDER BY target_timestamp_utc
		LIMIT 100
		FOR UPDATE SKIP LOCKED`
	seedsClaim    = `UPDATE events SET status = 'PROCESSING', version = version + 1 WHERE id = ANY ($1)`
	seedsComplete = `UPDATE events SET status = 'COMPLETED', version = version + 1, executed_at = now() WHERE id = $1 AND version = $2`
	seedsSucceed  = `
		INSERT INTO events (user_id, status, target_timestamp_utc, target_timestamp_local, target_timezone, idempotency_key, delivery_payload)
		VALUES ($1, 'PENDING', $2, $2, 'UTC', $3, $4)`
)

type seedEvent struct {
	ID      string
	UserID  string
	Due     time.Time
	Version int
	Payload json.RawMessage
}

func fillSeeds(events int) func(context.Context, database) error {
	return func(ctx context.Context, db database) error {
		if _, err := db.pool.Exec(ctx, seedsSQL); err != nil {
			return err
		}
		_, err := db.pool.Exec(ctx, oweSeeds, events)
		return err
	}
}

// runSeeds claims a hundred and then ends each by itself, in a transaction.
func runSeeds(ctx context.Context, db database, want int, limit time.Duration) (tally, error) {
	m, err := db.meter(ctx, want)
	if err != nil {
		return tally{}, err
	}
	for n := m.n.Load(); n < m.want && time.Since(m.began) < limit; n = m.n.Load() {
		var claimed []seedEvent
		err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, seedsSelect)
			if err != nil {
				return err
			}
			if claimed, err = pgx.CollectRows(rows, pgx.RowToStructByPos[seedEvent]); err != nil {
				return err
			}
			ids := make([]string, len(claimed))
			for i, e := range claimed {
				ids[i] = e.ID
			}
			_, err = tx.Exec(ctx, seedsClaim, ids)
			return err
		})
		if err != nil {
			return tally{}, err
		}
		for _, e := range claimed {
			if err := endSeed(ctx, db, e); err != nil {
				return tally{}, err
			}
			m.one()
		}
	}
	return m.tally(ctx)
}

// checkSeeds makes sure that each event that has ended has its successor.
func checkSeeds(ctx context.Context, db database, done int) error {
	var completed, followed int
	err := db.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE status = 'COMPLETED'), count(*) FILTER (WHERE status = 'PENDING' AND target_timestamp_utc > now())
		FROM events`).Scan(&completed, &followed)
	if err == nil && (completed < done || completed != followed) {
		err = fmt.Errorf("counted %d events, but %d are COMPLETED and %d have a successor", done, completed, followed)
	}
	return err
}

func endSeed(ctx context.Context, db database, e seedEvent) error {
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, seedsComplete, e.ID, e.Version+1); err != nil {
			return err
		}
		due := e.Due.AddDate(1, 0, 0)
		key := almanac.NewIdempotencyKey(e.UserID, due, almanac.TypeBirthday)
		_, err := tx.Exec(ctx, seedsSucceed, e.UserID, due, key.String(), e.Payload)
		return err
	})
}
