package postgres_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest/conformance"
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
		// Dead rows of earlier tests make tables large, and then numbers are estimates.
		store := among.store(t, strings.Contains(t.Name(), "/Stats/"))
		return decorated{store}, store
	}
	conformance.TestRepository(t, func(t *testing.T) almanac.Repository {
		repository, statistics := open(t)
		return withStatistics{repository, statistics}
	})
	conformance.TestStatistics(t, open)
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
var sources = []string{"../schema.sql", "queries/*.sql", "*.go"}

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

// store returns a store in a schema with empty tables, or in a new one.
func (d *trapped) store(t *testing.T, fresh bool) *postgres.Store {
	t.Helper()
	schema := d.take(t, fresh)
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
	store, err := postgres.New(d.pool, postgres.WithSchema(schema))
	require.NoError(t, err)
	return store
}

// take returns the name of a schema with empty tables, or of a new one.
func (d *trapped) take(t *testing.T, fresh bool) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.free) - 1; last >= 0 && !fresh {
		schema := d.free[last]
		d.free = d.free[:last]
		d.empty(t, schema)
		return schema
	}
	d.made++
	schema := fmt.Sprintf("almanac%d", d.made)
	require.NoError(t, postgres.Migrate(t.Context(), d.pool, postgres.WithSchema(schema)))
	return schema
}

func (d *trapped) empty(t *testing.T, schema string) {
	t.Helper()
	rows, err := d.clean.Query(t.Context(), `SELECT relname::text FROM pg_class
		WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' AND relname NOT IN ('migrations', 'pruning') ORDER BY relname = 'users'`, schema)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	statements := "UPDATE " + schema + ".pruning SET before = '-infinity'"
	for _, table := range tables {
		statements += "; DELETE FROM " + schema + "." + table
	}
	_, err = d.clean.Exec(t.Context(), statements)
	require.NoError(t, err)
}
