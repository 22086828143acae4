package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
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
	now := nowOf(t, store)
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
func TestTheDatabaseRefusesInvalidEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)

	pending := overdue(t, store)
	finished := claimOne(t, store)
	_, err := store.Settle(t.Context(), []almanac.Settlement{{Event: finished, Outcome: almanac.Delivered(finished.UpdatedAt)}})
	require.NoError(t, err)
	require.Equal(t, pending.ID, finished.ID)
	claimed := overdue(t, store)
	_, err = store.Settle(t.Context(), []almanac.Settlement{{Event: claimOne(t, store), Outcome: almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour)}})
	require.NoError(t, err)
	pending = overdue(t, store)

	stranger, _, err := almanactest.CreateUser(t.Context(), store, almanactest.User())
	require.NoError(t, err)

	refused := map[string]struct {
		table, set string
		id         uuid.UUID
	}{
		"a finished event changes":                    {"history", "last_error = 'x', version = version + 1", finished.ID},
		"a finished event changes its status":         {"history", "status = 'FAILED', executed_at = NULL, failure_reason = 'x'", finished.ID},
		"an event is queued for another time":         {"queue", "available_at = now()", pending.ID},
		"an event is another series'":                 {"queue", "series_id = 0", pending.ID},
		"a claimed event moves":                       {"series", "target_timestamp_utc = now(), version = version + 1", claimed.ID},
		"a claimed event is at another wall time":     {"series", "target_timestamp_local = now(), version = version + 1", claimed.ID},
		"a claimed event is in another zone":          {"series", "target_timezone = 'Asia/Tokyo', version = version + 1", claimed.ID},
		"a claimed event is another occurrence":       {"series", "occurrence_key = '9999', version = version + 1", claimed.ID},
		"an event moves and its version stays":        {"series", "target_timestamp_utc = now()", pending.ID},
		"the version falls":                           {"series", "version = version - 1", pending.ID},
		"the version jumps":                           {"series", "version = version + 3", pending.ID},
		"the idempotency key changes":                 {"series", "idempotency_key = 'event-x', version = version + 1", pending.ID},
		"a series becomes another user's":             {"series", "user_id = '" + stranger.ID.String() + "'", pending.ID},
		"a series becomes another type's":             {"series", "event_type = 'OTHER'", pending.ID},
		"a series gets another name":                  {"series", "name = 'x', version = version + 1", pending.ID},
		"a series is detached":                        {"series", "detached = 'follow-up:x', origin = 'follow-up', version = version + 1", pending.ID},
		"a planned event has an origin":               {"series", "origin = 'follow-up', version = version + 1", pending.ID},
		"an event changes its origin":                 {"series", "origin_event = gen_random_uuid(), version = version + 1", pending.ID},
		"an event follows its user":                   {"series", "follows_user = true, version = version + 1", pending.ID},
		"an event is forced":                          {"series", "forced = true, version = version + 1", pending.ID},
		"a payload is made":                           {"series", "payload_made = true, version = version + 1", pending.ID},
		"a new event has attempts already":            {"series", "event_id = gen_random_uuid(), occurrence_key = '9999', version = 2", pending.ID},
		"a new event is of a used occurrence":         {"series", "event_id = gen_random_uuid(), key_unit = 'year', used_key = '9999', version = 1", pending.ID},
		"an occurrence that was used is used no more": {"series", "used_key = '', used_nominal = NULL, used_local = NULL", pending.ID},
		"a used key falls":                            {"series", "used_key = '1998'", pending.ID},
		"a used key of another unit is lost":          {"series", "used_others = NULL", pending.ID},
		"a used key of another unit changes":          {"series", `used_others = '{"day": ["1998-01-01", "1998-01-02T00:00:00", "1998-01-02T00:00:00"]}'`, pending.ID},
		"a new unit does not keep the old one":        {"series", "used_unit = 'month', used_key = '1999-01'", pending.ID},
		"a new unit loses a third one":                {"series", `used_unit = 'month', used_key = '1999-01', used_others = jsonb_build_object('year', jsonb_build_array(used_key, used_nominal, used_local))`, pending.ID},
		"a key is used and its day is not stored":     {"series", "used_local = NULL", pending.ID},
		"a claimed event is named anew":               {"series", "nominal_local = now(), version = version + 1", claimed.ID},
		"a claimed event has a key of another unit":   {"series", "key_unit = 'day', version = version + 1", claimed.ID},
		"a new event is of an occurrence of a unit that was used before": {
			"series", "event_id = gen_random_uuid(), occurrence_key = '1998-01-02', key_unit = 'day', version = 1", pending.ID},
		"a unit that was used before comes again with a lower key": {
			"series", `used_unit = 'day', used_key = '1998-01-01', used_others = jsonb_build_object('year', jsonb_build_array(used_key, used_nominal, used_local))`, pending.ID},
		"another unit has no used key": {
			"series", `used_unit = 'month', used_key = '', used_nominal = NULL, used_local = NULL,
				used_others = used_others || jsonb_build_object('year', jsonb_build_array(used_key, used_nominal, used_local))`, pending.ID},
		"used keys of other units are stored by hand": {"series", `used_unit = 'x', used_key = 'a', used_nominal = now(), used_local = now(), used_others = '{"day": 5}'`, claimed.ID},
		"a counter falls below zero":                  {"series", "retry_count = -1, version = version + 1", pending.ID},
		"the number of claims falls":                  {"series", "claim_count = 0, version = version + 1", claimed.ID},
		"the number of claims jumps":                  {"series", "claim_count = claim_count + 2, version = version + 1", claimed.ID},
		"the number of retries falls":                 {"series", "retry_count = 0, version = version + 1", claimed.ID},
		"the number of retries jumps":                 {"series", "retry_count = retry_count + 2, version = version + 1", claimed.ID},
		"the number of crashes falls":                 {"series", "crash_count = 0, version = version + 1", claimed.ID},
		"the number of crashes jumps":                 {"series", "crash_count = crash_count + 2, version = version + 1", claimed.ID},
		"the number of claims of an ended one jumps":  {"series", "event_id = NULL, claim_count = 2147483647", pending.ID},
		"the version of an ended one jumps":           {"series", "event_id = NULL, version = 2147483647", pending.ID},
		"the version of an ended one is negative":     {"series", "event_id = NULL, version = -1", pending.ID},
		"a new event has failed already":              {"series", "event_id = gen_random_uuid(), occurrence_key = '9999', version = 1, retry_count = 1", pending.ID},
		"a new event has crashed already":             {"series", "event_id = gen_random_uuid(), occurrence_key = '9999', version = 1, crash_count = 1", pending.ID},
		"the version of a user jumps":                 {"users", "version = version + 2", stranger.ID},
		"the version of a user falls":                 {"users", "version = version - 1", stranger.ID},
	}
	for _, set := range []string{
		"used_key = '1998-01-02', used_unit = 'day', used_nominal = '1998-01-02', used_local = '1998-01-02'",
		`used_key = '1999', used_unit = 'year', used_nominal = now(), used_local = now(),
			used_others = '{"day": ["1998-01-02", "1998-01-02T00:00:00", "1998-01-02T00:00:00"]}'`,
	} {
		_, err = pool.Exec(t.Context(), "UPDATE almanac.series SET "+set+" WHERE event_id = $1", pending.ID)
		require.NoError(t, err)
	}
	_, err = pool.Exec(t.Context(), "UPDATE almanac.series SET crash_count = 1 WHERE event_id = $1", claimed.ID)
	require.NoError(t, err)
	for name, update := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := map[string]string{"history": "id", "queue": "event_id", "series": "event_id", "users": "id"}[update.table]
			pg := refusal(t, pool, "UPDATE almanac."+update.table+" SET "+update.set+" WHERE "+id+" = $1", update.id)
			require.Equal(t, "23514", pg.Code, "%s", pg.Message)
		})
	}

	for constraint, insert := range map[string]string{
		"history_status_check": `INSERT INTO almanac.history
			SELECT (jsonb_populate_record(h, '{"status": "PAUSED", "executed_at": null, "failure_reason": "x"}')).* FROM almanac.history h`,
		"keys_pkey": "INSERT INTO almanac.keys (idempotency_key) SELECT idempotency_key FROM almanac.series",
		"series_new_guard": `INSERT INTO almanac.series (user_id, event_type, name, current_user_version, occurrence_key, target_timestamp_utc,
				target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, claim_count)
			SELECT user_id, event_type, 'another', current_user_version, occurrence_key, target_timestamp_utc,
				target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, 2147483647
			FROM almanac.series`,
		"series_user_id_fkey": `INSERT INTO almanac.series (user_id, event_type, name, current_user_version, occurrence_key, target_timestamp_utc,
				target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version)
			SELECT gen_random_uuid(), event_type, name, current_user_version, occurrence_key, target_timestamp_utc,
				target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version
			FROM almanac.series`,
	} {
		t.Run(constraint, func(t *testing.T) {
			t.Parallel()
			pg := refusal(t, pool, insert)
			require.Equal(t, constraint, pg.ConstraintName, "%s", pg.Message)
		})
	}
}

