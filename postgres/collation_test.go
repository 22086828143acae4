package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// An upgrade of the C library can change the order of every collation but C, and an index in the
// old order misses rows.
func TestIndexesDoNotDependOnTheCLibrary(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.ReusedPool(t).Query(t.Context(), `SELECT x.indexrelid::regclass::text FROM pg_index x
		JOIN pg_class c ON c.oid = x.indexrelid, unnest(x.indcollation) AS used (collation_id)
		WHERE c.relnamespace = 'almanac'::regnamespace AND collation_id NOT IN (0, '"C"'::regcollation)`)
	require.NoError(t, err)
	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, others)
}
