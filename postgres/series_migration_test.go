package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// Keys that hold the name of a series and the kind of the event are taken apart by the
// migration, and put together again on the way down.
func TestMigrationSplitsAndRejoinsKeys(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	downTo(t, pool, 12)
	_, err := pool.Exec(t.Context(), somebody)
	require.NoError(t, err)
	keys := []string{"2020", "dentist/2021", "~after-thanks/1", "~at-visit/1", "~at-2027-01-01T09:00:00/1f", "~at-both/1fp", "~at-made/1p"}
	for i, key := range keys {
		seriesOld(t, pool, 2*i+1, key, true)
		if i > 0 {
			seriesOld(t, pool, 2*i+20, "x-"+key, false) // a tilde that is not at the beginning means nothing
		}
		endOld(t, pool, oldEnded{n: 2*i + 20, key: key, reason: "HTTP 404", retries: 1, claims: 1})
	}
	seriesOld(t, pool, 40, "tilde/~/", false)
	_, err = pool.Exec(t.Context(), `
		INSERT INTO almanac.unplanned SELECT id, user_id, event_type, used_key FROM almanac.series WHERE name = 'tilde/';
		INSERT INTO almanac.series (user_id, event_type, name, current_user_version, used_key, occurrence_key, target_timestamp_utc,
			target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, requeued_from)
		SELECT user_id, event_type, '~again-' || id || '/', 1, occurrence_key, occurrence_key, target_timestamp_utc,
			target_timestamp_local, target_timezone, policies, idempotency_key, '{}', 1, id
		FROM almanac.history WHERE occurrence_key = 'dentist/2021'`)
	require.NoError(t, err)
	const unplanned = `SELECT series_id::text, used_key FROM almanac.unplanned`
	history, series, waits := queryMap(t, pool, wholeHistory), queryMap(t, pool, wholeSeries), queryMap(t, pool, unplanned)
	const marks = `concat_ws(' ', nullif(name, ''), nullif(detached, ''), '|', quote_literal(used_key), occurrence_key, follows_user, payload_made)`

	for range 2 {
		require.NoError(t, postgres.Migrate(t.Context(), pool))

		require.Equal(t, map[string]string{
			"1": "| '' 2020", "3": "dentist | '' 2021", "5": "follow-up:thanks | '' thanks", "7": "scheduled:visit | '' visit f f",
			"9":  "scheduled:2027-01-01T09:00:00 | '' 2027-01-01T09:00:00 t f",
			"11": "scheduled:both | '' both t t", "13": "scheduled:made | '' made f t",
		}, queryMap(t, pool, `SELECT ltrim(right(event_id::text, 12), '0'), `+marks+` FROM almanac.series WHERE event_id IS NOT NULL`))
		require.Equal(t, map[string]string{
			"x-dentist": "x-dentist | '2021' 2021", "x-~after-thanks": "x-~after-thanks | '1' 1",
			"x-~at-visit": "x-~at-visit | '1' 1", "x-~at-2027-01-01T09:00:00": "x-~at-2027-01-01T09:00:00 | '1f' 1f",
			"x-~at-both": "x-~at-both | '1fp' 1fp", "x-~at-made": "x-~at-made | '1p' 1p", "tilde": "tilde | '~/' ~/",
			"dentist": "dentist requeued:" + numbered(22) + " | '2021' 2021",
		}, queryMap(t, pool, `SELECT coalesce(nullif(name, ''), occurrence_key), `+marks+` FROM almanac.series WHERE event_id IS NULL`))
		require.Equal(t, map[string]string{
			"20": "2020", "22": "dentist 2021", "24": "follow-up thanks", "26": "scheduled visit f f", "28": "scheduled 2027-01-01T09:00:00 t f",
			"30": "scheduled both t t", "32": "scheduled made f t",
		}, queryMap(t, pool, `SELECT ltrim(right(id::text, 12), '0'), concat_ws(' ', nullif(series_name, ''), origin, occurrence_key, follows_user, payload_made)
			FROM almanac.history`))
		for _, key := range queryMap(t, pool, unplanned) {
			require.Equal(t, "~/", key)
		}
		require.Empty(t, examine(t, pool, "almanac"))

		downTo(t, pool, 12)
		require.Equal(t, history, queryMap(t, pool, wholeHistory))
		require.Equal(t, series, queryMap(t, pool, wholeSeries))
		require.Equal(t, waits, queryMap(t, pool, unplanned))
	}
}
