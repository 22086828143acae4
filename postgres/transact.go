package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/almanac-go/almanac/internal/backoff"
)

// retries bounds how often an operation is repeated that the database rolled back
// for the sake of another.
const retries = 5

// do runs one operation under the store's deadline. What the database rolled back
// to resolve a conflict is repeated, unless it is part of the host's transaction,
// which is lost by then.
func (s *Store) do(ctx context.Context, what string, operation func(context.Context, DB) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	wait := backoff.Exponential{First: 5 * time.Millisecond, Max: 200 * time.Millisecond, Factor: 2, Jitter: 1}
	for failures := 1; ; failures++ {
		err := operation(ctx, s.db)
		if err == nil {
			return nil
		}
		if !rolledBack(err) || failures > retries || s.InTransaction() || !sleep(ctx, wait.Delay(failures, rand.Float64())) {
			return wrap(what, err)
		}
	}
}

// transact runs an operation in a transaction of its own, READ COMMITTED, or under
// a savepoint of the host's. Everything that writes goes through it, single
// statements too: under a role whose default is serializable they would fail for
// the sake of each other.
func (s *Store) transact(ctx context.Context, what string, operation func(context.Context, pgx.Tx) error) error {
	return s.do(ctx, what, func(ctx context.Context, db DB) error { return inTransaction(ctx, db, operation) })
}

func inTransaction(ctx context.Context, db DB, operation func(context.Context, pgx.Tx) error) error {
	tx, err := begin(ctx, db)
	if err != nil {
		return err
	}
	// The rollback must reach the server also when ctx is over; after a commit it
	// does nothing.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err := operation(ctx, tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func begin(ctx context.Context, db DB) (pgx.Tx, error) {
	if b, ok := db.(interface {
		BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
	}); ok {
		return b.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	}
	return db.Begin(ctx)
}

// sleep waits for d and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// The conditions that the store tells apart (PostgreSQL manual, appendix A).
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	classDataException   = "22"
	classIntegrity       = "23"
)

// rolledBack reports whether the database undid a statement to let another pass.
func rolledBack(err error) bool {
	code := stateOf(err)
	return code == serializationFailure || code == deadlockDetected || code == lockNotAvailable
}

// refused reports whether the database will never take the row, however often it
// is asked.
func refused(err error) bool {
	code := stateOf(err)
	return len(code) == 5 && (code[:2] == classDataException || code[:2] == classIntegrity)
}

func stateOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// domainError marks an error that says all there is to say: one of package
// almanac, or of a function that the caller gave.
type domainError struct{ err error }

func (e *domainError) Error() string { return e.err.Error() }

// wrap names the operation that failed. Domain errors pass as they are.
func wrap(what string, err error) error {
	var domain *domainError
	if errors.As(err, &domain) {
		return domain.err
	}
	return fmt.Errorf("postgres: %s: %w", what, err)
}

// asIs keeps an error from being wrapped.
func asIs(err error) error { return &domainError{err} }

// one returns the only row of a query, or pgx.ErrNoRows.
func one[T any](ctx context.Context, db DB, sql string, args pgx.StrictNamedArgs, scan pgx.RowToFunc[T]) (T, error) {
	rows, err := query(ctx, db, sql, args)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

// all returns every row of a query.
func all[T any](ctx context.Context, db DB, sql string, args pgx.StrictNamedArgs, scan pgx.RowToFunc[T]) ([]T, error) {
	rows, err := query(ctx, db, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

func query(ctx context.Context, db DB, sql string, args pgx.StrictNamedArgs) (pgx.Rows, error) {
	if args == nil {
		return db.Query(ctx, sql)
	}
	return db.Query(ctx, sql, args)
}
