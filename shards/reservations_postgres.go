package shards

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is a pool of connections, such as a *pgxpool.Pool.
type DB interface {
	// Begin starts a transaction.
	Begin(ctx context.Context) (pgx.Tx, error)

	// Exec executes a statement.
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// PostgresReservations are [Reservations] in a table of their own. External ids change only while the database is reachable.
type PostgresReservations struct {
	db    DB
	table string
}

var _ Reservations = (*PostgresReservations)(nil)

// NewPostgresReservations returns reservations in the table "reservations" of a PostgreSQL schema, such as "almanac_shards".
// [PostgresReservations.Create] creates it. The database can be one of those that have users. db must not be the pool of a
// store: an edit waits for a reservation while it has a connection of its own.
func NewPostgresReservations(db DB, schema string) *PostgresReservations {
	return &PostgresReservations{db, pgx.Identifier{schema, "reservations"}.Sanitize()}
}

// Create creates the schema and the table if they do not exist.
func (p *PostgresReservations) Create(ctx context.Context) error {
	schema := p.table[:len(p.table)-len(`."reservations"`)]
	_, err := p.db.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+schema)
	if err == nil {
		_, err = p.db.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+p.table+` (
	external_id text COLLATE "C" PRIMARY KEY,
	user_id uuid NOT NULL,
	attempt uuid NOT NULL, -- the last attempt to create the user
	busy_until timestamptz NOT NULL -- by then the outcome of the attempt is visible
)`)
	}
	if err != nil {
		return fmt.Errorf("shards: create reservations: %w", err)
	}
	return nil
}

// The statements lock rows in the order of external ids, so that they wait for each other and never end in a deadlock. Operators are named
// with their schema, so that none of the search_path replaces them.
const (
	reserveRows = `INSERT INTO %s AS r (external_id, user_id, attempt, busy_until)
SELECT w.external_id, w.user_id::uuid, w.attempt::uuid, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) w.busy::interval
FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[]), pg_catalog.unnest($4::text[])) AS w (external_id, user_id, attempt, busy)
ORDER BY w.external_id COLLATE "C"
ON CONFLICT (external_id) DO NOTHING`
	lockRows = `SELECT r.external_id, r.user_id::text, r.attempt::text, r.busy_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
FROM %s AS r
WHERE r.external_id OPERATOR(pg_catalog.=) ANY ($1::text[])
ORDER BY r.external_id
FOR UPDATE`
	renewRow = `UPDATE %s AS r
SET attempt = $3::text::uuid, busy_until = pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) $4::text::interval
WHERE r.external_id OPERATOR(pg_catalog.=) $1::text AND r.user_id OPERATOR(pg_catalog.=) $2::text::uuid`
	endRow = `UPDATE %s AS r
SET busy_until = '-infinity'
WHERE r.external_id OPERATOR(pg_catalog.=) $1::text AND r.user_id OPERATOR(pg_catalog.=) $2::text::uuid AND r.attempt OPERATOR(pg_catalog.=) $3::text::uuid`
	takeRow = `INSERT INTO %s AS r (external_id, user_id, attempt, busy_until)
VALUES ($1::text, $2::text::uuid, $3::text::uuid, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) $4::text::interval)
ON CONFLICT (external_id) DO UPDATE SET user_id = excluded.user_id, attempt = excluded.attempt, busy_until = excluded.busy_until
WHERE r.user_id OPERATOR(pg_catalog.=) $5::text::uuid AND r.attempt OPERATOR(pg_catalog.=) $6::text::uuid AND r.busy_until OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()`
	freeRow = `DELETE FROM %s AS r
WHERE r.external_id OPERATOR(pg_catalog.=) $1::text AND r.user_id OPERATOR(pg_catalog.=) $2::text::uuid
	AND r.attempt OPERATOR(pg_catalog.=) $3::text::uuid AND r.busy_until OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()`
)

// statement returns a statement about the table.
func (p *PostgresReservations) statement(text string) string { return fmt.Sprintf(text, p.table) }

// interval returns a time in the form of PostgreSQL. Zero and less have passed.
func interval(d time.Duration) string {
	return fmt.Sprintf("%d microseconds", max(d, 0).Microseconds())
}

// Hold makes reservations in one transaction.
func (p *PostgresReservations) Hold(ctx context.Context, wanted []Reservation) ([]Held, error) {
	n := len(wanted)
	externalIDs, users, attempts, busy := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	place := make(map[string]int, n)
	for i, w := range wanted {
		externalIDs[i], users[i], attempts[i], busy[i] = w.ExternalID, w.User.String(), w.Attempt.String(), interval(w.For)
		place[w.ExternalID] = i
	}
	held := make([]Held, n)
	err := pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, p.statement(reserveRows), externalIDs, users, attempts, busy); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, p.statement(lockRows), externalIDs)
		if err != nil {
			return err
		}
		type row struct {
			ExternalID, User, Attempt string
			Busy                      bool
		}
		stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		if err != nil {
			return err
		}
		for _, r := range stored {
			i := place[r.ExternalID]
			mine := r.Attempt == attempts[i] && wanted[i].Attempt != uuid.Nil // made just now
			held[i] = Held{uuid.MustParse(r.User), uuid.MustParse(r.Attempt), r.Busy && !mine}
			if held[i].User != wanted[i].User || mine || wanted[i].For <= 0 {
				continue
			}
			if _, err := tx.Exec(ctx, p.statement(renewRow), externalIDs[i], users[i], attempts[i], busy[i]); err != nil {
				return err
			}
			held[i].Attempt = wanted[i].Attempt
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("shards: reserve external ids: %w", err)
	}
	return held, nil
}

// End ends attempts.
func (p *PostgresReservations) End(ctx context.Context, attempts []Reservation) error {
	attempts = slices.SortedFunc(slices.Values(attempts), func(a, b Reservation) int { return strings.Compare(a.ExternalID, b.ExternalID) })
	batch := new(pgx.Batch)
	for _, a := range attempts {
		batch.Queue(p.statement(endRow), a.ExternalID, a.User.String(), a.Attempt.String())
	}
	err := pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return fmt.Errorf("shards: end reservations: %w", err)
	}
	return nil
}

// Take takes over a reservation.
func (p *PostgresReservations) Take(ctx context.Context, from Held, to Reservation) (bool, error) {
	tag, err := p.db.Exec(ctx, p.statement(takeRow), to.ExternalID, to.User.String(), to.Attempt.String(), interval(to.For), from.User.String(), from.Attempt.String())
	if err != nil {
		return false, fmt.Errorf("shards: take over a reservation: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// Free deletes a reservation.
func (p *PostgresReservations) Free(ctx context.Context, externalID string, is Held) error {
	if _, err := p.db.Exec(ctx, p.statement(freeRow), externalID, is.User.String(), is.Attempt.String()); err != nil {
		return fmt.Errorf("shards: free a reservation: %w", err)
	}
	return nil
}
