package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/backoff"
)

// SchemaVersion is the version of a database schema, and the newest version that this program knows.
type SchemaVersion struct {
	Schema string // the PostgreSQL schema
	Found  int    // the version in the database; 0 if it was never migrated
	Known  int    // the newest version that this program knows
}

// SchemaVersionError reports that the database is older than the program needs, or that
// the program cannot undo a migration because a newer release has applied it.
type SchemaVersionError SchemaVersion

func (e *SchemaVersionError) Error() string {
	if e.Found > e.Known {
		return fmt.Sprintf("postgres: schema %q is at version %d, and this program knows none after %d: the release that migrated it knows the way down",
			e.Schema, e.Found, e.Known)
	}
	if e.Found == 0 {
		return fmt.Sprintf("postgres: there is no migrated schema %q in this database: migrate it, unless another database or schema is meant", e.Schema)
	}
	return fmt.Sprintf("postgres: schema %q is at version %d, and this program is of version %d: migrate it, or run an older release",
		e.Schema, e.Found, e.Known)
}

// Is makes errors.Is(err, almanac.ErrOutdated) true when the database is older than the program needs.
func (e *SchemaVersionError) Is(target error) bool {
	return target == almanac.ErrOutdated && e.Found < e.Known
}

// Migrate brings the database to the schema of this release. It creates the PostgreSQL
// schema if necessary, and applies the missing migrations in order, each in a transaction of
// its own. If no migration is missing, for example because a newer release has migrated the
// database, Migrate changes nothing and only needs the right to read.
//
// Any number of processes may call Migrate at once: each migration is applied once, and the other
// processes wait. Workers may run meanwhile. A migration may not get a lock within half a second,
// because another transaction uses a table. Then the migration is undone, so that statements
// queued behind it can run. Migrate tries again until ctx is done. If Migrate returns an error,
// the migrations that were applied before remain, and the next call goes on after them.
//
// Timeouts of the role and the database do not apply to migrations, so that none fails for ever.
// The error is an [*EncodingError] if the database is not one of UTF8. It matches [ErrMoved] if the schema does not exist,
// and one of its name with "_moved" does.
//
// In a transaction of the host, all migrations are part of that transaction, the host's
// timeouts apply, and nothing is tried again.
func Migrate(ctx context.Context, db DB, options ...Option) error {
	s, err := New(db, options...)
	if err != nil {
		return err
	}
	steps, err := s.migrations()
	if err != nil {
		return err
	}
	for done := false; !done; {
		// READ COMMITTED, whatever the role's default is: a snapshot from before the wait for the
		// lock would not show the migrations of the process that held the lock.
		err = s.inTransaction(ctx, db, func(ctx context.Context, tx pgx.Tx) (err error) {
			done, err = s.migrateNext(ctx, tx, steps)
			return err
		})
		if err != nil {
			return wrap("migrate schema "+s.schema, err)
		}
	}
	return nil
}

// migrateNext applies the first missing migration, and reports whether none is missing. Each migration has a
// transaction of its own. One transaction for all would hold the locks of each until the last is applied: it
// would wait for a reader that waits for it, be undone, and begin again, under frequent readers for minutes.
func (s *Store) migrateNext(ctx context.Context, tx pgx.Tx, steps []migration) (done bool, err error) {
	known := len(steps)
	if version, err := s.version(ctx, tx); err != nil || version >= known {
		return true, err
	}
	if err := s.lockMigrations(ctx, tx); err != nil {
		return false, err
	}
	version, err := s.version(ctx, tx)
	if err != nil || version >= known {
		return true, err
	}
	if version == 0 {
		if err := s.refuseMoved(ctx, tx); err != nil {
			return false, err
		}
	}
	apply := func(tx pgx.Tx) error { return s.applyStep(ctx, tx, steps[version]) }
	if s.InTransaction() {
		return false, apply(tx)
	}
	return false, yielding(ctx, tx, apply)
}

// ErrMoved is returned by [Migrate] for a schema that has moved to another server: a new one would have none of the users.
var ErrMoved = errors.New("the schema has moved to another server")

