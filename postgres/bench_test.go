package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// storePlanned ends a statement that begins with pending events as "owed": id, user_id,
// occurrence_key, due, zone and key, of which it stores birthdays.
const storePlanned = `
	, stored AS (
		INSERT INTO almanac.series (user_id, event_type, name, current_user_version, event_id, occurrence_key, key_unit, target_timestamp_utc,
			target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version)
		SELECT user_id, 'BIRTHDAY', '', 1, id, occurrence_key, 'year', due, due, zone, 'forward,first,feb28,clamp', key, '{"message": "Hey"}', 1
		FROM owed
		RETURNING id, event_id, event_type, target_timestamp_utc, idempotency_key
	), queued AS (
		INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from)
		SELECT target_timestamp_utc, event_id, id, event_type, NULL FROM stored
	)
	INSERT INTO almanac.keys (idempotency_key) SELECT idempotency_key FROM stored`

// owePeople stores n users with an overdue birthday each.
const owePeople = `
	WITH people AS (
		INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone)
		SELECT gen_random_uuid(), 'Ada', 'Lovelace', '1990-01-01', 'UTC' FROM generate_series(1, $1) RETURNING id
	), numbered AS (SELECT id, row_number() OVER () AS n FROM people), owed AS (
		SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid AS id,
			id AS user_id, '2020' AS occurrence_key, now() - interval '1 day' + n * interval '1 millisecond' AS due, 'UTC' AS zone,
			'event-' || substr(md5(id::text), 1, 16) AS key
		FROM numbered
	)` + storePlanned

// One operation is one event claimed, completed, and followed by its successor.
func BenchmarkClaimAndSettle(b *testing.B) {
	for _, layout := range []struct{ name, change string }{
		{"as it is", ""},
		{"with an index on what a successor changes", "CREATE INDEX ON almanac.series (target_timestamp_utc)"},
	} {
		for _, size := range []int{100, 500} {
			b.Run(fmt.Sprintf("%s/%d at a time", layout.name, size), func(b *testing.B) {
				pool := pgtest.Pool(b)
				_, err := pool.Exec(b.Context(), layout.change)
				require.NoError(b, err)
				claimAndSettle(b, pool, size)
			})
		}
	}
}

func claimAndSettle(b *testing.B, pool *pgxpool.Pool, size int) {
	store, err := postgres.New(pool)
	require.NoError(b, err)
	_, err = pool.Exec(b.Context(), owePeople, b.N)
	require.NoError(b, err)
	_, err = pool.Exec(b.Context(), "VACUUM ANALYZE almanac.series, almanac.queue, almanac.users")
	require.NoError(b, err)
	b.ResetTimer()
	for left := b.N; left > 0; {
		claim, err := store.Claim(context.Background(), almanac.ClaimRequest{
			Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: min(size, left), Lease: time.Minute,
		})
		require.NoError(b, err)
		require.NotEmpty(b, claim.Events)
		settlements := make([]almanac.Settlement, len(claim.Events))
		for i, e := range claim.Events {
			settlements[i] = almanac.Settlement{Event: e, Outcome: almanac.Delivered(claim.At), User: claim.Users[e.UserID], Next: nextBirthday}
		}
		settled, err := store.Settle(context.Background(), settlements)
		require.NoError(b, err)
		require.NoError(b, settled[0].Err)
		left -= len(settled)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
