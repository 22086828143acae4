package postgres_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// hiddenUsers stores n deleted users without events in flight, whom the next sweep removes.
func hiddenUsers(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n int) []uuid.UUID {
	t.Helper()
	ids := storeUsers(t, store, n)
	_, err := pool.Exec(t.Context(), "DELETE FROM almanac.queue; UPDATE almanac.series SET event_id = NULL; UPDATE almanac.users SET deleted_at = now()")
	require.NoError(t, err)
	return ids
}

// A user whom the host's foreign key keeps stops neither the removal of other users nor the folding of
// counts.
func TestAUserThatCannotBeRemovedStopsNothingElse(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	kept := hiddenUsers(t, pool, store, 3)[0]
	_, err := pool.Exec(t.Context(), fmt.Sprintf("CREATE TABLE members (id uuid REFERENCES almanac.users (id)); INSERT INTO members VALUES ('%s')", kept))
	require.NoError(t, err)

	_, err = store.ReleaseExpired(t.Context(), 1, 1000)

	require.ErrorContains(t, err, "members_id_fkey")
	var users, changes int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM almanac.users), (SELECT count(*) FROM almanac.due_changes)").Scan(&users, &changes))
	require.Equal(t, 1, users, "the host keeps it")
	require.Zero(t, changes, "not folded")
}
