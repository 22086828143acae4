package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrBottom is matched by the error of [MigrateDown] where there is no migration to
// undo.
var ErrBottom = errors.New("there is no migration to undo")

// DataLossError says that a migration was not undone because rows would be lost that
// nothing brings back.
type DataLossError struct {
	Schema  string   // the PostgreSQL schema
	Version int      // of the migration
	Tables  []string // that hold such rows
}

func (e *DataLossError) Error() string {
	return fmt.Sprintf("postgres: undoing migration %d of schema %q would lose for good what is in %s", e.Version, e.Schema, strings.Join(e.Tables, ", "))
}

// Down is how [MigrateDown] goes about it. The zero value loses nothing.
type Down struct {
	// LoseData has a migration undone even where rows are lost for good.
	LoseData bool
}

// MigrateDown undoes the last migration of the database, one each time it is called,
// in one transaction. It is seldom needed: the release before works on a schema that
// this one has migrated ([Store.Verify]), and so need not wait for it.
//
// Programs of this release do not work on the database any more then: stop them
// before. With the first migration everything goes but the PostgreSQL schema, which
// may have been there before.
//
// It waits for locks as [Migrate] does. Nothing is changed when it returns an error:
// a [*DataLossError] where rows would be lost for good and how does not say that
// they may; one that matches [ErrBottom] where nothing is left to undo; a
// [*SchemaVersionError] where a newer release has migrated, which alone knows the way
// down. What of the host's own depends on something that would go, such as a view,
// makes it fail too.
func MigrateDown(ctx context.Context, db DB, how Down, options ...Option) error {
	s, err := New(db, options...)
	if err != nil {
		return err
	}
	steps, err := migrations(s.schema)
	if err != nil {
		return err
	}
	err = s.inTransaction(ctx, db, func(ctx context.Context, tx pgx.Tx) error { return s.migrateDown(ctx, tx, steps, how) })
	if err != nil {
		return wrap("take down schema "+s.schema, err)
	}
	return nil
}

func (s *Store) migrateDown(ctx context.Context, tx pgx.Tx, steps []migration, how Down) error {
	if err := s.lockMigrations(ctx, tx); err != nil {
		return err
	}
	version, err := s.version(ctx, tx)
	switch {
	case err != nil:
		return err
	case version == 0:
		return fmt.Errorf("%w: it is at version 0", ErrBottom)
	case version > len(steps):
		return asIs(&SchemaVersionError{s.schema, version, len(steps)})
	case steps[version-1].down == "":
		return fmt.Errorf("there is no way down from %s", steps[version-1].name)
	}
	undo := func(tx pgx.Tx) error { return s.undo(ctx, tx, steps[version-1], how) }
	if s.InTransaction() {
		return undo(tx)
	}
	return givingWay(ctx, tx, undo)
}

// undo takes one migration back, and notes that it did.
func (s *Store) undo(ctx context.Context, tx pgx.Tx, step migration, how Down) error {
	if !how.LoseData {
		tables, err := s.lost(ctx, tx, step)
		if err != nil {
			return err
		}
		if len(tables) > 0 {
			return asIs(&DataLossError{s.schema, step.version, tables})
		}
	}
	for _, sql := range []string{step.down, step.forgotten(s.schema)} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// lost names the tables that hold what would be lost, and keeps them as they are
// until the transaction ends.
func (s *Store) lost(ctx context.Context, tx pgx.Tx, step migration) ([]string, error) {
	if len(step.losses) == 0 {
		return nil, nil
	}
	if _, err := tx.Exec(ctx, step.lock(s.schema)); err != nil {
		return nil, err
	}
	var tables []string
	for _, l := range step.losses {
		occurs, err := one(ctx, tx, "SELECT "+l.occurs(s.schema), nil, pgx.RowTo[bool])
		if err != nil {
			return nil, err
		}
		if occurs {
			tables = append(tables, l.table)
		}
	}
	return tables, nil
}
