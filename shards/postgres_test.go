package shards_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest/conformance"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/shards"
)

// secondServer names the directory with the programs of the second server, such as those of another release of PostgreSQL. Schemas move
// from it to the first one. The default is the programs of the first server.
const secondServer = "ALMANAC_TEST_SECOND_POSTGRES"

func TestMain(m *testing.M) { pgtest.Main(m) }

// The suite runs over two schemas on two servers.
func TestStoreOverTwoServers(t *testing.T) {
	t.Parallel()
	among := newServers(t)
	conformance.TestRepository(t, func(t *testing.T) almanac.Repository { return among.store(t) })
	conformance.TestStatistics(t, func(t *testing.T) (almanac.Repository, ops.Statistics) {
		store := among.store(t)
		return store, store
	})
	conformance.TestBroadcasts(t, func(t *testing.T) (almanac.Repository, broadcast.Store) {
		store := among.store(t)
		return store, store
	})
}

// secondBinaries are the programs of the second server. The zero value means the default.
func secondBinaries(t *testing.T) (b pgserver.Binaries) {
	t.Helper()
	if dir := os.Getenv(secondServer); dir != "" {
		var err error
		b, err = pgserver.In(dir)
		must(t, err)
	}
	return b
}

// servers are two servers, on which tests use pairs of schemas one after another.
type servers struct {
	pools [2]*pgxpool.Pool
	keep  *pgxpool.Pool // of the reservations

	mu   sync.Mutex
	made int
	free []string // names of pairs of schemas
}

func newServers(t *testing.T) *servers {
	t.Helper()
	s := new(servers)
	first := pgtest.EmptyURL(t)
	config := pgserver.Config{MaxConnections: 100, Binaries: secondBinaries(t)}
	second, err := pgserver.Start(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { must(t, second.Stop(context.WithoutCancel(t.Context()))) })
	t.Log("the second server is", second.Describe())
	s.pools[0], s.pools[1] = pool(t, first, 30), pool(t, second.URL(), 30)
	s.keep = pool(t, first, 20)
	return s
}

func pool(t *testing.T, url string, connections int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	config.MaxConns = connections
	opened, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(opened.Close)
	return opened
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// store returns a store over two empty schemas, one on each server.
func (s *servers) store(t *testing.T) *shards.Store {
	t.Helper()
	name := s.take(t)
	t.Cleanup(func() {
		if !t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.free = append(s.free, name)
		}
	})
	var schemas []shards.Schema
	for i, place := range places() {
		store, err := postgres.New(s.pools[i], postgres.WithSchema(name))
		must(t, err)
		schemas = append(schemas, shards.Schema{Name: place.Schema, Repository: store, Statistics: store, Broadcasts: store})
	}
	reservations := shards.NewPostgresReservations(s.keep, name+"_shards")
	must(t, reservations.Create(t.Context()))
	return open(t, shards.Options{
		Directory: directoryFor(t, places()...), Schemas: schemas, Reservations: reservations,
		OnError: func(schema string, err error) {
			if t.Context().Err() == nil {
				t.Logf("schema %s: %v", schema, err)
			}
		},
	})
}

func places() []shards.Place {
	return []shards.Place{{Schema: "west", Server: "one"}, {Schema: "east", Server: "two"}}
}

// take returns the name of a pair of schemas with empty tables.
func (s *servers) take(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		name := s.free[last]
		s.free = s.free[:last]
		for _, pool := range s.pools {
			empty(t, pool, name)
		}
		return name
	}
	s.made++
	name := fmt.Sprintf("almanac%d", s.made)
	for _, pool := range s.pools {
		must(t, postgres.Migrate(t.Context(), pool, postgres.WithSchema(name)))
	}
	return name
}

// empty deletes the rows of earlier tests. For statistics it leaves no dead rows, which make tables large, and then numbers are estimates.
func empty(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	statement := "DELETE FROM %s"
	if strings.Contains(t.Name(), "/Stats/") {
		statement = "TRUNCATE %s CASCADE"
	}
	var statements string
	must(t, pool.QueryRow(t.Context(), `SELECT string_agg(format($1, oid::regclass), '; ' ORDER BY relname IN ('users', 'broadcasts')) FROM pg_class
		WHERE (relnamespace = $2::text::regnamespace AND relname NOT IN ('migrations', 'pruning', 'lane_clock')
			OR relnamespace = to_regnamespace($2::text || '_shards')) AND relkind = 'r'`, statement, schema).Scan(&statements))
	_, err := pool.Exec(t.Context(), "SET LOCAL statement_timeout = 0; "+statements+"; UPDATE "+schema+".pruning SET before = '-infinity'")
	must(t, err)
}
