package postgres_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest/conformance"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// The suite runs where another role has created operators and functions that no statement
// may use, and where the search_path has them first. It runs through a type that embeds the
// store, as a host's that measures or counts calls does. It has the store's own methods, so
// what passes through it passes without it.
func TestPostgresRepository(t *testing.T) {
	t.Parallel()
	among := newTrapped(t)
	open := func(t *testing.T) (almanac.Repository, ops.Statistics) {
		store := among.store(t)
		return decorated{store}, store
	}
	conformance.TestRepository(t, func(t *testing.T) almanac.Repository {
		repository, statistics := open(t)
		return withStatistics{repository, statistics}
	})
	conformance.TestStatistics(t, open)
	conformance.TestBroadcasts(t, func(t *testing.T) (almanac.Repository, broadcast.Store) {
		store := among.store(t)
		return decorated{store}, store
	})
}

// withStatistics is a repository with statistics.
type withStatistics struct {
	almanac.Repository
	ops.Statistics
}

// trapped is a database in which every operator and function of the schema public raises an
// exception. Its search_path has public before pg_catalog. Tests use it one after another,
// each with a PostgreSQL schema of its own.
type trapped struct {
	url   string
	pool  *pgxpool.Pool
	clean *pgxpool.Pool // with pg_catalog alone in its search_path, for statements of tests

	mu   sync.Mutex
	made int
	free []string // schemas with empty tables
}

// sources are the files with SQL.
var sources = []string{"../schema.sql", "queries/*.sql", "parts/*.sql", "*.go"}

func newTrapped(t *testing.T) *trapped {
	t.Helper()
	d := &trapped{url: pgtest.EmptyURL(t)}
	pgtest.Trap(t, d.url, sources...)
	config, err := pgxpool.ParseConfig(d.url)
	require.NoError(t, err)
	config.MaxConns = 40
	d.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(d.pool.Close)
	config, err = pgxpool.ParseConfig(pgtest.Direct(t, d.url))
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = "pg_catalog"
	d.clean, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(d.clean.Close)
	return d
}

// store returns a store in a schema with empty tables.
func (d *trapped) store(t *testing.T) *postgres.Store {
	t.Helper()
	schema := d.take(t)
	t.Cleanup(func() {
		if !t.Failed() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.free = append(d.free, schema)
		}
	})
	return d.in(t, schema)
}

// in returns a store in a schema.
func (d *trapped) in(t *testing.T, schema string) *postgres.Store {
	t.Helper()
	store := mustStore(t, d.pool, postgres.WithSchema(schema))
	return store
}

// take returns the name of a schema with empty tables.
func (d *trapped) take(t *testing.T) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.free) - 1; last >= 0 {
		schema := d.free[last]
		d.free = d.free[:last]
		empty(t, d.clean, schema)
		return schema
	}
	d.made++
	schema := fmt.Sprintf("almanac%d", d.made)
	require.NoError(t, postgres.Migrate(t.Context(), d.pool, postgres.WithSchema(schema)))
	return schema
}

// empty deletes the rows of earlier tests. For statistics it leaves no dead rows, which make tables large, and then numbers are
// estimates.
func empty(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	statement := "DELETE FROM %s"
	if strings.Contains(t.Name(), "/Stats/") {
		statement = "TRUNCATE %s CASCADE"
	}
	var statements string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT string_agg(format($1, oid::regclass), '; ' ORDER BY relname IN ('users', 'broadcasts')) FROM pg_class
		WHERE relnamespace = $2::text::regnamespace AND relkind = 'r' AND relname NOT IN ('migrations', 'pruning', 'lane_clock')`, statement, schema).Scan(&statements))
	_, err := pool.Exec(t.Context(), "SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on; "+statements+"; UPDATE "+schema+".pruning SET before = '-infinity'")
	require.NoError(t, err)
}
