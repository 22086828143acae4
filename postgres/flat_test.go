package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// endedSeries stores series of a user whose events have ended: half are reminders, half follow-ups.
const endedSeries = `
	INSERT INTO almanac.series (user_id, event_type, name, current_user_version, used_key, used_nominal, used_local, occurrence_key, target_timestamp_utc,
		target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, detached, origin)
	SELECT $1, CASE n % 2 WHEN 0 THEN 'REMINDER' ELSE 'GIFT' END, CASE n % 2 WHEN 0 THEN 'note-' || n ELSE '' END, 1, n, due, due, n, due, due, 'UTC',
		'forward,first,feb28,clamp', 'event-' || n, '{}', 1, CASE n % 2 WHEN 0 THEN '' ELSE 'follow-up:' || n END, CASE n % 2 WHEN 1 THEN 'follow-up' END
	FROM generate_series(1, $2::integer) n, LATERAL (SELECT now() - n * interval '1 day') x (due)`

// touched returns how many rows the transaction has read and written so far, those of triggers, foreign keys and TOAST tables included.
func touched(t *testing.T, tx pgx.Tx) (rows int) {
	t.Helper()
	require.NoError(t, tx.QueryRow(t.Context(), `
		SELECT coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del), 0)
		FROM pg_stat_xact_all_tables
		WHERE schemaname IN ('almanac', 'pg_toast')`).Scan(&rows))
	return rows
}

// costOf returns how many rows the last of some operations touches, and undoes all. Its connection is a new one: others have counts of before to send.
func costOf(t *testing.T, pool *pgxpool.Pool, operations ...func(*postgres.Store) error) int {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	// Closing the connection alone does not wait for the server, and the next claim skips locked rows.
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	store := mustStore(t, tx)
	before := 0
	for _, do := range operations {
		before = touched(t, tx)
		require.NoError(t, do(store))
	}
	return touched(t, tx) - before
}

// Ten years of a reminder and a follow-up every other day, beside two full claims of other users' events: whatever is done to the user
// or to one of their events, hardly more rows are looked at than for a user without a past while nothing is in flight.
func TestEditCostIsFlatOverEndedSeriesAndEventsInFlight(t *testing.T) {
	t.Parallel()
	const ended, inFlight = 3650, 2000
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	now := nowOf(t, store)
	u := almanactest.User()
	u.ID = uuid.UUID{15: 1} // the first page of a backfill
	_, _, err := almanactest.CreateUser(t.Context(), store, u, almanactest.Event(now, almanactest.For(u), almanactest.Of("2027"), almanactest.DueIn(240*time.Hour)),
		almanactest.Event(now, almanactest.For(u), almanactest.OfType("DIGEST"), almanactest.ReadyFor(time.Hour)))
	require.NoError(t, err)
	fresh := func() []almanac.Event {
		return []almanac.Event{almanactest.Event(now, almanactest.For(u), almanactest.OfType("REMINDER"), almanactest.OfSeries("new", "2027"))}
	}
	edit := func(s *postgres.Store) error {
		_, err := s.EditUser(t.Context(), u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			is, moved := r.User, r.Pending[0]
			is.Version, moved.Version, moved.Due = is.Version+1, moved.Version+1, moved.Due.Add(time.Hour)
			return almanac.Edit{User: &is, Changed: []almanac.Event{moved}, Removed: r.Pending[1:], New: fresh()}, nil
		})
		return err
	}
	claim := func(s *postgres.Store) error {
		claim, err := s.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"DIGEST"}, Limit: 10, Lease: time.Minute})
		require.Len(t, claim.Events, 1)
		return err
	}
	remove := func(s *postgres.Store) error {
		_, err := s.DeleteUser(t.Context(), u.ID, almanac.DeleteOptions{})
		return err
	}
	operations := map[string][]func(*postgres.Store) error{
		"an edit":                           {edit},
		"an edit, with an event in flight":  {claim, edit},
		"deletion, with an event in flight": {claim, remove},
		"a backfill": {func(s *postgres.Store) error {
			_, err := s.AddEvents(t.Context(), "REMINDER", almanac.Page{Limit: 1}, func([]almanac.UserSeries, time.Time) ([]almanac.Event, error) {
				return fresh(), nil
			})
			return err
		}},
	}
	before := make(map[string]int, len(operations))
	for name, operation := range operations {
		before[name] = costOf(t, pool, operation...)
	}
	_, err = pool.Exec(t.Context(), endedSeries, u.ID, ended)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), owePeople, inFlight)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "VACUUM ANALYZE almanac.users, almanac.series, almanac.queue")
	require.NoError(t, err)
	for range inFlight / 1000 {
		claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1000, Lease: time.Hour})
		require.NoError(t, err)
		require.Len(t, claim.Events, 1000)
	}
	for name, operation := range operations {
		after := costOf(t, pool, operation...)
		t.Logf("%s: %d rows touched without a past and with nothing in flight, %d with %d ended series beside %d events in flight", name, before[name], after, ended, inFlight)
		require.LessOrEqual(t, after, before[name]+100, name) // the lists of the leases are some 50 rows of TOAST
	}
}
