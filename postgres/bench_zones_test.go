package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
	"github.com/almanac-go/almanac/postgres"
)

// A million users in four hundred zones, each with a birthday at nine by the
// clocks of UTC to come.
const millionPending = `
	INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone)
	SELECT md5(u::text)::uuid, 'Ada', 'Lovelace', '1990-01-01', ($1::text[])[1 + u % 400] FROM generate_series(1, 1000000) u;`

const millionEvents = `
	WITH owed AS (
		SELECT (lpad(to_hex(1700000000000 + row_number() OVER ()), 12, '0') || '7' || substr(md5(id::text), 1, 3) || '8' || substr(md5(id::text), 4, 15))::uuid AS id,
			id AS user_id, '2050' AS occurrence_key,
			timestamp '2050-01-01 09:00' + get_byte(decode(md5(id::text), 'hex'), 1) * interval '1 day' AS due, timezone AS zone,
			'event-' || substr(md5(id::text), 1, 20) AS key
		FROM almanac.users
	)` + storePlanned

// BenchmarkReconcile brings the events of fifteen zones of four hundred into step
// with new rules: 37,500 of a million. It also counts what would move, as a quarantine does.
func BenchmarkReconcile(b *testing.B) {
	pool := pgtest.Pool(b)
	zones := calendar.TimezoneNames()[:400]
	for _, sql := range []string{millionPending, millionEvents, "ANALYZE almanac.series, almanac.queue"} {
		var args []any
		if sql == millionPending {
			args = []any{zones}
		}
		_, err := pool.Exec(b.Context(), sql, args...)
		require.NoError(b, err)
	}
	store, err := postgres.New(pool)
	require.NoError(b, err)
	registry, err := almanac.NewRegistry()
	require.NoError(b, err)
	scheduler, err := almanac.NewScheduler(store, registry)
	require.NoError(b, err)
	round := 0
	for name, dry := range map[string]bool{"move": false, "count": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				round++
				b.StopTimer()
				data := furtherEast(b, zones[:15], round)
				b.StartTimer()

				result, err := scheduler.Reconcile(b.Context(), almanac.ReconcileOptions{Data: data, Trust: true, DryRun: dry})

				require.NoError(b, err)
				require.Equal(b, 37500, result.Moved())
			}
		})
	}
}

// furtherEast makes rules of zones that are so many minutes east of UTC.
func furtherEast(b *testing.B, zones []string, minutes int) *calendar.ZoneData {
	files := make(map[string][]byte)
	for _, zone := range zones {
		files[zone] = zonetest.File(minutes*60, nil, "")
	}
	dir := b.TempDir()
	require.NoError(b, zonetest.WriteDir(dir, "", files))
	data, err := calendar.OpenZoneData(dir)
	require.NoError(b, err)
	return data
}
