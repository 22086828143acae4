package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/internal/backoff"
)

// retries bounds how often an operation is repeated.
const retries = 5

// do runs one operation under the store's deadline, and repeats it after a failure
// that passes, unless it is part of the host's transaction, which is lost by then.
func (s *Store) do(ctx context.Context, what string, operation func(context.Context, DB) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	wait := backoff.Exponential{First: 5 * time.Millisecond, Max: 200 * time.Millisecond, Factor: 2, Jitter: 1}
	for failures := 1; ; failures++ {
		err := s.attempt(ctx, operation)
		if err == nil {
			return nil
		}
		if !passing(err) || failures > retries || s.InTransaction() || !sleep(ctx, wait.Delay(failures, rand.Float64())) {
			return wrap(what, err)
		}
	}
}

// attempt runs an operation once. Out of a pool it takes a connection for it, to
// know what becomes of that: the pool drops a closed one and has others. A
// connection of the host's own is left to the host.
func (s *Store) attempt(ctx context.Context, operation func(context.Context, DB) error) error {
	if s.host != nil {
		return lend(ctx, s.host, operation)
	}
	pool, ok := s.db.(interface {
		Acquire(ctx context.Context) (*pgxpool.Conn, error)
	})
	if !ok {
		return operation(ctx, s.db)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = operation(ctx, conn)
	if stateOf(err) == readOnly {
		// It leads to a server that was demoted, and would go on doing so.
		_ = conn.Conn().Close(ctx)
	}
	if err != nil && conn.Conn().IsClosed() {
		return &lostError{err}
	}
	return err
}

// transact runs an operation in a transaction of its own, READ COMMITTED, or under
// a savepoint of the host's. Everything that writes goes through it, single
// statements too: under a role whose default is serializable they would fail for
// the sake of each other.
func (s *Store) transact(ctx context.Context, what string, operation func(context.Context, pgx.Tx) error) error {
	return s.do(ctx, what, func(ctx context.Context, db DB) error { return s.inTransaction(ctx, db, operation) })
}

func (s *Store) inTransaction(ctx context.Context, db DB, operation func(context.Context, pgx.Tx) error) error {
	tx, err := s.begin(ctx, db)
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
	if err := tx.Commit(ctx); err != nil {
		return &commitError{err}
	}
	return nil
}

// How transactions begin.
const (
	begin = "begin isolation level read committed"
	noJIT = "set local jit = off" // see Store.begin
)

// transactOne runs one statement in a transaction of its own, READ COMMITTED, with a
// single round trip, so that what it locks it holds for no longer than the server
// works. In return nobody knows whether it was stored when the connection is lost. In
// the host's transaction it is an operation like others. It lets collect know when it
// had a connection and sent the statement.
func (s *Store) transactOne(ctx context.Context, what, statement string, args pgx.StrictNamedArgs, collect func(rows pgx.Rows, asked time.Time) error) error {
	return s.do(ctx, what, func(ctx context.Context, db DB) error {
		asked := time.Now()
		collect := func(rows pgx.Rows) error { return collect(rows, asked) }
		if _, free := db.(beginner); !free {
			return s.inTransaction(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
				rows, err := query(ctx, tx, statement, args)
				if err != nil {
					return err
				}
				return collect(rows)
			})
		}
		var batch pgx.Batch
		batch.Queue(begin)
		batch.Queue(noJIT)
		batch.Queue(statement, args)
		batch.Queue("commit")
		err := send(ctx, db, &batch, collect)
		if stateOf(err) == "" {
			return err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = db.Exec(ctx, "rollback")
		return err
	})
}

// send sends a transaction whose last statement but COMMIT is the only one that
// returns anything.
func send(ctx context.Context, db DB, batch *pgx.Batch, collect func(pgx.Rows) error) (err error) {
	results := db.SendBatch(ctx, batch)
	defer func() {
		if closed := results.Close(); err == nil && closed != nil {
			err = &commitError{closed}
		}
	}()
	for range batch.Len() - 2 {
		if _, err := results.Exec(); err != nil {
			return unlessRefused(err)
		}
	}
	rows, err := results.Query()
	if err == nil {
		err = collect(rows)
	}
	if err != nil {
		return unlessRefused(err)
	}
	if _, err := results.Exec(); err != nil {
		return &commitError{err}
	}
	return nil
}

// unlessRefused marks an error as one of COMMIT, unless the server refused a
// statement, and with it all that follow in the same round trip. A pooler that has
// lost the server says so in place of any answer, also after COMMIT was passed on.
func unlessRefused(err error) error {
	if code := stateOf(err); code != "" && classOf(code) != classConnection {
		return err
	}
	return &commitError{err}
}

// look runs an operation in a transaction that is undone in the end, so that what it
// sets for its statements goes with it.
func (s *Store) look(ctx context.Context, db DB, operation func(context.Context, pgx.Tx) error) error {
	errDone := errors.New("it has looked")
	err := s.inTransaction(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		if err := operation(ctx, tx); err != nil {
			return err
		}
		return errDone
	})
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// beginner is a connection that is in no transaction.
type beginner interface {
	BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
}

// begin has the server end a transaction whose client falls silent, as a process does
// that is frozen with its connection open: what it has locked, everybody else would
// pass over for as long as it sleeps (PostgreSQL manual, section 20.11.1). Who is
// alive has given up by then. Nor is anything compiled, which takes a fifth of a second
// and is for statements that last longer (chapter 32).
func (s *Store) begin(ctx context.Context, db DB) (pgx.Tx, error) {
	if b, ok := db.(beginner); ok {
		const watched = begin + "; " + noJIT + "; set local idle_in_transaction_session_timeout = %d; set local lock_timeout = %d"
		patience := max(s.timeout.Milliseconds(), 1) // zero would be without end
		return b.BeginTx(ctx, pgx.TxOptions{BeginQuery: fmt.Sprintf(watched, patience, max(s.locks.Milliseconds(), 1))})
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

// replanning is a connection that has each query planned for the values that it is
// asked with. For a statement that is asked often, the server settles on a plan for any
// values (PREPARE, plan_cache_mode). What a specification picks can be one event or
// all of them, so that plan would read a whole table for the one.
type replanning struct{ DB }

// Query sends a query without a name, in as many round trips as one with a name: the
// server keeps no plan of it. Where the host has chosen another mode than pgx's default,
// which all do without names, that mode holds.
func (r replanning) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if conn := connOf(r.DB); conn != nil {
		if c := conn.Config(); c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && c.DescriptionCacheCapacity > 0 {
			args = append([]any{pgx.QueryExecModeCacheDescribe}, args...)
		}
	}
	return r.DB.Query(ctx, sql, args...)
}

// connOf returns the connection that a store uses, nil if it is none of pgx's.
func connOf(db DB) *pgx.Conn {
	switch db := db.(type) {
	case *pgx.Conn:
		return db
	case interface{ Conn() *pgx.Conn }:
		return db.Conn()
	}
	return nil
}
