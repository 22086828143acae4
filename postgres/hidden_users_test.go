package postgres_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// A user whom the host's foreign key keeps stops neither the removal of other users nor the folding of
// counts.
func TestAUserThatCannotBeRemovedStopsNothingElse(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	for range 3 {
		p := ada
		p.ID = uuid.New()
		_, err := newScheduler(t, store).CreateUser(t.Context(), p)
		require.NoError(t, err)
	}
	for _, sql := range []string{
		"CREATE TABLE members (id uuid REFERENCES almanac.users (id))",
		"INSERT INTO members SELECT min(id::text)::uuid FROM almanac.users",
		"DELETE FROM almanac.queue",
		"UPDATE almanac.series SET event_id = NULL",
		"UPDATE almanac.users SET deleted_at = now()",
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, "%s", sql)
	}

	_, err = store.ReleaseExpired(t.Context(), 1)

	require.ErrorContains(t, err, "members_id_fkey")
	var users, changes int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM almanac.users), (SELECT count(*) FROM almanac.due_changes)").Scan(&users, &changes))
	require.Equal(t, 1, users, "the host keeps it")
	require.Zero(t, changes, "not folded")
}
