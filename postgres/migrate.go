package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/backoff"
)

// SchemaVersion is how far a database is migrated, and how far this program would
// take it.
type SchemaVersion struct {
	Schema string // the PostgreSQL schema
	Found  int    // the version in the database; 0 when it was never migrated
	Known  int    // the newest version that this program knows
}

// SchemaVersionError says that a program and a database do not fit together, or that
// the program does not know the way back from where the database is.
type SchemaVersionError SchemaVersion

func (e *SchemaVersionError) Error() string {
	if e.Found > e.Known {
		return fmt.Sprintf("postgres: schema %q is at version %d, and this program knows none after %d: the release that migrated it knows the way down",
			e.Schema, e.Found, e.Known)
	}
	return fmt.Sprintf("postgres: schema %q is at version %d, and this program is of version %d: migrate it, or run an older release",
		e.Schema, e.Found, e.Known)
}

// Is makes errors.Is(err, almanac.ErrOutdated) hold where the database is behind.
func (e *SchemaVersionError) Is(target error) bool {
	return target == almanac.ErrOutdated && e.Found < e.Known
}

// Migrate brings the database to the schema of this release: it creates the
// PostgreSQL schema if need be and applies, in one transaction, the migrations that
// are missing. Any number of processes may call it at once; one of them does the
// work and the others wait. Where nothing is missing, as where a newer release has
// migrated already, it changes nothing and needs no more than the right to read.
//
// Workers may go on meanwhile. A migration that does not get a lock within half a
// second, since somebody uses a table for long, lets those pass who queue up behind
// it, and tries again until ctx is done. In a transaction of the host's its
// lock_timeout holds instead, and nothing is tried again.
func Migrate(ctx context.Context, db DB, options ...Option) error {
	s, err := New(db, options...)
	if err != nil {
		return err
	}
	steps, err := migrations(s.schema)
	if err != nil {
		return err
	}
	// READ COMMITTED whatever the role's default is: under a snapshot from before the
	// wait for the lock, the work of whoever held it would be done again.
	err = s.inTransaction(ctx, db, func(ctx context.Context, tx pgx.Tx) error { return s.migrate(ctx, tx, steps) })
	if err != nil {
		return wrap("migrate schema "+s.schema, err)
	}
	return nil
}

func (s *Store) migrate(ctx context.Context, tx pgx.Tx, steps []migration) error {
	known := len(steps)
	if version, err := s.version(ctx, tx); err != nil || version >= known {
		return err
	}
	if err := s.lockMigrations(ctx, tx); err != nil {
		return err
	}
	version, err := s.version(ctx, tx)
	if err != nil || version >= known {
		return err
	}
	if version == 0 {
		if _, err := tx.Exec(ctx, preparation(s.schema)); err != nil {
			return err
		}
	}
	missing := steps[version:]
	if s.InTransaction() {
		return s.applySteps(ctx, tx, missing)
	}
	return givingWay(ctx, tx, func(tx pgx.Tx) error { return s.applySteps(ctx, tx, missing) })
}

// lockMigrations waits until no other process migrates, however long that takes. The lock
// is released when the transaction ends. It is on the name, since the schema may not
// exist yet.
func (s *Store) lockMigrations(ctx context.Context, tx pgx.Tx) error {
	if !s.InTransaction() {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = 0"); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lockKey(s.schema))
	return err
}

// applySteps applies migrations and notes that it did.
func (s *Store) applySteps(ctx context.Context, tx pgx.Tx, steps []migration) error {
	for _, step := range steps {
		if _, err := tx.Exec(ctx, step.sql); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if _, err := tx.Exec(ctx, "INSERT INTO "+migrationsTable(s.schema)+" (version, name) VALUES ($1, $2)", step.version, step.name); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// givingWay runs an operation under a savepoint. Whoever wants a table that it waits
// for queues up behind it, claims and outcomes too. When it has to wait for long it is
// therefore undone, which lets them pass, and tried again later; the migrations' lock
// stays, or the next process would begin where this one gives way. The wait is
// shorter than the server's before it looks for a deadlock (deadlock_timeout, a second
// by default), so that a deadlock with a worker costs the migration its turn and not
// the worker.
func givingWay(ctx context.Context, tx pgx.Tx, operation func(pgx.Tx) error) error {
	const settings = "SET LOCAL lock_timeout = '500ms'; SET LOCAL idle_in_transaction_session_timeout = 0"
	if _, err := tx.Exec(ctx, settings); err != nil {
		return err
	}
	wait := backoff.Exponential{First: 500 * time.Millisecond, Max: 5 * time.Second, Factor: 2, Jitter: 0.2}
	for failures := 1; ; failures++ {
		err := pgx.BeginFunc(ctx, tx, operation)
		if !rolledBack(err) && stateOf(err) != lockNotAvailable || !sleep(ctx, wait.Delay(failures, rand.Float64())) {
			return err
		}
	}
}

// Verify returns an error that matches [almanac.ErrOutdated], a
// [*SchemaVersionError], when the database lacks a migration of this release. One
// that a newer release has migrated is accepted: what migrations add does not
// disturb the statements of the releases before.
func (s *Store) Verify(ctx context.Context) error {
	v, err := s.SchemaVersion(ctx)
	if err == nil && v.Found < v.Known {
		outdated := SchemaVersionError(v)
		return &outdated
	}
	return err
}

// SchemaVersion returns the version that the database is at, and the newest that
// this program knows. It reads one table.
func (s *Store) SchemaVersion(ctx context.Context) (SchemaVersion, error) {
	v := SchemaVersion{Schema: s.schema}
	steps, err := migrations(s.schema)
	if err != nil {
		return v, err
	}
	v.Known = len(steps)
	err = s.do(ctx, "verify schema "+s.schema, func(ctx context.Context, db DB) (err error) {
		v.Found, err = s.version(ctx, db)
		return err
	})
	return v, err
}

// version returns the version that the database is at, 0 before the first. It
// looks for the table in the catalog, as any query would: to_regclass answers from
// a cache that does not hear of tables made while this session waited for a lock.
func (s *Store) version(ctx context.Context, db DB) (int, error) {
	exists, err := one(ctx, db, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = @schema AND tablename = 'migrations')",
		pgx.StrictNamedArgs{"schema": s.schema}, pgx.RowTo[bool])
	if err != nil || !exists {
		return 0, err
	}
	return one(ctx, db, "SELECT coalesce(max(version), 0) FROM "+migrationsTable(s.schema), nil, pgx.RowTo[int])
}
