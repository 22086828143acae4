package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// NewSQL returns a store that is bound to a transaction of database/sql: what a
// scheduler stores through it is part of the transaction, as with a pgx.Tx given to
// [New]. The transaction must be one of pgx's driver, package
// github.com/jackc/pgx/v5/stdlib, possibly wrapped by another that hands arguments
// on as they are. With any other driver each operation fails with a [*DriverError].
//
// Each operation is one use of the transaction, under a savepoint of its own: an
// error undoes what the operation did and nothing else, and the transaction goes on.
// The store is safe for concurrent use, also beside the host's own use of the
// transaction: one waits for the other, and so does Commit. Therefore nothing that is
// called in the middle of an operation, such as a handler, may use the transaction:
// it would wait for itself, for ever. Rows that are still open keep operations out:
// they fail, and the transaction goes on, or is lost in pgx's modes without prepared
// statements.
//
// Once the transaction has ended, errors match sql.ErrTxDone. A context that ends in
// the middle of a statement, also by [WithTimeout], costs pgx the connection and with
// it the transaction, which cannot be committed any more.
func NewSQL(tx *sql.Tx, options ...Option) (*Store, error) {
	if tx == nil {
		return nil, errors.New("postgres: no transaction")
	}
	return open(&Store{host: tx}, options)
}

// DriverError says that a transaction of database/sql is not one of pgx's driver,
// whose connection a [Store] needs. Nothing was stored.
type DriverError struct {
	Err error // what the driver said when it was asked; nil if it said nothing
}

func (e *DriverError) Error() string {
	const problem = "the transaction is not one of the database/sql driver of pgx (github.com/jackc/pgx/v5/stdlib)"
	if e.Err == nil {
		return problem
	}
	return fmt.Sprintf("%s: %v", problem, e.Err)
}

// Unwrap returns e.Err.
func (e *DriverError) Unwrap() error { return e.Err }

// errand is the statement under which an operation travels through database/sql. It
// does nothing, and says in traces and logs whose it is.
const errand = "-- almanac"

// lend runs an operation on the connection of a transaction of database/sql, which
// keeps everybody else away meanwhile, the end of the transaction included.
func lend(ctx context.Context, tx *sql.Tx, operation func(context.Context, DB) error) error {
	l := &loan{operation: operation}
	_, err := tx.ExecContext(ctx, errand, l)
	switch {
	case l.err != nil:
		return l.err // what came of the errand after it says less
	case l.made || errors.Is(err, sql.ErrTxDone) || errors.Is(err, driver.ErrBadConn) || ctx.Err() != nil:
		return err
	}
	return &DriverError{err}
}

// loan is an argument that pgx calls with its connection before it sends a
// statement: the one public way to the connection of a transaction. Drivers that do
// not know it cannot encode it.
type loan struct {
	operation func(context.Context, DB) error
	made      bool
	err       error // of the operation
}

var _ pgx.QueryRewriter = (*loan)(nil)

// RewriteQuery runs the operation and leaves the statement as it is, without the
// argument.
func (l *loan) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	l.made = true
	l.err = l.operation(ctx, lent{conn})
	return sql, nil, l.err
}

// lent is a connection in the middle of somebody's transaction.
type lent struct{ conn *pgx.Conn }

var _ DB = lent{}

// Conn returns the connection.
func (l lent) Conn() *pgx.Conn { return l.conn }

// Begin sets a savepoint.
func (l lent) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := l.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: "savepoint almanac"})
	if err != nil {
		return nil, err
	}
	return &savepoint{Tx: tx}, nil
}

func (l lent) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return l.conn.Exec(ctx, sql, args...)
}

func (l lent) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return l.conn.Query(ctx, sql, args...)
}

func (l lent) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return l.conn.SendBatch(ctx, b)
}

// savepoint is a transaction within one that is not ours to end.
type savepoint struct {
	pgx.Tx
	over bool
}

// Commit keeps what was done since the savepoint. After an error it can still be
// undone.
func (s *savepoint) Commit(ctx context.Context) error {
	return s.end(ctx, "release savepoint almanac")
}

// Rollback undoes what was done since the savepoint.
func (s *savepoint) Rollback(ctx context.Context) error {
	return s.end(ctx, "rollback to savepoint almanac; release savepoint almanac")
}

func (s *savepoint) end(ctx context.Context, how string) error {
	if s.over {
		return pgx.ErrTxClosed
	}
	_, err := s.Exec(ctx, how)
	s.over = err == nil
	return err
}
