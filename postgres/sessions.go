package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Every operator and function in a statement takes exactly the types that pg_catalog defines, or is written
// with the name pg_catalog. PostgreSQL then uses those of pg_catalog, whatever other roles have created
// elsewhere, as long as pg_catalog comes first in the search_path (PostgreSQL manual, sections 10.2 and
// 10.3). It does, unless the path names another schema before it. Then these statements put pg_catalog first
// until the transaction ends, and restore the path before it ends. The rest of the path stays, because the
// host's triggers on the tables may need it. See docs/adr/0063-search-path.md.
const (
	catalogFirst = `select pg_catalog.set_config('search_path', pg_catalog.concat('pg_catalog, ', pg_catalog.current_setting('search_path')), true)
where pg_catalog.current_setting('search_path') operator(pg_catalog.~*) 'pg_catalog'`
	restorePath = `select pg_catalog.set_config('search_path', pg_catalog.substr(pg_catalog.current_setting('search_path'), 13), true)
where pg_catalog.current_setting('search_path') operator(pg_catalog.~) '^pg_catalog, '`
)

// outside is a connection that is in no transaction of the store: it is in none, or in the host's. It
// runs statements with pg_catalog first in the search_path, in the same round trip.
type outside struct {
	DB
	host bool // whether it is in the host's transaction
}

// outside has an operation run outside of transactions of the store. pgx prepares the statements of a
// batch before the server runs the first one, so the server reads them with the search_path of the host.
// It reads them once more when they are executed, but it refuses those that made no sense to it, or
// another one, because of an operator or function of another role. Then the operation is repeated in a
// transaction, which sets the path before anything is prepared.
func (s *Store) outside(operation func(context.Context, DB) error) func(context.Context, DB) error {
	return func(ctx context.Context, db DB) error {
		err := operation(ctx, outside{db, s.InTransaction()})
		if misread(err) && !s.InTransaction() {
			err = s.inTransaction(ctx, db, func(ctx context.Context, tx pgx.Tx) error { return operation(ctx, tx) })
		}
		return err
	}
}

// inside returns the connection without what outside adds, for statements of a transaction of the store.
func inside(db DB) DB {
	if o, ok := db.(outside); ok {
		return o.DB
	}
	return db
}

// Conn returns the connection, or nil if it is unknown.
func (o outside) Conn() *pgx.Conn { return connOf(o.DB) }

// SendBatch runs statements. Without the host's transaction they are one transaction, as the server
// makes it of every batch.
func (o outside) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	var batch pgx.Batch
	batch.Queue(catalogFirst)
	batch.QueuedQueries = append(batch.QueuedQueries, b.QueuedQueries...)
	if o.host {
		batch.Queue(restorePath)
	}
	results := o.DB.SendBatch(ctx, &batch)
	_, _ = results.Exec() // if it failed, the next one returns the error
	return results
}

// Query runs a statement that returns rows.
func (o outside) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	var batch pgx.Batch
	batch.Queue(sql, args...)
	results := o.SendBatch(ctx, &batch)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, err
	}
	return batchRows{rows, results}, nil
}

// Exec runs a statement that returns no rows.
func (o outside) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	var batch pgx.Batch
	batch.Queue(sql, args...)
	results := o.SendBatch(ctx, &batch)
	tag, err := results.Exec()
	closeBatch(results, &err)
	return tag, err
}

// batchRows are the rows of the only statement of a batch that returns any.
type batchRows struct {
	pgx.Rows
	results pgx.BatchResults
}

// Close closes the rows and the batch.
func (r batchRows) Close() {
	r.Rows.Close()
	_ = r.results.Close()
}

// EncodingError reports that the database cannot hold every text, or that the session would misread texts. Almanac
// works in databases with the encoding UTF8, and in sessions with the client encoding UTF8, which is pgx's. Nothing was stored.
type EncodingError struct {
	Database string // the encoding of the database, such as LATIN1 or SQL_ASCII
	Session  string // client_encoding, which a role, a database or a connection may set
}

const utf8 = "UTF8"

func (e *EncodingError) Error() string {
	if e.Database != utf8 {
		return fmt.Sprintf("postgres: the encoding of this database is %s, and Almanac needs UTF8: use a database made by CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", e.Database)
	}
	return fmt.Sprintf("postgres: client_encoding is %s in this session, and Almanac needs UTF8: reset the setting of the role, the database or the connection", e.Session)
}

// check returns e if one of the encodings is another than UTF8. An encoding that is not known counts as UTF8.
func (e *EncodingError) check() error {
	if (e.Database == utf8 || e.Database == "") && (e.Session == utf8 || e.Session == "") {
		return nil
	}
	return asIs(e)
}

// checkEncoding checks the encodings of a connection, which the server reports without being asked.
func checkEncoding(conn *pgx.Conn) error {
	e := EncodingError{conn.PgConn().ParameterStatus("server_encoding"), conn.PgConn().ParameterStatus("client_encoding")}
	return e.check()
}

// IsolationError reports that a transaction of the host has an isolation level above READ COMMITTED, and that the
// operation has to see every event of a user. Such a transaction does not see events that another program has stored since its
// first statement, so they would be missed: a user who moves would keep an event in the old zone. Nothing was stored, and the
// transaction can continue. Begin the transaction with READ COMMITTED, or edit users outside of it.
type IsolationError struct {
	Level string // such as "repeatable read"
}

func (e *IsolationError) Error() string {
	return fmt.Sprintf("postgres: the transaction is %s, in which events that other programs have stored meanwhile cannot be seen: edit and delete users in a transaction that is READ COMMITTED",
		strings.ToUpper(e.Level))
}

// seesLatest returns an [*IsolationError] unless each statement of the transaction sees what was committed before the statement.
// The store's own transactions do.
func (s *Store) seesLatest(ctx context.Context, tx pgx.Tx) error {
	if !s.InTransaction() {
		return nil
	}
	level, err := one(ctx, tx, "SELECT pg_catalog.current_setting('transaction_isolation')", nil, pgx.RowTo[string])
	if err == nil && strings.HasPrefix(level, "read ") {
		return nil
	}
	if err != nil {
		return err
	}
	return asIs(&IsolationError{level})
}

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
