package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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

// The plan for the series of edited users is kept for the session, whether the first edit is of many users or of one.
func TestEditsOfUsersReadNoOtherSeries(t *testing.T) {
	t.Parallel()
	pool := pgtest.DirectPool(t) // whose sessions are the test's own
	_, err := pool.Exec(t.Context(), `
		INSERT INTO almanac.users (id, first_name, last_name, timezone) SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, '', '', 'UTC' FROM generate_series(1, 3000) n;
		INSERT INTO almanac.series (user_id, event_type, name, current_user_version, event_id, occurrence_key, target_timestamp_utc, target_timestamp_local, target_timezone, policies,
			idempotency_key, delivery_payload, user_version)
		SELECT u.id, 'BIRTHDAY', '', 1, gen_random_uuid(), 'x', now(), now(), 'UTC', '', u.id::text, '{}', 1 FROM almanac.users u;
		ANALYZE almanac.users, almanac.series`)
	require.NoError(t, err)
	for _, most := range [][]int{{1, 2500, 1}, {2500, 1}} {
		conn, done := freshConn(t, pool), 0 // the counts of the first transactions may be in those of the last
		for _, n := range most {
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			tag, err := tx.Exec(t.Context(), `UPDATE almanac.users SET version = version + 1 WHERE id = ANY (ARRAY (SELECT id FROM almanac.users ORDER BY id LIMIT $1::bigint))`, n)
			require.NoError(t, err)
			require.EqualValues(t, n, tag.RowsAffected())
			var whole, read, followed int
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT coalesce(seq_scan, 0), coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0), n_tup_upd FROM pg_stat_xact_user_tables WHERE relid = 'almanac.series'::regclass`).Scan(&whole, &read, &followed))
			require.Zero(t, whole)
			require.Contains(t, []int{n, done + n}, read)
			require.Contains(t, []int{n, done + n}, followed)
			done += n
			require.NoError(t, tx.Commit(t.Context()))
		}
	}
	var behind int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM almanac.users u JOIN almanac.series s ON s.user_id = u.id WHERE s.current_user_version <> u.version`).Scan(&behind))
	require.Zero(t, behind)
}

func freshConn(t *testing.T, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}