// refusal returns the error with which the database refuses a statement.
func refusal(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (pg *pgconn.PgError) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.ErrorAs(t, err, &pg)
	return pg
}

func TestTheDatabaseRefusesImpossibleUsers(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	const check, null = "23514", "23502"
	for name, person := range map[string]struct {
		code, column string
		value        any
	}{
		"a first name that is NULL":                 {null, "first_name", nil},
		"a last name that is NULL":                  {null, "last_name", nil},
		"a long first name":                         {check, "first_name", strings.Repeat("ä", 101)},
		"a long last name":                          {check, "last_name", strings.Repeat("ä", 101)},
		"no zone":                                   {check, "timezone", ""},
		"a zone from no source":                     {null, "zone_source", nil},
		"a zone from an unknown source":             {check, "zone_source", "asked"},
		"born in another century":                   {check, "date_of_birth", "1815-12-10"},
		"born before the year that stands for none": {check, "date_of_birth", "0003-12-31"},
		"born after it":                             {check, "date_of_birth", "0005-01-01"},
		"born by two calendars":                     {check, "birth_day", "5774-05L-08"},
		"born by a calendar on no day":              {check, "birth_calendar", "hebrew"},
		"attributes are a list":                     {check, "attributes", []string{}},
		"an empty locale":                           {check, "locale", ""},
		"a long locale":                             {check, "locale", strings.Repeat("a", 101)},
		"an empty e-mail address":                   {check, "email", ""},
		"a long e-mail address":                     {check, "email", strings.Repeat("a", 255)},
		"an empty external id":                      {check, "external_id", ""},
		"opt-outs are an object":                    {check, "opt_outs", struct{}{}},
		"a long external id":                        {check, "external_id", strings.Repeat("a", 201)},
	} {
		row := map[string]any{
			"id": uuid.New(), "first_name": "Ada", "last_name": "Lovelace", "date_of_birth": "1990-01-01", "timezone": "UTC", "zone_source": "declared", "attributes": struct{}{},
			"version": 1, "created_at": time.Now(), "updated_at": time.Now(), "folded_name": "", "folded_last_name": "", person.column: person.value,
		}
		text, err := json.Marshal(row)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), "INSERT INTO almanac.users SELECT (jsonb_populate_record(NULL::almanac.users, $1::text::jsonb)).*", string(text))
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, name)
		require.Equal(t, person.code, pg.Code, name)
	}
}

