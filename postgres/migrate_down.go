package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrBottom matches the error of [MigrateDown] when there is no migration to undo.
var ErrBottom = errors.New("there is no migration to undo")

// DataLossError reports that a migration was not undone, because that would delete rows
// that cannot be restored.
type DataLossError struct {
	Schema  string   // the PostgreSQL schema
	Version int      // the version of the migration
	Tables  []string // the tables that hold such rows
}

func (e *DataLossError) Error() string {
	return fmt.Sprintf("postgres: undoing migration %d of schema %q would lose for good what is in %s", e.Version, e.Schema, strings.Join(e.Tables, ", "))
}

// MigrateDownOptions are the options of [MigrateDown]. With the zero value, no
// irreplaceable rows are deleted.
type MigrateDownOptions struct {
	// LoseData allows MigrateDown to delete rows that cannot be restored. The default is false.
	LoseData bool
}

// MigrateDown undoes the last migration of the database, in one transaction. Each call
// undoes one migration. It is seldom needed, because the release before also works on a
// schema that this release has migrated: see [Store.Verify].
//
// Stop the programs of this release first: they do not work on the database afterwards. Undoing the first
// migration drops everything but the PostgreSQL schema, which may be older than Almanac.
//
// MigrateDown waits for locks as [Migrate] does. If it returns an error, nothing is changed. The error is a
// [*DataLossError] when rows that cannot be restored would be deleted and down.LoseData is false. It matches
// [ErrBottom] when there is no migration to undo. It is a [*SchemaVersionError] when a newer release has
// migrated the database: then only the newer release can undo the migration. MigrateDown also fails when an
// object of the host, such as a view, depends on an object that would be dropped: no migration has a CASCADE.
// No call goes down several versions, so that a history is not lost in one call.
func MigrateDown(ctx context.Context, db DB, down MigrateDownOptions, options ...Option) error {
	s, err := New(db, options...)
	if err != nil {
		return err
	}
	steps, err := s.migrations()
	if err != nil {
		return err
	}
	err = s.inTransaction(ctx, db, func(ctx context.Context, tx pgx.Tx) error { return s.migrateDown(ctx, tx, steps, down) })
	if err != nil {
		return wrap("take down schema "+s.schema, err)
	}
	return nil
}

func (s *Store) migrateDown(ctx context.Context, tx pgx.Tx, steps []migration, options MigrateDownOptions) error {
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
	undo := func(tx pgx.Tx) error { return s.undo(ctx, tx, steps[version-1], options) }
	if s.InTransaction() {
		return undo(tx)
	}
	return yielding(ctx, tx, undo)
}

// undo undoes one migration. Its script removes it from the list of applied migrations.
func (s *Store) undo(ctx context.Context, tx pgx.Tx, step migration, options MigrateDownOptions) error {
	if !options.LoseData {
		tables, err := s.lost(ctx, tx, step)
		if err != nil {
			return err
		}
		if len(tables) > 0 {
			return asIs(&DataLossError{s.schema, step.version, tables})
		}
	}
	if _, err := tx.Exec(ctx, step.down); err != nil {
		return fmt.Errorf("%s: %w", step.name, err)
	}
	version, err := s.version(ctx, tx)
	if err == nil && version != step.version-1 {
		err = fmt.Errorf("undoing %s leaves the schema at version %d", step.name, version)
	}
	return err
}

// lost returns the names of the tables with rows that would be lost. It locks these tables
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