// refuseMoved refuses to create the schema if a move has renamed it. See docs/adr/0085-moving-a-schema.md.
func (s *Store) refuseMoved(ctx context.Context, tx pgx.Tx) error {
	const moved = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname::text OPERATOR(pg_catalog.=) $2::text)
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname::text OPERATOR(pg_catalog.=) $1::text)`
	var is bool
	kept := s.schema + "_moved"
	if err := tx.QueryRow(ctx, moved, s.schema, kept).Scan(&is); err != nil || !is {
		return err
	}
	return fmt.Errorf("%w: %s has the rows it had here. Connect to the other server; to have a new schema here, rename or drop %[2]s", ErrMoved, kept)
}

// withoutTimeouts turns off every timeout that this release of PostgreSQL has, until the transaction ends.
const withoutTimeouts = `SELECT pg_catalog.set_config(name, '0', true) FROM pg_catalog.pg_settings
WHERE name IN ('lock_timeout', 'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')`

// lockMigrations waits until no other process migrates, however long that takes. A migration takes as long as it takes, too, so
// the timeouts of the role and the database do not apply to it. The lock is released when the transaction ends. It is an advisory lock derived from the name of
// the schema, because the schema may not exist yet.
func (s *Store) lockMigrations(ctx context.Context, tx pgx.Tx) error {
	if !s.InTransaction() {
		if _, err := tx.Exec(ctx, withoutTimeouts); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", lockKey(s.schema))
	return err
}

// applyStep applies a migration, which adds itself to the list of applied migrations.
func (s *Store) applyStep(ctx context.Context, tx pgx.Tx, step migration) error {
	if _, err := tx.Exec(ctx, step.sql); err != nil {
		return fmt.Errorf("%s: %w", step.name, err)
	}
	version, err := s.version(ctx, tx)
	if err == nil && version != step.version {
		err = fmt.Errorf("%s leaves the schema at version %d", step.name, version)
	}
	return err
}

// yielding runs an operation under a savepoint, and undoes and repeats the operation when it waits too long
// for a lock. While the operation waits for a table, all other statements that need the table queue up behind
// it, claims and outcomes too. Undoing the operation lets them run. The lock on migrations is kept, so that
// no other process begins to migrate meanwhile. See docs/adr/0011-migrations.md.
//
// The lock timeout is shorter than deadlock_timeout (a second by default), after which the server looks for a
// deadlock. So in a deadlock with a worker, the migration is undone and not the transaction of the worker.
func yielding(ctx context.Context, tx pgx.Tx, operation func(pgx.Tx) error) error {
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '500ms'"); err != nil {
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

func (s *Store) migrations() ([]migration, error) { return migrations(s.files, s.schema) }

// Verify checks that the database has every migration of this release. If one is missing,
// the error is a [*SchemaVersionError], which matches [almanac.ErrOutdated]. The error is an
// [*EncodingError] if the database is not one of UTF8, and an [*IncompleteError] while a dump is
// being restored. Verify accepts a database that a newer release has migrated, because migrations
// keep the statements of earlier releases working.
func (s *Store) Verify(ctx context.Context) error {
	v, err := s.SchemaVersion(ctx)
	switch {
	case err == nil && v.Found < v.Known:
		outdated := SchemaVersionError(v)
		return &outdated
	case err == nil && v.Found == v.Known:
		return s.verifyParts(ctx)
	}
	return err
}

// IncompleteError reports that keys or triggers of the schema are missing, as until the end of a
// restore, or that row security hides rows from this role. Claims would take missing rows for deleted ones.
type IncompleteError struct {
	Schema  string
	Missing []string // keys and triggers, such as "series.series_pkey"
	Hidden  []string // tables with row security
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("postgres: schema %q is not complete for this role, as during a restore: missing keys and triggers %q, row security on %q", e.Schema, e.Missing, e.Hidden)
}

// verifyParts checks keys and triggers, which pg_restore creates after all rows, and row security.
func (s *Store) verifyParts(ctx context.Context) error {
	var parts []string
	for t, definition := range expected() {
		if t.kind == KindTrigger || t.kind == KindConstraint && !strings.HasPrefix(definition, "CHECK") {
			parts = append(parts, t.name)
		}
	}
	var e IncompleteError
	err := s.do(ctx, "verify schema "+s.schema, func(ctx context.Context, db DB) (err error) {
		e, err = one(ctx, db, s.statements.Incomplete, pgx.StrictNamedArgs{"schema": s.schema, "parts": parts}, pgx.RowToStructByPos[IncompleteError])
		return err
	})
	if err == nil && len(e.Missing)+len(e.Hidden) > 0 {
		return &e
	}
	return err
}

// SchemaVersion returns the version of the database, and the newest version that this
// program knows. It reads one table.
func (s *Store) SchemaVersion(ctx context.Context) (SchemaVersion, error) {
	v := SchemaVersion{Schema: s.schema}
	steps, err := s.migrations()
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

// version returns the version of the database, or 0 if no migration was applied. The error is an [*EncodingError] if the
// database cannot hold every text. It looks for the table in the catalog with a query. to_regclass would use a cache, which
// misses tables that were created while this session waited for a lock.
func (s *Store) version(ctx context.Context, db DB) (int, error) {
	type state struct {
		Exists bool
		EncodingError
	}
	found, err := one(ctx, db, `SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = @schema AND tablename = 'migrations'),
		pg_catalog.getdatabaseencoding()::text, pg_catalog.current_setting('client_encoding')`, pgx.StrictNamedArgs{"schema": s.schema}, pgx.RowToStructByPos[state])
	if err == nil {
		err = found.check()
	}
	if err != nil || !found.Exists {
		return 0, err
	}
	return one(ctx, db, "SELECT coalesce(max(version), 0) FROM "+migrationsTable(s.schema), nil, pgx.RowTo[int])
}
