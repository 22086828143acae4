package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// overdue stores a user whose birthday was a minute ago and returns the event. It
// is overdue by its wall time too, or new zone rules would put it right.
func overdue(t *testing.T, store *postgres.Store) almanac.Event {
	t.Helper()
	return overdueFor(t, store, ada)
}

func overdueFor(t *testing.T, store *postgres.Store, p almanac.Profile) almanac.Event {
	t.Helper()
	enrolment, err := newScheduler(t, store).CreateUser(t.Context(), p)
	require.NoError(t, err)
	e, zone := enrolment.Events[0], enrolment.User.Timezone
	now, err := store.Now(t.Context())
	require.NoError(t, err)
	wall := zone.WallTime(now.Add(-time.Minute))
	due, err := zone.Resolve(wall, e.Policies)
	require.NoError(t, err)
	e.Due, e.Wall = due.Instant, wall
	e, err = store.Update(t.Context(), e, e.Version)
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

// Statements by hand meet the database's own guard.
func TestTheDatabaseRefusesWhatNoRepositoryWouldWrite(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)

	pending := overdue(t, store)
	finished := claimOne(t, store)
	_, err = store.Settle(t.Context(), []almanac.Settlement{{Event: finished, Outcome: almanac.Delivered(finished.UpdatedAt)}})
	require.NoError(t, err)
	require.Equal(t, pending.ID, finished.ID)
	claimed := overdue(t, store)
	_, err = store.Settle(t.Context(), []almanac.Settlement{{Event: claimOne(t, store), Outcome: almanac.GaveBack(almanac.AfterFailure, "HTTP 503", time.Hour)}})
	require.NoError(t, err)
	pending = overdue(t, store)

	stranger, _, err := store.CreateUser(t.Context(), almanactest.User())
	require.NoError(t, err)

	refused := map[string]struct {
		table, set string
		id         uuid.UUID
	}{
		"a finished event changes":                    {"history", "last_error = 'x', version = version + 1", finished.ID},
		"a finished event changes its mind":           {"history", "status = 'FAILED', executed_at = NULL, failure_reason = 'x'", finished.ID},
		"an event is queued for another time":         {"queue", "available_at = now()", pending.ID},
		"an event is another series'":                 {"queue", "series_id = 0", pending.ID},
		"a claimed event moves":                       {"series", "target_timestamp_utc = now(), version = version + 1", claimed.ID},
		"a claimed event is another occurrence":       {"series", "occurrence_key = '9999', version = version + 1", claimed.ID},
		"an event moves and its version stays":        {"series", "target_timestamp_utc = now()", pending.ID},
		"the version falls":                           {"series", "version = version - 1", pending.ID},
		"the version jumps":                           {"series", "version = version + 3", pending.ID},
		"the idempotency key changes":                 {"series", "idempotency_key = 'event-x', version = version + 1", pending.ID},
		"a series becomes another person's":           {"series", "user_id = '" + stranger.ID.String() + "'", pending.ID},
		"a series becomes another type's":             {"series", "event_type = 'OTHER'", pending.ID},
		"a series gets another name":                  {"series", "name = 'x/', occurrence_key = 'x/1', version = version + 1", pending.ID},
		"an occurrence is of another series":          {"series", "occurrence_key = 'x/1', version = version + 1", pending.ID},
		"a new event comes with a past":               {"series", "event_id = gen_random_uuid(), occurrence_key = '9999', version = 2", pending.ID},
		"a new event is of a used occurrence":         {"series", "event_id = gen_random_uuid(), used_key = '9999', version = 1", pending.ID},
		"an occurrence that was used is used no more": {"series", "used_key = ''", pending.ID},
		"a counter falls below zero":                  {"series", "retry_count = -1, version = version + 1", pending.ID},
	}
	_, err = pool.Exec(t.Context(), "UPDATE almanac.series SET used_key = '1999' WHERE event_id = $1", pending.ID)
	require.NoError(t, err)
	for name, update := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := map[string]string{"history": "id", "queue": "event_id", "series": "event_id"}[update.table]
			_, err := pool.Exec(t.Context(), "UPDATE almanac."+update.table+" SET "+update.set+" WHERE "+id+" = $1", update.id)

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
