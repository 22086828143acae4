package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newStore returns a store on a database of t's own.
func newStore(t *testing.T, options ...pgtest.PoolOption) *postgres.Store {
	t.Helper()
	store, err := postgres.New(pgtest.Pool(t, options...))
	require.NoError(t, err)
	return store
}
