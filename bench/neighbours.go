package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// edited is the user who is edited. Some neighbours give them a past.
var edited = uuid.MustParse("0198a1f0-7c3e-7d6a-9b1f-0a1b2c3d4e5f")

// neighbour is something beside which Almanac should be as fast as it is alone.
type neighbour struct {
	name     string
	contract string
	fill     func(ctx context.Context, conn *pgxpool.Conn) error // stores it; nil for nothing
	holds    func(ctx context.Context, tx pgx.Tx) error          // what a transaction does that is open while a figure is taken; nil for none
	kept     int                                                 // how many events wait for that transaction
	old      bool                                                // a transaction is open while all figures are taken
}

func (b *bench) neighbours() []neighbour {
	due := func(eventType string) func(context.Context, *pgxpool.Conn) error {
		return func(ctx context.Context, conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, waiting, eventType, b.Waiting)
			return err
		}
	}
	return []neighbour{
		{name: alone, contract: "nothing beside it"},
		{name: fmt.Sprintf("%d due of a paused type", b.Waiting), contract: "the type has a handler, and is paused", fill: due(pausedType)},
		{name: fmt.Sprintf("%d due of an unhandled type", b.Waiting), contract: "the process has no handler of the type", fill: due("UNHANDLED")},
		{
			name: fmt.Sprintf("a transaction on %d users", heldUsers), contract: "it has updated the users whose events are due first, and stays open",
			holds: holdUsers, kept: heldUsers,
		},
		{name: "an old transaction", contract: "REPEATABLE READ; it keeps what events leave behind from being removed", old: true},
		{name: fmt.Sprintf("%d ended events of the user", b.Ended), contract: "the edited user has as many ended follow-ups, and as many ended birthdays", fill: func(ctx context.Context, conn *pgxpool.Conn) error {
			for _, sql := range []string{endedSeries, endedOfUser} {
				if _, err := conn.Exec(ctx, sql, edited, b.Ended); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: fmt.Sprintf("%d ended events of all", b.History), contract: "of the users whose events are due", fill: func(ctx context.Context, conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, endedOfAll, b.History)
			return err
		}},
	}
}

// holdUsers updates the users whose events are due first, as a host does in a transaction of
// its own.
func holdUsers(ctx context.Context, tx pgx.Tx) error {
	tag, err := tx.Exec(ctx, `
		UPDATE almanac.users
		SET first_name = 'Grace', version = version + 1
		WHERE id IN (
			SELECT s.user_id
			FROM almanac.queue q
			JOIN almanac.series s ON s.id = q.series_id
			WHERE q.event_type = 'BIRTHDAY' AND s.user_id <> $1
			ORDER BY q.available_at, q.event_id
			LIMIT $2)`, edited, heldUsers)
	if err == nil && tag.RowsAffected() != heldUsers {
		err = fmt.Errorf("%d users are held", tag.RowsAffected())
	}
	return err
}

// waiting fills the queue with events of one type that have been due for days.
//
//	$1 text (the type) · $2 integer (how many)
const waiting = `
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from)
	SELECT now() - interval '400 days' + n * interval '10 ms', gen_random_uuid(), -n, $1, NULL
	FROM generate_series(1, $2::integer) n`

// endedSeries gives a user follow-ups that have ended.
//
//	$1 uuid (of the user) · $2 integer (how many)
const endedSeries = `
	INSERT INTO almanac.series (user_id, event_type, name, current_user_version, used_key, used_nominal, used_local, occurrence_key, target_timestamp_utc,
		target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, detached, origin)
	SELECT $1, 'GIFT', '', 1, n, now(), now(), n, now(), now(), 'UTC', 'forward,first,feb28,clamp',
		'event-' || n, '{}', 1, 'follow-up:' || n, 'follow-up'
	FROM generate_series(1, $2::integer) n`

// endedOfUser gives a user birthdays that have ended.
//
//	$1 uuid (of the user) · $2 integer (how many)
const endedOfUser = `
	INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local,
		target_timezone, policies, idempotency_key, delivery_payload, user_version, lease_token, executed_at, retry_count, claim_count,
		crash_count, version, created_at, updated_at)
	SELECT gen_random_uuid(), $1::uuid, 'BIRTHDAY', n, 'COMPLETED', due, due AT TIME ZONE 'UTC', 'UTC', 'forward,first,feb28,clamp', 'event-' || n, '{}',
		1, gen_random_uuid(), due, 0, 1, 0, 3, due, due
	FROM generate_series(1, $2::integer) n, LATERAL (SELECT now() - n * interval '1 day') d (due)`

// endedOfAll gives all users birthdays that have ended, as many to each, in the order in which
// they ended.
//
//	$1 bigint (how many)
const endedOfAll = `
	WITH ended AS (
		INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local,
			target_timezone, policies, idempotency_key, delivery_payload, user_version, lease_token, executed_at, retry_count, claim_count,
			crash_count, version, created_at, updated_at)
		SELECT (lpad(to_hex(1000000000000 + row_number() OVER ()), 12, '0') || '70008000000000000000')::uuid, u.id, 'BIRTHDAY', year, 'COMPLETED',
			due, due AT TIME ZONE 'UTC', 'UTC', 'forward,first,feb28,clamp', 'event-' || left(md5(u.id::text || year), 16),
			'{"message": "Hey, Ada Lovelace it''s your birthday"}', 1, u.id, due, 0, 1, 0, 3, due, due
		FROM (SELECT count(*) AS count FROM almanac.users) c, LATERAL generate_series(1, greatest(1, $1::bigint / c.count)) year,
			LATERAL (SELECT timestamptz '1900-01-01 09:00Z' + year * interval '1 day') d (due), almanac.users u
		RETURNING idempotency_key
	)
	INSERT INTO almanac.keys (idempotency_key)
	SELECT idempotency_key
	FROM ended`
