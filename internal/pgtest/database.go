package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/postgres"
)

// databaseLimit bounds the creation and the dropping of one database. Each takes a tenth of
// a second, but many may wait for a slow disk at once.
const databaseLimit = 2 * time.Minute

// URL returns the URL of a new database for t, with Almanac's schema under its default name.
// When t ends, the database is dropped, together with any open connection, including a pooler's.
func URL(t testing.TB) string {
	t.Helper()
	return fresh(t, (*server).migrated)
}

// EmptyURL is like [URL], without Almanac's schema.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return fresh(t, (*server).empty)
}

// Direct returns the URL of the database of an address from [URL] or [EmptyURL] that
// bypasses the pooler of [PoolerVariable], as the server's user. Without a pooler it
// returns the address. Use it for a test's own statements that need one session, and to
// name the server to another process. The tested code goes through the pooler.
func Direct(t testing.TB, address string) string {
	t.Helper()
	s, err := shared.get()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s.direct(strings.TrimPrefix(u.Path, "/"))
}

// fresh lets the server create a database for t and drop it afterwards.
func fresh(t testing.TB, make func(*server, context.Context) (string, error)) string {
	t.Helper()
	s, err := shared.get()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), databaseLimit)
	defer cancel()
	name, err := make(s, ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of t has ended.
		ctx, cancel := context.WithTimeout(context.Background(), databaseLimit)
		defer cancel()
		if err := s.drop(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return s.url(name)
}

// PoolOption changes the configuration of a [Pool] before it is opened.
type PoolOption func(*pgxpool.Config)

// MaxConns sets the maximum number of connections of the pool. The default is eight: many
// tests run at once, and the server has a few hundred connections.
func MaxConns(n int32) PoolOption {
	return func(c *pgxpool.Config) { c.MaxConns = n }
}

// Pool returns a pool on the database of [URL], which is closed when t ends. A connection
// that has not been released by then fails t.
func Pool(t testing.TB, options ...PoolOption) *pgxpool.Pool {
	t.Helper()
	pool, err := openPool(t.Context(), URL(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

func openPool(ctx context.Context, url string, options ...PoolOption) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	config.MaxConns = 8
	for _, option := range options {
		option(config)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	return pool, nil
}

// closeLimit is how long a connection may take to be released after its test.
const closeLimit = 10 * time.Second

// closePool closes the pool, which waits for connections in use. It stops waiting for a
// leaked connection, which ends when the database is dropped.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeLimit):
		t.Errorf("pgtest: %d connections were never released to the pool", pool.Stat().AcquiredConns())
	}
}

// DirectPool is like [Pool], without the pooler of [PoolerVariable]. It is for features
// that a pooler does not support, such as notifications.
func DirectPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), Direct(t, URL(t)))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// migrate applies the schema to the template.
func migrate(ctx context.Context, conn *pgx.Conn) error {
	return postgres.Migrate(ctx, conn)
}

// ReusedPool is like [Pool], on a database that earlier tests may have used: its tables are
// empty, and its connections are open. Emptying the tables costs a hundredth of a new
// database with new connections. Use it only for tests that change rows. A test must use
// [Pool] if it changes the schema, the roles or the settings of the database. The same
// holds if it depends on the size of tables or the first values of sequences.
func ReusedPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	s, err := shared.get()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), databaseLimit)
	defer cancel()
	one, err := s.lend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of t has ended.
		ctx, cancel := context.WithTimeout(context.Background(), databaseLimit)
		defer cancel()
		if !t.Failed() && one.pool.Stat().AcquiredConns() == 0 {
			err = s.takeBack(ctx, one)
		} else {
			closePool(t, one.pool)
			err = s.drop(ctx, one.database)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return one.pool
}

// reusedConns is the maximum number of connections of a reused pool. The server has a few
// hundred, and each running test may use a pool.
const reusedConns = 20

// reusable is a migrated database with a pool on it.
type reusable struct {
	database string
	pool     *pgxpool.Pool
	schema   string // identifies the version of the schema
}

// reusables are the unused databases, with empty tables.
type reusables struct {
	mu   sync.Mutex
	free []reusable
}

func (r *reusables) push(one reusable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, one)
}

// pop returns the database that was used last, because its connections are the warmest.
func (r *reusables) pop() (one reusable, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.free) - 1
	if last < 0 {
		return reusable{}, false
	}
	one, r.free = r.free[last], r.free[:last]
	return one, true
}

// lend returns an unused database, or a new one.
func (s *server) lend(ctx context.Context) (reusable, error) {
	if one, ok := s.reusables.pop(); ok {
		return one, nil
	}
	name, err := s.migrated(ctx)
	if err != nil {
		return reusable{}, err
	}
	pool, err := openPool(context.WithoutCancel(ctx), s.url(name), MaxConns(reusedConns))
	if err != nil {
		return reusable{}, err
	}
	one := reusable{database: name, pool: pool}
	_, one.schema, err = one.describe(ctx)
	return one, err
}

// describe returns the tables that tests write to, referenced tables last, and an
// identification of the schema: the versions of its rows in the catalog.
func (r reusable) describe(ctx context.Context) (tables []string, schema string, err error) {
	const describe = `
SELECT
    ARRAY (
        SELECT relname::text
        FROM pg_class
        WHERE relnamespace = 'almanac'::regnamespace AND relkind = 'r' AND relname NOT IN ('migrations', 'pruning', 'lane_clock')
        ORDER BY relname = 'users'
    ),
    (
        SELECT md5(string_agg(oid::text || xmin::text, ' ' ORDER BY oid, xmin::text))
        FROM (
            SELECT oid, xmin FROM pg_class WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace)
            UNION ALL SELECT oid, xmin FROM pg_trigger
            UNION ALL SELECT oid, xmin FROM pg_constraint
            UNION ALL SELECT oid, xmin FROM pg_namespace WHERE nspname NOT LIKE 'pg_%'
            UNION ALL SELECT oid, xmin FROM pg_proc WHERE pronamespace <> 'pg_catalog'::regnamespace
            UNION ALL SELECT oid, xmin FROM pg_database WHERE datname = current_database()
        ) AS catalog
    )`
	err = r.pool.QueryRow(ctx, describe).Scan(&tables, &schema)
	if err != nil {
		err = fmt.Errorf("pgtest: %w", err)
	}
	return tables, schema, err
}

// takeBack empties the tables of a database for the next test.
func (s *server) takeBack(ctx context.Context, one reusable) error {
	tables, schema, err := one.describe(ctx)
	if err != nil {
		return err
	}
	if schema != one.schema {
		one.pool.Close()
		return errors.Join(errSchemaChanged, s.drop(ctx, one.database))
	}
	var empty strings.Builder
	for _, table := range tables {
		fmt.Fprintf(&empty, "DELETE FROM %s; ", pgx.Identifier{"almanac", table}.Sanitize())
	}
	empty.WriteString("UPDATE almanac.pruning SET before = '-infinity' WHERE before <> '-infinity'")
	if _, err := one.pool.Exec(ctx, empty.String()); err != nil {
		return fmt.Errorf("pgtest: empty a database: %w", err)
	}
	s.reusables.push(one)
	return nil
}

var errSchemaChanged = errors.New("pgtest: the test changed the schema or the database: it needs a Pool of its own")

// closeReusables closes the pools and drops their databases.
func (s *server) closeReusables(ctx context.Context) error {
	for {
		one, ok := s.reusables.pop()
		if !ok {
			return nil
		}
		one.pool.Close()
		if err := s.drop(ctx, one.database); err != nil {
			return err
		}
	}
}
