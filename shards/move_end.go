package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// publish tells the programs, and ends the replication.
func (m *move) publish(ctx context.Context) error {
	if err := m.Publish(ctx); err != nil {
		return err
	}
	if !m.since.IsZero() {
		m.result.Closed = time.Since(m.since)
	}
	if _, err := m.to.Exec(ctx, "DROP SUBSCRIPTION IF EXISTS "+quoted(m.name)); err != nil { // and the slot of the source
		return err
	}
	_, err := m.from.Exec(ctx, "DROP PUBLICATION IF EXISTS "+quoted(m.name))
	return err
}

// Abandon ends a move before the target takes writes, and removes what it has made: the schema of the target, the subscription, the slot and the
// publication. If the source is closed, it gets its name back, and takes writes. Abandon can be repeated. The options are those of [Move]; only Schema is used.
// If the source is closed, another target than that of the move is an error, and changes nothing.
func Abandon(ctx context.Context, from, to *pgx.Conn, o MoveOptions) error {
	o.DryRun = true
	m, err := newMove(ctx, from, to, o)
	if err != nil {
		return err
	}
	defer m.unlock(ctx)
	if err := m.abandon(ctx); err != nil {
		return fmt.Errorf("shards: abandon the move of %s: %w", o.Schema, err)
	}
	return nil
}

func (m *move) abandon(ctx context.Context) error {
	var closed, open, there, asleep bool
	const names = `SELECT pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) IS NOT NULL, pg_catalog.to_regnamespace(pg_catalog.quote_ident($2)) IS NOT NULL`
	if err := m.from.QueryRow(ctx, names, m.Schema, m.closed).Scan(&open, &closed); err != nil {
		return err
	}
	const sleeps = `SELECT pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) IS NOT NULL, pg_catalog.to_regproc(pg_catalog.quote_ident($1) || '.asleep') IS NOT NULL`
	if err := m.to.QueryRow(ctx, sleeps, m.Schema).Scan(&there, &asleep); err != nil {
		return err
	}
	if closed && !open && there && !asleep {
		return errors.New("the target takes writes: repeat Move, which only goes on")
	}
	if closed && !open {
		if published, err := m.sameTarget(ctx); err != nil {
			return err
		} else if !published {
			return errors.New("the source is closed, and has no publication of the move: the move has ended")
		}
	}
	statements := []struct {
		conn *pgx.Conn
		sql  string
	}{
		{m.to, "DROP SUBSCRIPTION IF EXISTS " + quoted(m.name)},
		{m.from, `SELECT pg_catalog.pg_drop_replication_slot(s.slot_name) FROM pg_catalog.pg_replication_slots s WHERE s.slot_name OPERATOR(pg_catalog.=) ` + literal(m.name) + `::text::name`},
	}
	for _, one := range statements {
		if _, err := one.conn.Exec(ctx, one.sql); err != nil {
			return err
		}
	}
	if asleep {
		if _, err := m.to.Exec(ctx, "DROP SCHEMA "+quoted(m.Schema)+" CASCADE"); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, m.from, func(tx pgx.Tx) error { // together, so that a repetition still finds the target in the publication
		if _, err := tx.Exec(ctx, "DROP PUBLICATION IF EXISTS "+quoted(m.name)); err != nil || !closed || open {
			return err
		}
		_, err := tx.Exec(ctx, "ALTER SCHEMA "+quoted(m.closed)+" RENAME TO "+quoted(m.Schema)) // the target can no longer wake
		return err
	})
}

// sameTarget refuses another target than the one for which the source was closed, which the publication names. It reports whether there is
// a publication.
func (m *move) sameTarget(ctx context.Context) (published bool, err error) {
	var named string
	const comment = `SELECT coalesce(pg_catalog.obj_description(p.oid, 'pg_publication'), '') FROM pg_catalog.pg_publication p WHERE p.pubname OPERATOR(pg_catalog.=) $1::text::name`
	err = m.from.QueryRow(ctx, comment, m.name).Scan(&named)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err == nil && named != m.target {
		err = fmt.Errorf("the source was closed for another target: it is %q, and the given one is %q", named, m.target)
	}
	return true, err
}
