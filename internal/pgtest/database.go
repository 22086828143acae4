package pgtest

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// databaseLimit bounds the making and the dropping of one database. Each takes
// a tenth of a second, and many may wait for a slow disk at once.
const databaseLimit = 2 * time.Minute

// URL returns the URL of a fresh database that belongs to t alone and holds
// Almanac's schema under its default name. It is dropped when t ends, together
// with any connection that is still open, be it PgBouncer's.
func URL(t testing.TB) string {
	t.Helper()
	return fresh(t, (*server).migrated)
}

// EmptyURL is [URL] for a database without Almanac's schema.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return fresh(t, (*server).empty)
}

// Direct returns how to connect to the database of an address from [URL] or
// [EmptyURL] without the PgBouncer of [BouncerVariable], as the user of the
// server. Without one it returns what those return. It is for what a test does
// for itself that needs a session of its own, and for naming the server to
// another process; what is tested goes through.
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

// fresh has the server make a database for t and drop it afterwards.
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
		// The context of t has ended by now.
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

// MaxConns sets how many connections the pool opens at most. The default is
// eight: many tests run at once, and the server has a few hundred for them all.
func MaxConns(n int32) PoolOption {
	return func(c *pgxpool.Config) { c.MaxConns = n }
}

// Pool returns a pool on the database of [URL], closed when t ends. A connection
// that is not back in the pool by then fails t.
func Pool(t testing.TB, options ...PoolOption) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(URL(t))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	config.MaxConns = 8
	for _, option := range options {
		option(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

// closeLimit is how long a connection may take to come back after its test.
const closeLimit = 10 * time.Second

// closePool closes the pool, which waits for connections that are in use, and
// gives up on one that was leaked: dropping the database ends it.
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

// DirectPool is [Pool] without the PgBouncer of [BouncerVariable], for what a pooler
// does not carry, such as notifications.
func DirectPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), Direct(t, URL(t)))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}