// The limits of texts, and which columns have a default, in the tables that hold what the seeds' users
// and events have.
func TestColumnsHaveTheirLimits(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	for name, limit := range map[string]int{
		"users.first_name": 100, "users.last_name": 100, "users.timezone": 100,
		"series.event_type": 50, "series.occurrence_key": 100, "series.target_timezone": 100, "series.idempotency_key": 255, "series.last_error": 1100,
		// Copies of columns with a limit.
		"history.event_type": 0, "history.target_timezone": 0, "queue.event_type": 0, "keys.idempotency_key": 0,
	} {
		table, field, _ := strings.Cut(name, ".")
		var column, check string
		require.NoError(t, pool.QueryRow(t.Context(), `
			SELECT format_type(a.atttypid, a.atttypmod) || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), ''),
				coalesce((SELECT string_agg(pg_get_constraintdef(c.oid), ' ') FROM pg_constraint c
					WHERE c.conrelid = a.attrelid AND c.contype = 'c' AND c.conkey = ARRAY[a.attnum]), '')
			FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
			WHERE a.attrelid = ('almanac.' || $1)::regclass AND a.attname = $2`, table, field).Scan(&column, &check), name)
		require.Equal(t, "text", column, "%s: a default would make a birthday of an event whose program forgot its type", name)
		if limit > 0 {
			require.Contains(t, check, fmt.Sprintf("length(%s) <= %d)", field, limit), name)
		}
	}
}
