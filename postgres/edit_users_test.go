package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func raised(r almanac.Roster) almanac.Edit {
	u := r.User
	u.Version++
	return almanac.Edit{User: &u}
}

// The second edit of a user is part of a second transaction.
func TestEditUsersKeepsWhatWasStoredBeforeItIsInterrupted(t *testing.T) {
	t.Parallel()
	store := mustStore(t, pgtest.Pool(t))
	people := storeUsers(t, store, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	edits, errs := store.EditUsers(ctx, []uuid.UUID{people[0], people[1], people[0], people[1], people[2]}, func(i int, r almanac.Roster) (almanac.Edit, error) {
		if i == 3 {
			cancel()
		}
		return raised(r), nil
	})
	require.NoError(t, errors.Join(errs[0], errs[1], errs[4]))
	require.ErrorIs(t, errs[2], context.Canceled)
	require.ErrorIs(t, errs[3], context.Canceled)
	for i, id := range people {
		u, err := store.User(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 2, u.Version, i)
	}
	require.Equal(t, 2, edits[0].User.Version)
	require.Nil(t, edits[2].User)
}

func TestEditUsersIsRepeatedWhenTheConnectionIsLost(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	people := storeUsers(t, store, 3)
	calls := 0
	_, errs := store.EditUsers(t.Context(), people, func(i int, r almanac.Roster) (almanac.Edit, error) {
		if calls++; calls == 2 {
			_, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
			require.NoError(t, err)
		}
		return raised(r), nil
	})
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, 6, calls, "the transaction was repeated")
	for _, id := range people {
		u, err := store.User(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 2, u.Version)
	}
}
