package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// A publication of all tables is what change data capture and upgrades by replication create. From then on PostgreSQL refuses updates
// and deletions in tables whose rows it cannot identify.
func TestTheStoreWorksUnderAPublicationOfAllTables(t *testing.T) {
	t.Parallel()
	databases := stock(t, func(t *testing.T) *pgxpool.Pool {
		pool := pgtest.Pool(t)
		_, err := pool.Exec(t.Context(), "CREATE PUBLICATION everything FOR ALL TABLES")
		require.NoError(t, err)
		require.NoError(t, postgres.EnableAudit(t.Context(), pool))
		require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
		return pool
	})
	almanactest.TestRepository(t, func(t *testing.T) almanac.Repository {
		return mustStore(t, databases.take(t, func(pool *pgxpool.Pool) *pgxpool.Pool { return pool }))
	})
}

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
