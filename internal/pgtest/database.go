package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// databaseLimit bounds the creation and the dropping of one database. Each takes a tenth of
// a second, but many may wait for a slow disk at once.
const databaseLimit = 2 * time.Minute

// URL returns the URL of a new database for t, with Almanac's schema under its default
// name. When t ends, the database is dropped, together with any open connection, including a
// pooler's.
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
