package postgres_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(reconcilerURL); url != "" {
		if err := reconcileOnce(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	pgtest.Main(m)
}

// newStore returns a store that is empty. With options it has a database of its own.
func newStore(t *testing.T, options ...pgtest.PoolOption) *postgres.Store {
	t.Helper()
	open := pgtest.ReusedPool
	if len(options) > 0 {
		open = func(t testing.TB) *pgxpool.Pool { return pgtest.Pool(t, options...) }
	}
	return mustStore(t, open(t))
}

func mustStore(t *testing.T, db postgres.DB, options ...postgres.Option) *postgres.Store {
	t.Helper()
	store, err := postgres.New(db, options...)
	require.NoError(t, err)
	return store
}

func nowOf(t *testing.T, store almanac.Repository) time.Time {
	t.Helper()
	now, err := store.Now(t.Context())
	require.NoError(t, err)
	return now
}
