package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// beforeCancelled takes a database down to the version before CANCELLED was a status.
func beforeCancelled(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	downTo(t, pool, 8)
}

// numbered is the id of an event of these tests, in order of creation.
func numbered(n int) string { return fmt.Sprintf("01900000-0000-7000-8000-%012d", n) }

// again is the occurrence key of what repeats an event, as the previous release has it.
func again(n int) string { return "~again-" + numbered(n) + "/1" }

// oldEnded is an event that ended, as the previous release stores it.
type oldEnded struct {
	n                      int
	key, reason, lastError string // no last error when it is empty
	retries, claims        int
}

// endOld stores a failed event in the words of the previous release.
func endOld(t *testing.T, pool *pgxpool.Pool, e oldEnded) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local,
			target_timezone, policies, idempotency_key, delivery_payload, user_version, lease_token, failure_reason, last_error,
			retry_count, claim_count, crash_count, version, created_at, updated_at)
		VALUES (@id::uuid, '5f3b1c9e-0000-4000-8000-000000000001', 'BIRTHDAY', @key, 'FAILED', now(), '2026-12-10 09:00', 'UTC', 'later,earlier,feb28,clamp',
			@id::text, '{}', 1, gen_random_uuid(), @reason, nullif(@error, ''), @retries::integer, @claims::integer, 0, 1 + 2 * @claims::integer, now(), now())`,
		pgx.StrictNamedArgs{"id": numbered(e.n), "key": e.key, "reason": e.reason, "error": e.lastError, "retries": e.retries, "claims": e.claims})
	require.NoError(t, err)
}

// seriesOld stores a series in the words of the previous release, with an open event or
// with none.
func seriesOld(t *testing.T, pool *pgxpool.Pool, n int, key string, open bool) {
	t.Helper()
	name := key[:strings.Index(key, "/")+1]
	used := key
	if open {
		used = ""
	}
	_, err := pool.Exec(t.Context(), `
		WITH stored AS (
			INSERT INTO almanac.series (user_id, event_type, name, current_user_version, used_key, event_id, occurrence_key, target_timestamp_utc,
				target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version)
			VALUES ('5f3b1c9e-0000-4000-8000-000000000001', 'BIRTHDAY', @name, 1, @used, CASE WHEN @open THEN @id::uuid END, @key, now(),
				'2026-12-10 09:00', 'UTC', 'later,earlier,feb28,clamp', @id::text, '{}', 1)
			RETURNING id, event_id
		)
		INSERT INTO almanac.queue (available_at, event_id, series_id, event_type)
		SELECT now(), event_id, id, 'BIRTHDAY' FROM stored WHERE event_id IS NOT NULL`,
		pgx.StrictNamedArgs{"id": numbered(n), "name": name, "used": used, "key": key, "open": open})
	require.NoError(t, err)
}

// queryMap returns what a query says of each event or series, by its number or name.
func queryMap(t *testing.T, pool *pgxpool.Pool, sql string) map[string]string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	require.NoError(t, err)
	lines := make(map[string]string)
	var about, says string
	_, err = pgx.ForEachRow(rows, []any{&about, &says}, func() error { lines[about] = says; return nil })
	require.NoError(t, err)
	return lines
}

const (
	newHistory = `SELECT ltrim(right(id::text, 12), '0'), concat_ws(' ', status, quote_literal(failure_reason), origin, occurrence_key, ltrim(right(origin_event::text, 12), '0'))
		FROM almanac.history`
	newSeries = `SELECT name || replace(detached, '01900000-0000-7000-8000-00000000000', ''),
			concat_ws(' ', quote_literal(used_key), origin, occurrence_key, ltrim(right(origin_event::text, 12), '0')) FROM almanac.series`
	wholeHistory = `SELECT id::text, to_jsonb(h)::text FROM almanac.history h`
	wholeSeries  = `SELECT id::text, to_jsonb(s)::text FROM almanac.series s`
)

// What the previous release cancelled and requeued is found again as this release would
// have stored it, and goes back to what it was.
func TestMigrationFindsCancelledAndRequeuedEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	beforeCancelled(t, pool)
	_, err := pool.Exec(t.Context(), somebody)
	require.NoError(t, err)
	for _, e := range []oldEnded{
		{n: 1, key: "2020", reason: "cancelled", claims: 1},
		{n: 2, key: "2021", reason: "cancelled: moved house", claims: 1},
		{n: 3, key: "2022", reason: "cancelled: after all", lastError: "HTTP 503", retries: 2, claims: 3},
		{n: 4, key: "2023", reason: "cancelled by peer", retries: 1, claims: 1},
		{n: 5, key: "2024", reason: "cancelled: by peer", retries: 1, claims: 1},
		{n: 6, key: "2025", reason: "cancelled: by peer", lastError: "HTTP 503", retries: 2, claims: 2},
		{n: 7, key: again(6), reason: "HTTP 404", retries: 1, claims: 3},
		{n: 8, key: "~after-thanks/1", reason: "HTTP 404", retries: 1, claims: 1},
	} {
		endOld(t, pool, e)
	}
	seriesOld(t, pool, 6, "2025", false)
	seriesOld(t, pool, 7, again(6), false) // failed once more
	seriesOld(t, pool, 9, again(7), true)  // and was requeued once more
	seriesOld(t, pool, 8, "~after-thanks/1", false)
	seriesOld(t, pool, 10, again(8), true)
	seriesOld(t, pool, 11, again(0), true) // of an event that was pruned
	history, series := queryMap(t, pool, wholeHistory), queryMap(t, pool, wholeSeries)
	found := map[string]string{
		"1": "CANCELLED '' 2020", "2": "CANCELLED 'moved house' 2021", "3": "CANCELLED 'after all' 2022",
		"4": "FAILED 'cancelled by peer' 2023", "5": "FAILED 'cancelled: by peer' 2024", "6": "FAILED 'cancelled: by peer' 2025",
		"7": "FAILED 'HTTP 404' requeued 2025 6", "8": "FAILED 'HTTP 404' follow-up thanks",
	}
	following := map[string]string{
		"": "'2025' 2025", "requeued:6": "'2025' requeued 2025 6", "requeued:7": "'' requeued 2025 7", "follow-up:thanks": "'thanks' follow-up thanks",
		"requeued:8": "'' requeued thanks 8", "requeued:0": "'' requeued 1 ",
	}

	for range 2 {
		require.NoError(t, postgres.Migrate(t.Context(), pool))
		require.Equal(t, found, queryMap(t, pool, newHistory))
		require.Equal(t, following, queryMap(t, pool, newSeries))
		require.Empty(t, examine(t, pool, "almanac"))

		beforeCancelled(t, pool)
		require.Equal(t, history, queryMap(t, pool, wholeHistory))
		require.Equal(t, series, queryMap(t, pool, wholeSeries))
	}
}

// What this release cancelled is FAILED on the way down, with the claim that the
// release before counts, and CANCELLED again on the way up.
func TestCancelledEventsSurviveMigratingDownAndUp(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), somebody+`;
		INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local,
			target_timezone, policies, idempotency_key, delivery_payload, user_version, failure_reason, last_error,
			retry_count, claim_count, crash_count, version, created_at, updated_at)
		VALUES ('`+numbered(1)+`', '5f3b1c9e-0000-4000-8000-000000000001', 'BIRTHDAY', '2026', 'CANCELLED', now(), '2026-12-10 09:00', 'UTC',
			'later,earlier,feb28,clamp', 'k', '{}', 1, 'after all', 'HTTP 503', 2, 2, 0, 6, now(), now());
		INSERT INTO almanac.unplanned VALUES (1, '5f3b1c9e-0000-4000-8000-000000000001', 'BIRTHDAY', '2026')`)
	require.NoError(t, err)
	downTo(t, pool, 9)
	var loss *postgres.DataLossError
	require.ErrorAs(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}), &loss)
	require.Equal(t, []string{"unplanned"}, loss.Tables)

	for range 2 {
		beforeCancelled(t, pool)
		require.Equal(t, map[string]string{"1": "FAILED cancelled: after all 2 3 7"}, queryMap(t, pool, `
			SELECT ltrim(right(id::text, 12), '0'), concat_ws(' ', status, failure_reason, retry_count, claim_count, version) FROM almanac.history`))
		require.NoError(t, postgres.Migrate(t.Context(), pool))
		require.Equal(t, map[string]string{"1": "CANCELLED 'after all' 2026"}, queryMap(t, pool, newHistory))
	}
}

// A program of the previous release may run beside this one: what it cancels is stored
// as CANCELLED, and what failed for a reason of that wording is not.
func TestEventsCancelledByAnOlderProgramAreCancelled(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), somebody)
	require.NoError(t, err)

	endOld(t, pool, oldEnded{n: 1, key: "2020", reason: "cancelled", claims: 1})
	endOld(t, pool, oldEnded{n: 2, key: "2021", reason: "cancelled: x", claims: 1})
	endOld(t, pool, oldEnded{n: 3, key: "2022", reason: "cancelled by peer", retries: 1, claims: 1})
	endOld(t, pool, oldEnded{n: 4, key: "2023", reason: "cancelled: by peer", retries: 1, claims: 1})
	endOld(t, pool, oldEnded{n: 5, key: "2024", reason: "cancelled: by peer", lastError: "HTTP 503", retries: 2, claims: 2})
	// It ends the series with the event, after an attempt that failed: the series keeps its counters.
	seriesOld(t, pool, 6, "2025", true)
	_, err = pool.Exec(t.Context(), `
		UPDATE almanac.series SET retry_count = 1, claim_count = 1, last_error = 'HTTP 503', version = 3;
		DELETE FROM almanac.queue;
		UPDATE almanac.series SET event_id = NULL, used_key = occurrence_key`)
	require.NoError(t, err)
	endOld(t, pool, oldEnded{n: 6, key: "2025", reason: "cancelled: after all", lastError: "HTTP 503", retries: 1, claims: 2})

	require.Equal(t, map[string]string{
		"1": "CANCELLED '' 2020", "2": "CANCELLED 'x' 2021", "3": "FAILED 'cancelled by peer' 2022", "4": "FAILED 'cancelled: by peer' 2023",
		"5": "FAILED 'cancelled: by peer' 2024", "6": "CANCELLED 'after all' 2025",
	}, queryMap(t, pool, newHistory))
}
