package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/backoff"
)

// retries bounds how often an operation is repeated.
const retries = 5

// do runs one operation within the store's timeout. It repeats the operation after a failure that may
// pass, unless the operation is part of the host's transaction, which is lost after a failure.
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

// acquirer is a pool.
type acquirer interface {
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

// pooled reports whether operations of the store can run beside each other.
func (s *Store) pooled() bool {
	_, ok := s.db.(acquirer)
	return ok && s.host == nil
}

// attempt runs an operation once. With a pool, it acquires a connection for the operation, so that it
// notices when the connection is closed: the pool drops a closed connection and has others. A
// connection or transaction that the host passed is never closed.
func (s *Store) attempt(ctx context.Context, operation func(context.Context, DB) error) error {
	if unbound := operation; s.readOnly {
		operation = func(ctx context.Context, db DB) error {
			return s.inReadOnly(ctx, db, s.readLimit, func(ctx context.Context, tx pgx.Tx) error { return unbound(ctx, tx) })
		}
	}
	operation = s.outside(operation)
	if s.host != nil {
		return lend(ctx, s.host, operation)
	}
	pool, ok := s.db.(acquirer)
	if !ok {
		return operation(ctx, s.db)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := checkEncoding(conn.Conn()); err != nil {
		return err
	}
	err = operation(ctx, conn)
	if stateOf(err) == readOnly && !s.readOnly {
		// The connection leads to a server that was demoted, and would stay there.
		_ = conn.Conn().Close(ctx)
	}
	if err != nil && conn.Conn().IsClosed() {
		return &lostError{err}
	}
	return err
}

// transact runs an operation in a transaction of its own, READ COMMITTED, or under a savepoint in the
// host's transaction. All writes use it, single statements too: under a role whose default is
// serializable, concurrent statements would make each other fail.
func (s *Store) transact(ctx context.Context, what string, operation func(context.Context, pgx.Tx) error) error {
	return s.do(ctx, what, func(ctx context.Context, db DB) error { return s.inTransaction(ctx, db, operation) })
}

func (s *Store) inTransaction(ctx context.Context, db DB, operation func(context.Context, pgx.Tx) error) error {
	tx, err := s.begin(ctx, db)
	if err != nil {
		return err
	}
	defer rollback(ctx, tx)
	restore, err := s.setPrincipal(ctx, tx)
	if err != nil {
		return err
	}
	if err := operation(ctx, tx); err != nil {
		return err
	}
	if err := restore(); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return &commitError{err}
	}
	return nil
}

// rollback ends a transaction. It reaches the server even if ctx is done. After a commit it does nothing.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// setPrincipal sets the principal of ctx for the audit trail. It sends nothing if there is no
// principal. A transaction of the store ends with its setting. A savepoint that is released does
// not. Therefore restore sets in the host's transaction what was set before, so that later
// statements of the host have no principal of the store. A rollback restores it without help.
func (s *Store) setPrincipal(ctx context.Context, tx pgx.Tx) (restore func() error, err error) {
	nothing := func() error { return nil }
	name := almanac.Principal(ctx)
	if name == "" {
		return nothing, nil
	}
	if !s.InTransaction() {
		_, err := tx.Exec(ctx, setPrincipal, name)
		return nothing, err
	}
	var before string
	if err := tx.QueryRow(ctx, replacePrincipal, name).Scan(&before, nil); err != nil {
		return nil, err
	}
	return func() error {
		_, err := tx.Exec(ctx, setPrincipal, before)
		return err
	}, nil
}

// Statements that set the principal of a transaction (see audit.principal in schema.sql). replacePrincipal
// returns the principal that was set before. OFFSET 0 has it read before the new one is set.
const (
	setPrincipal     = "select set_config('almanac.principal', $1, true)"
	replacePrincipal = `select b.principal, set_config('almanac.principal', $1, true)
from (select coalesce(current_setting('almanac.principal', true), '') as principal offset 0) b`
)

// Statements at the beginning of a transaction.
const (
	begin = "begin isolation level read committed"
	noJIT = "set local jit = off" // see Store.begin
	// If row security would hide rows from the role, statements fail. A claim would take hidden series for deleted ones.
	allRows = "set local row_security = off"
)

// transactOne runs one statement in a transaction of its own, READ COMMITTED, with a single round trip. So
// the locks are held only while the server works. The drawback: if the connection is lost, it is not known
// whether the changes were stored. In the host's transaction, transactOne uses a savepoint, as transact does.
// It asks for the arguments when it has a connection, and passes the time.
func (s *Store) transactOne(ctx context.Context, what, statement string, argsAt func(asked time.Time) pgx.StrictNamedArgs, collect func(pgx.Rows) error) error {
	return s.do(ctx, what, func(ctx context.Context, db DB) error {
		args := argsAt(time.Now())
		db = inside(db)
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
		batch.Queue(allRows)
		batch.Queue(catalogFirst)
		if name := almanac.Principal(ctx); name != "" {
			batch.Queue(setPrincipal, name)
		}
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

// send sends a transaction. Only the statement before COMMIT returns rows.
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

// unlessRefused marks an error as an error of COMMIT, unless the server refused a statement. In that
// case the server also skips all later statements of the same round trip. A pooler that has lost the
// server may report this in place of any response, even after it has passed on COMMIT.
func unlessRefused(err error) error {
	if code := stateOf(err); code != "" && classOf(code) != classConnection {
		return err
	}
	return &commitError{err}
}

// discard runs an operation in a transaction that is rolled back in the end. So settings of the
// session that the operation changes are restored.
func (s *Store) discard(ctx context.Context, db DB, operation func(context.Context, pgx.Tx) error) error {
	tx, err := s.begin(ctx, db)
	if err != nil {
		return err
	}
	defer rollback(ctx, tx)
	return operation(ctx, tx)
}

// beginner is a connection that is not in a transaction.
type beginner interface {
	BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
}

// begin begins a transaction. The server ends the transaction when the client is idle for as long as
// the timeout of the store, for example because its process is frozen (PostgreSQL manual, section
// 20.11.1). Otherwise other transactions would skip its locked rows for as long as the process is
// frozen. A running process has given up the operation by then. JIT compilation is off: it takes a
// fifth of a second, and is for statements that last longer (chapter 32).
func (s *Store) begin(ctx context.Context, db DB) (pgx.Tx, error) {
	switch db := inside(db).(type) {
	case beginner:
		return db.BeginTx(ctx, pgx.TxOptions{BeginQuery: s.withTimeouts(begin + "; " + allRows + "; " + timeouts + "; " + catalogFirst)})
	case pgx.Tx:
		_, err := db.Exec(ctx, setSavepoint)
		return &savepoint{Tx: db}, err
	default:
		return db.Begin(ctx)
	}
}

// timeouts are the settings of a transaction.
const timeouts = noJIT + "; set local idle_in_transaction_session_timeout = %d; set local lock_timeout = %d"

// withTimeouts fills the timeouts of the store in.
func (s *Store) withTimeouts(settings string) string {
	// Zero would mean no limit.
	return fmt.Sprintf(settings, max(s.timeout.Milliseconds(), 1), max(s.locks.Milliseconds(), 1))
}

// sleep waits for d. It reports false if ctx is done before.
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

// list runs a query whose plan depends on its parameters. An unnamed statement cannot be in a batch, so
// the query has a transaction, which sets its search_path.
func (s *Store) list(ctx context.Context, what string, operation func(context.Context, DB) error) error {
	return s.do(ctx, what, func(ctx context.Context, db DB) error {
		return s.discard(ctx, db, func(ctx context.Context, tx pgx.Tx) error { return operation(ctx, replanning{tx}) })
	})
}

// replanning is a connection on which each query is planned for its parameter values. For a prepared
// statement that runs often, the server may choose one plan for all values (PREPARE, plan_cache_mode). A
// specification can select one event or all events, so that plan could read a whole table for one event.
type replanning struct{ DB }

// Query sends a query as an unnamed statement, for which the server keeps no plan. It needs as many
// round trips as a named statement. If the host has chosen another mode than pgx's default, that mode
// is used: the other modes use no named statements.
func (r replanning) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if conn := connOf(r.DB); conn != nil {
		if c := conn.Config(); c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && c.DescriptionCacheCapacity > 0 {
			args = append([]any{pgx.QueryExecModeCacheDescribe}, args...)
		}
	}
	return r.DB.Query(ctx, sql, args...)
}

// connOf returns the pgx connection that a store uses, or nil if there is none.
func connOf(db DB) *pgx.Conn {
	switch db := db.(type) {
	case *pgx.Conn:
		return db
	case interface{ Conn() *pgx.Conn }:
		return db.Conn()
	}
	return nil
}

// next collects the rows of the next statement of a batch.
func next[T, R any](results pgx.BatchResults, collect func(pgx.Rows, pgx.RowToFunc[T]) (R, error), scan pgx.RowToFunc[T]) (R, error) {
	rows, err := results.Query()
	if err != nil {
		var none R
		return none, err
	}
	return collect(rows, scan)
}

// closeBatch closes the results of a batch. Close repeats the error of the statement that failed, which
// is stored in err before.
func closeBatch(results pgx.BatchResults, err *error) {
	if closed := results.Close(); *err == nil {
		*err = closed
	}
}
