package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// A key is free when neither the event nor what was requeued from it has it any more,
// in whatever order they go.
func TestAKeyIsKeptUntilItsLastEventIsRemoved(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	claim := claimed(t, store, 1, false)
	settleAll(t, store, almanac.ClaimResult{Events: claim.Events, At: claim.At}, almanac.GaveUp("HTTP 404"), nil)
	failed, err := store.Event(t.Context(), claim.Events[0].ID)
	require.NoError(t, err)

	requeue := func(from almanac.Event) almanac.Event {
		edit, err := store.EditUser(t.Context(), from.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			again, err := from.Requeue(uuid.Must(uuid.NewV7()), r.Now)
			return almanac.Edit{New: []almanac.Event{again}}, err
		})
		require.NoError(t, err)
		require.Len(t, edit.New, 1)
		return edit.New[0]
	}
	holders := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT coalesce(max(holders), 0) FROM almanac.keys WHERE idempotency_key = $1", failed.IdempotencyKey.String()).Scan(&n))
		return n
	}
	prune := func() {
		for ended := 1; ended > 0; {
			now := nowOf(t, store)
			_, _, err = store.Prune(t.Context(), now, almanac.Page{})
			require.NoError(t, err)
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.history").Scan(&ended))
		}
	}

	again := requeue(failed)
	require.Equal(t, 2, holders())
	prune()
	require.Equal(t, 1, holders(), "the requeued event still has it")
	second := claimOne(t, store)
	require.Equal(t, again.ID, second.ID)
	settleAll(t, store, almanac.ClaimResult{Events: []almanac.Event{second}, At: second.UpdatedAt.Add(time.Second)}, almanac.GaveUp("HTTP 404"), nil)
	second, err = store.Event(t.Context(), second.ID)
	require.NoError(t, err)
	third := requeue(second)
	require.Equal(t, 2, holders())
	_, err = store.EditUser(t.Context(), third.UserID, func(almanac.Roster) (almanac.Edit, error) {
		done, err := third.Cancel("")
		return almanac.Edit{Changed: []almanac.Event{done}}, err
	})
	require.NoError(t, err)
	prune()
	require.Zero(t, holders())
}

// A key goes with the last who has it, also when the last two go at once.
func TestKeyOfAUserDeletedBesidePruning(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	claim := claimed(t, store, 1, false)
	settleAll(t, store, almanac.ClaimResult{Events: claim.Events, At: claim.At}, almanac.GaveUp("HTTP 404"), nil)
	failed, err := store.Event(t.Context(), claim.Events[0].ID)
	require.NoError(t, err)
	_, err = store.EditUser(t.Context(), failed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
		again, err := failed.Requeue(uuid.Must(uuid.NewV7()), r.Now)
		return almanac.Edit{New: []almanac.Event{again}}, err
	})
	require.NoError(t, err)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	pruner := mustStore(t, tx)
	now := nowOf(t, store)
	pruned, _, err := pruner.Prune(t.Context(), now, almanac.Page{})
	require.NoError(t, err)
	require.Equal(t, 1, pruned)

	deleted := make(chan error, 1)
	go func() {
		_, err := store.DeleteUser(t.Context(), failed.UserID, almanac.DeleteOptions{})
		deleted <- err
	}()
	awaitLockWaiter(t, pool, deleted)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-deleted)
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.keys WHERE idempotency_key = $1", failed.IdempotencyKey.String()).Scan(&left))
	require.Zero(t, left, "keys of a deleted user")
}

// A host that requeues an event, and keeps its transaction open, holds up no pruning.
func TestPruneWaitsForNoKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool, postgres.WithTimeout(5*time.Second))
	claim := claimed(t, store, 2, false)
	settleAll(t, store, almanac.ClaimResult{Events: claim.Events, At: claim.At}, almanac.GaveUp("HTTP 404"), nil)
	failed, err := store.Event(t.Context(), claim.Events[0].ID)
	require.NoError(t, err)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	host := mustStore(t, tx)
	_, err = host.EditUser(t.Context(), failed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
		again, err := failed.Requeue(uuid.Must(uuid.NewV7()), r.Now)
		return almanac.Edit{New: []almanac.Event{again}}, err
	})
	require.NoError(t, err)
	now := nowOf(t, store)
	pruned, _, err := store.Prune(t.Context(), now, almanac.Page{})
	require.NoError(t, err)
	require.Equal(t, 1, pruned, "the one whose key is not held")
	require.NoError(t, tx.Rollback(t.Context()))
	pruned, _, err = store.Prune(t.Context(), now, almanac.Page{})
	require.NoError(t, err)
	require.Equal(t, 1, pruned, "the other, later")
}
