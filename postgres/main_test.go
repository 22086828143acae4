package postgres_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

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
	store, err := postgres.New(open(t))
	require.NoError(t, err)
	return store
}
