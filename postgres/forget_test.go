package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// endedEvents stores ended events of a user, with their keys and counts, and a step of each in the trail.
const endedEvents = `
	WITH ended AS (
		INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local, target_timezone, policies,
			idempotency_key, delivery_payload, user_version, executed_at, retry_count, claim_count, crash_count, version, created_at, updated_at)
		SELECT gen_random_uuid(), $1::uuid, 'NOTE', n, 'COMPLETED', '2020-01-01', '2020-01-01', 'UTC', '', $1::uuid || '-' || n, '{}', 1, now(), 0, 1, 0, 3, now(), now()
		FROM generate_series(1, $2::integer) n
		RETURNING id, user_id, idempotency_key
	), named AS (
		INSERT INTO almanac.keys (idempotency_key) SELECT idempotency_key FROM ended
	), counted AS (
		INSERT INTO almanac.due_changes SELECT 'UTC', 1753152, 'NOTE', count(*) FROM ended
	)
	INSERT INTO almanac.audit (kind, event_id, user_id, version) SELECT 'completed', id, user_id, 1 FROM ended`

func scalar(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

// One call deletes the open events and a page of the other rows. Each sweep deletes more pages, until no row is left.
func TestAUserWithALongHistoryIsDeletedInPages(t *testing.T) {
	t.Parallel()
	const most, left = 5000, 1000
	prune := []string{"DELETE FROM almanac.keys USING almanac.history h WHERE h.idempotency_key = keys.idempotency_key", "DELETE FROM almanac.history", "DELETE FROM almanac.due_changes WHERE event_type = 'NOTE'"}
	pruned := map[string][]string{"audit": prune, "outbox": append(prune, "DELETE FROM almanac.audit")}
	for _, table := range []string{"history", "series", "audit", "outbox"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
			store := mustStore(t, pool, postgres.WithTimeout(time.Minute))
			p := ada
			p.ExternalID = "42"
			e := overdueFor(t, store, p)
			sql := endedEvents
			if table == "series" {
				sql = endedSeries
			}
			_, err := pool.Exec(t.Context(), sql, e.UserID, most+left)
			require.NoError(t, err)
			for _, sql := range pruned[table] {
				_, err = pool.Exec(t.Context(), sql)
				require.NoError(t, err)
			}
			claimed := claimOne(t, store)

			d, err := store.DeleteUser(t.Context(), e.UserID, atOnce)

			require.NoError(t, err)
			require.Equal(t, almanac.DeleteResult{InFlight: []uuid.UUID{e.ID}, Hidden: true}, d)
			// The triggers of the outbox have written three rows more, for the user, the event and the deletion.
			require.InDelta(t, left, scalar(t, pool, "SELECT count(*) FROM almanac."+table+" WHERE user_id = $1", e.UserID), 3)
			require.Equal(t, 1, scalar(t, pool, "SELECT count(*) FROM almanac.outbox WHERE kind = 'user_deleted'"))
			_, err = store.User(t.Context(), e.UserID)
			require.ErrorIs(t, err, almanac.ErrNotFound)
			settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Next: nextBirthday}})
			require.NoError(t, err)
			require.ErrorIs(t, settled[0].Err, almanac.ErrNotFound)
			other := overdueFor(t, store, p) // the external id is free

			_, err = store.ReleaseExpired(t.Context(), 10, 1000)

			require.NoError(t, err)
			require.Empty(t, mentions(t, pool, e.UserID.String()))
			_, err = store.DeleteUser(t.Context(), e.UserID, atOnce)
			require.ErrorIs(t, err, almanac.ErrNotFound)
			require.Equal(t, 1, scalar(t, pool, "SELECT count(*) FROM almanac.keys"), "of %s", other.ID)
			_, err = store.ReleaseExpired(t.Context(), 10, 1000) // folds the counts
			require.NoError(t, err)
			require.Equal(t, 1, scalar(t, pool, "SELECT sum(n) FROM (SELECT n FROM almanac.due_counts UNION ALL SELECT n FROM almanac.due_changes) x"))
		})
	}
}

// A removal that takes too long is reported. It delays neither the removal of other users nor the other tasks of a sweep.
func TestASlowRemovalDelaysNothingElse(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool, postgres.WithTimeout(2*time.Second))
	slow := hiddenUsers(t, pool, store, 3)[0]
	_, err := pool.Exec(t.Context(), `
		CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN OLD; END $$;
		CREATE TRIGGER slow BEFORE DELETE ON almanac.history FOR EACH ROW EXECUTE FUNCTION sleep()`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), endedEvents, slow, 1)
	require.NoError(t, err)
	sweep := func() (users int, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = store.ReleaseExpired(ctx, 10, 1000)
		require.Zero(t, scalar(t, pool, "SELECT count(*) FROM almanac.due_changes"), "not folded")
		return scalar(t, pool, "SELECT count(*) FROM almanac.users"), err
	}

	users := 3
	for deadline := time.Now().Add(time.Minute); users > 1 && time.Now().Before(deadline); {
		users, _ = sweep()
	}
	require.Equal(t, 1, users)

	err = nil
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); { // a pooler may end the last sweep later
		_, err = sweep()
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 1, scalar(t, pool, "SELECT count(*) FROM almanac.users WHERE id = $1", slow))
}
