package postgres

import (
	"context"

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
