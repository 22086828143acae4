package postgres_test

import (
	"fmt"
	"os"
	"testing"

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

// newStore returns a store on a database of t's own.
func newStore(t *testing.T, options ...pgtest.PoolOption) *postgres.Store {
	t.Helper()
	store, err := postgres.New(pgtest.Pool(t, options...))
	require.NoError(t, err)
	return store
}
