package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// PostgreSQL refuses updates and deletions of published rows that it cannot identify.
func TestEveryTableIdentifiesItsRows(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.ReusedPool(t).Query(t.Context(), `
		SELECT c.relname::text FROM pg_class c
		WHERE c.relnamespace = 'almanac'::regnamespace AND c.relkind IN ('r', 'p')
			AND c.relreplident <> 'f'
			AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (i.indisprimary AND c.relreplident = 'd' OR i.indisreplident))`)
	require.NoError(t, err)
	without, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, without, "tables without a primary key or a replica identity")
}
