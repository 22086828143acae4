package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// overdue stores a user whose birthday was a minute ago and returns the event. It
// is overdue by its wall time too, or new zone rules would put it right.
func overdue(t *testing.T, pool *pgxpool.Pool, store *postgres.Store) almanac.Event {
	t.Helper()
	return overdueFor(t, pool, store, ada)
}

func overdueFor(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, p almanac.Profile) almanac.Event {
	t.Helper()
	enrolment, err := newScheduler(t, store).CreateUser(t.Context(), p)
	require.NoError(t, err)
	e, zone := enrolment.Events[0], enrolment.User.Timezone
	now, err := store.Now(t.Context())
	require.NoError(t, err)
	wall := zone.WallTime(now.Add(-time.Minute))
	due, err := zone.Resolve(wall, e.Policies)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
		UPDATE almanac.events SET target_timestamp_utc = $2, target_timestamp_local = $3, available_at = $2, version = version + 1
		WHERE id = $1`, e.ID, due.Instant, wall.Labelled())
	require.NoError(t, err)
	e, err = store.Event(t.Context(), e.ID)
	require.NoError(t, err)
	return e
}

func claimOne(t *testing.T, store *postgres.Store) almanac.Event {
	t.Helper()
	claim, err := store.Claim(t.Context(), almanac.ClaimRequest{
		Token: uuid.New(), Owner: t.Name(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute,
	})
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)
	return claim.Events[0]
}

// Statements by hand and programs of an older release meet the database's own guard.
func TestTheDatabaseRefusesWhatNoRepositoryWouldWrite(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)

	pending := overdue(t, pool, store)
	finished := claimOne(t, store)
	_, err = store.Settle(t.Context(), []almanac.Settlement{{Event: finished, Outcome: almanac.Delivered(finished.UpdatedAt)}})
	require.NoError(t, err)
	require.Equal(t, pending.ID, finished.ID)
	pending = overdue(t, pool, store)
	claimed := overdue(t, pool, store)
	_, err = pool.Exec(t.Context(), `UPDATE almanac.events SET available_at = now() - interval '1 hour', version = version + 1 WHERE id = $1`, claimed.ID)
	require.NoError(t, err)
	require.Equal(t, claimed.ID, claimOne(t, store).ID)

	refused := map[string]struct {
		id  uuid.UUID
		set string
	}{
		"a finished event changes":                {finished.ID, "last_error = 'x', version = version + 1"},
		"a finished event starts again":           {finished.ID, "status = 'PENDING', executed_at = NULL, lease_token = NULL, available_at = now(), version = version + 1"},
		"a pending event completes":               {pending.ID, "status = 'COMPLETED', executed_at = now(), available_at = NULL, lease_token = gen_random_uuid(), version = version + 1"},
		"a pending event fails":                   {pending.ID, "status = 'FAILED', failure_reason = 'x', available_at = NULL, lease_token = gen_random_uuid(), version = version + 1"},
		"a claimed event is claimed again":        {claimed.ID, "lease_token = gen_random_uuid(), version = version + 1"},
		"a claimed event moves":                   {claimed.ID, "status = 'PENDING', lease_token = NULL, available_at = now(), target_timestamp_utc = now(), version = version + 1"},
		"the version stays":                       {pending.ID, "last_error = 'x'"},
		"the version jumps":                       {pending.ID, "last_error = 'x', version = version + 2"},
		"the idempotency key changes":             {pending.ID, "idempotency_key = 'event-x', version = version + 1"},
		"a pending event holds a lease":           {pending.ID, "lease_token = gen_random_uuid(), version = version + 1"},
		"a pending event is not available":        {pending.ID, "available_at = NULL, version = version + 1"},
		"a status is not one of the four":         {pending.ID, "status = 'CANCELLED', version = version + 1"},
		"a counter falls below zero":              {pending.ID, "retry_count = -1, version = version + 1"},
		"a processing event has been executed":    {claimed.ID, "status = 'PENDING', lease_token = NULL, available_at = now(), executed_at = now(), version = version + 1"},
		"a released event gives a failure reason": {claimed.ID, "status = 'PENDING', lease_token = NULL, available_at = now(), failure_reason = 'x', version = version + 1"},
	}
	for name, update := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := pool.Exec(t.Context(), "UPDATE almanac.events SET "+update.set+" WHERE id = $1", update.id)

			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg)
			require.Equal(t, "23514", pg.Code, "%s", pg.Message)
		})
	}
}

func TestTheDatabaseRefusesPeopleWhoCannotBe(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for name, values := range map[string]string{
		"no first name":           `'', 'Lovelace', '1990-01-01', 'UTC', '{}'`,
		"no last name":            `'Ada', '', '1990-01-01', 'UTC', '{}'`,
		"no zone":                 `'Ada', 'Lovelace', '1990-01-01', '', '{}'`,
		"born in another century": `'Ada', 'Lovelace', '1815-12-10', 'UTC', '{}'`,
		"attributes are a list":   `'Ada', 'Lovelace', '1990-01-01', 'UTC', '[]'`,
	} {
		_, err := pool.Exec(t.Context(), `INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone, attributes) VALUES (gen_random_uuid(), `+values+`)`)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, name)
		require.Equal(t, "23514", pg.Code, name)
	}
}
