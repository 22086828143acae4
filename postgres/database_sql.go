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

// NewSQL returns a store that is bound to a transaction of database/sql. Everything that a scheduler stores
// through it is part of the transaction, as with a pgx.Tx passed to [New]. The transaction must be one of
// pgx's driver, package github.com/jackc/pgx/v5/stdlib. A driver that wraps pgx's is possible if it passes
// arguments on unchanged. With any other driver each operation fails with a [*DriverError].
//
// Each operation runs under a savepoint of its own. If the operation fails, only its own changes are undone,
// and the transaction can continue. The store is safe for concurrent use, also while the host uses the
// transaction: operations, statements of the host and Commit wait for each other. Therefore a function that
// is called during an operation, such as a handler, must not use the transaction: it would wait forever.
//
// While rows of the transaction are still open, operations fail. The transaction can then
// continue, except in pgx's modes without prepared statements, where it is lost.
//
// After the transaction has ended, errors match sql.ErrTxDone. If a context ends in the middle of a
// statement, also because of [WithTimeout], pgx closes the connection. The transaction is then lost and
// cannot be committed. NewSQL itself fails when tx is nil or an option is not valid.
func NewSQL(tx *sql.Tx, options ...Option) (*Store, error) {
	if tx == nil {
		return nil, errors.New("postgres: no transaction")
	}
	return configure(&Store{host: tx}, options)
}

// DriverError reports that a transaction of database/sql does not belong to pgx's driver. A
// [Store] needs the connection of that driver. Nothing was stored.
type DriverError struct {
	Err error // the error of the driver; nil if the driver returned none
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

// errand is a statement that does nothing. database/sql runs it with a loan as its argument,
// and traces and logs show it.
const errand = "-- almanac"

// lend runs an operation on the connection of a transaction of database/sql. Meanwhile
// database/sql keeps other statements, Commit and Rollback waiting.
func lend(ctx context.Context, tx *sql.Tx, operation func(context.Context, DB) error) error {
	l := &loan{operation: operation}
	_, err := tx.ExecContext(ctx, errand, l)
	switch {
	case l.err != nil:
		return l.err // the error of ExecContext says less
	case l.made || errors.Is(err, sql.ErrTxDone) || errors.Is(err, driver.ErrBadConn) || ctx.Err() != nil:
		return err
	}
	return &DriverError{err}
}

// loan is an argument of a statement. pgx calls its RewriteQuery with the connection before
// it sends the statement. This is the only public way to get the connection of a
// transaction: (*sql.Conn).Raw needs a connection, and a host has a *sql.Tx. Other drivers cannot
// encode the argument. Wrappers of the driver that pass arguments on keep working, as those for
// tracing do. A second store on database/sql would need all statements once more.
type loan struct {
	operation func(context.Context, DB) error
	made      bool  // whether pgx has called RewriteQuery
	err       error // of the operation
}

var _ pgx.QueryRewriter = (*loan)(nil)

// RewriteQuery runs the operation. It returns the statement unchanged, without the argument.
func (l *loan) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	l.made = true
	l.err = l.operation(ctx, lent{conn})
	return sql, nil, l.err
}

// lent is a connection in the middle of the host's transaction.
type lent struct{ conn *pgx.Conn }

var _ DB = lent{}

// Conn returns the connection.
func (l lent) Conn() *pgx.Conn { return l.conn }

// Begin sets a savepoint.
func (l lent) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := l.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: setSavepoint})
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

const setSavepoint = "savepoint almanac; " + catalogFirst

// savepoint is a pgx.Tx within the host's transaction. It never ends that transaction.
type savepoint struct {
	pgx.Tx
	over bool
}

// Commit keeps the changes since the savepoint. If Commit fails, Rollback can still undo them.
func (s *savepoint) Commit(ctx context.Context) error {
	return s.end(ctx, restorePath+"; release savepoint almanac")
}

// Rollback undoes the changes since the savepoint.
func (s *savepoint) Rollback(ctx context.Context) error {
	return s.end(ctx, "rollback to savepoint almanac; release savepoint almanac")
}

func (s *savepoint) end(ctx context.Context, statement string) error {
	if s.over {
		return pgx.ErrTxClosed
	}
	_, err := s.Exec(ctx, statement)
	s.over = err == nil
	return err
}
