package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// defaultReadLimit is how long a statement of a read-only store may take by default.
const defaultReadLimit = 2 * time.Second

// ReadOnly makes a store that can neither write nor hold the database up, such as that of a
// dashboard. Every operation runs in a read-only transaction, which sees the data of one moment.
// An operation that would write fails with the server's error 25006 (read_only_sql_transaction).
//
// The timeout is how long one statement may take, in whole milliseconds. Then it fails with an
// error that matches [context.DeadlineExceeded]. Zero means 2 s. It must not be negative. The
// whole operation is bounded by [WithTimeout].
//
// The settings last as long as the transaction, so the store works through PgBouncer in
// transaction mode. In a transaction of the host they end with the operation. The store does not
// listen, as under [PollOnly]. [Migrate] and [MigrateDown] ignore the option.
func ReadOnly(timeout time.Duration) Option {
	return func(s *Store) {
		s.pollOnly, s.readOnly, s.readLimit = true, true, timeout
		if timeout == 0 {
			s.readLimit = defaultReadLimit
		}
	}
}

// snapshot runs an operation that only reads. It sees the data of one moment, except in a
// transaction of the host, where the isolation level of that transaction applies.
func (s *Store) snapshot(ctx context.Context, what string, operation func(context.Context, pgx.Tx) error) error {
	return s.do(ctx, what, func(ctx context.Context, db DB) error {
		if tx, ok := db.(pgx.Tx); ok && s.readOnly {
			return operation(ctx, tx) // attempt has begun the transaction
		}
		return s.inReadOnly(ctx, db, 0, operation)
	})
}

// inReadOnly runs an operation in a read-only transaction, or under a read-only savepoint. A limit
// of zero means that the statements have no limit of their own. The rollback also restores the
// settings of the host's transaction.
func (s *Store) inReadOnly(ctx context.Context, db DB, limit time.Duration, operation func(context.Context, pgx.Tx) error) error {
	return s.discard(ctx, readOnlyDB{db, s, limit}, func(ctx context.Context, tx pgx.Tx) error {
		err := operation(ctx, tx)
		if limit > 0 && stateOf(err) == queryCanceled {
			return &tooLongError{err}
		}
		return err
	})
}

// readOnlyDB begins read-only transactions.
type readOnlyDB struct {
	DB
	store *Store
	limit time.Duration
}

// Begin begins a read-only transaction, or sets a savepoint that is read-only.
func (r readOnlyDB) Begin(ctx context.Context) (pgx.Tx, error) {
	limit := ""
	if r.limit > 0 {
		limit = fmt.Sprintf("; set local statement_timeout = %d", max(r.limit.Milliseconds(), 1))
	}
	if b, ok := inside(r.DB).(beginner); ok {
		const settings = "begin isolation level repeatable read read only; " + timeouts
		return b.BeginTx(ctx, pgx.TxOptions{BeginQuery: r.store.withTimeouts(settings+"; "+catalogFirst) + limit})
	}
	tx, err := r.store.begin(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "set local transaction_read_only = on; "+noJIT+limit); err != nil {
		_ = tx.Rollback(ctx)
		return nil, err
	}
	return tx, nil
}

// tooLongError marks an error of a statement that took longer than the limit of the store.
type tooLongError struct{ err error }

func (e *tooLongError) Error() string { return e.err.Error() }
func (e *tooLongError) Unwrap() error { return e.err }

// Is makes errors.Is(err, context.DeadlineExceeded) true.
func (e *tooLongError) Is(target error) bool { return target == context.DeadlineExceeded }
