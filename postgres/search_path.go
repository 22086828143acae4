package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Every operator and function in a statement takes exactly the types that pg_catalog defines, or is
// written with the name pg_catalog. PostgreSQL then uses those of pg_catalog, whatever other roles have
// created elsewhere, as long as pg_catalog comes first in the search_path (PostgreSQL manual, sections
// 10.2 and 10.3). It does, unless the path names another schema before it. Then these statements put
// pg_catalog first until the transaction ends, and restore the path before it ends. The rest of the
// path stays, because the host's triggers on the tables may need it. See
// docs/adr/0063-search-path.md.
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
