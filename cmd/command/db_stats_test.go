package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// storeUsers stores users with a birthday to come, and has those of the first few due
// since an hour.
func storeUsers(t *testing.T, address string, users, due int) *postgres.Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	for range users {
		_, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"})
		require.NoError(t, err)
	}
	runSQL(t, address, `
		WITH due AS (SELECT event_id FROM almanac.queue ORDER BY event_id LIMIT $1),
			gone AS (DELETE FROM almanac.queue q USING due WHERE q.event_id = due.event_id RETURNING q.*),
			moved AS (UPDATE almanac.series s SET target_timestamp_utc = now() - interval '1 hour', version = version + 1 FROM due WHERE s.event_id = due.event_id)
		INSERT INTO almanac.queue SELECT now() - interval '1 hour', event_id, series_id, event_type FROM gone`, due)
	return store
}

func statsOf(t *testing.T, address string, flags ...string) statistics {
	t.Helper()
	var s statistics
	require.NoError(t, json.Unmarshal([]byte(succeeds(t, append([]string{"stats", "--json", "--database-url", address}, flags...)...)), &s))
	return s
}

func TestStatisticsCountRows(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	store := storeUsers(t, address, 7, 5)
	claim := func(limit int, lease time.Duration) almanac.ClaimResult {
		c, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.Birthday{}.EventType()}, Limit: limit, Lease: lease})
		require.NoError(t, err)
		require.Len(t, c.Events, limit)
		return c
	}
	claim(2, time.Minute)
	claim(1, time.Millisecond)

	s := statsOf(t, address)

	require.Equal(t, int64(2), s.Backlog.Events)
	require.False(t, s.Backlog.More)
	require.InDelta(t, 3600, s.Backlog.Late, 60)
	require.WithinDuration(t, s.At.Add(-time.Hour), *s.Backlog.Oldest, time.Minute)
	require.Equal(t, []int64{1, 2, 1}, []int64{s.Leases.InForce, s.Leases.Events, s.Leases.Expired})
	require.Equal(t, []eventCount{{"BIRTHDAY", "PENDING", 4, false}, {"BIRTHDAY", "PROCESSING", 3, false}}, s.Events)
	var names []string
	for _, table := range s.Tables {
		names = append(names, table.Name)
		require.Positive(t, table.Bytes+table.Indexes, table.Name)
	}
	require.Subset(t, names, []string{"history", "keys", "leases", "migrations", "queue", "series", "users", "zone_rules"})

	text := succeeds(t, "stats", "--database-url", address)
	require.Regexp(t, regexp.MustCompile(`(?s)^schema   almanac at \S+Z\nbacklog  2 events, the first since \S+Z \(1h0m\S+s\)\nleases   1 in force with 2 events, 1 expired\n\n`+
		`TYPE      STATUS      EVENTS\nBIRTHDAY  PENDING     4\nBIRTHDAY  PROCESSING  3\n\nTABLE +ROWS +DEAD +SIZE +INDEXES +VACUUMED\naudit .*?\nhistory `), text)
}

func TestStatisticsTellOfEventsThatWaitForAnotherAttempt(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	store := storeAt(t, address)
	for _, options := range [][]almanactest.EventOption{
		{almanactest.ReadyFor(time.Hour), almanactest.Tried(1), almanactest.DelayedFor(time.Hour)},
		{almanactest.ReadyFor(time.Hour), almanactest.Tried(1), almanactest.DelayedFor(-time.Minute)},
		{almanactest.DueIn(time.Hour)},
	} {
		u := almanactest.User()
		almanactest.Store(t, store, u, almanactest.Event(time.Now(), append([]almanactest.EventOption{almanactest.For(u)}, options...)...))
	}

	require.Equal(t, int64(1), statsOf(t, address).Backlog.Delayed)
	require.Contains(t, succeeds(t, "stats", "--database-url", address), "\ndelayed  1 due event waiting for another attempt, the end of quiet hours, or a time in a window\n")
}

func TestAnEmptyDatabaseHasStatisticsToo(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s := statsOf(t, address)
	require.Empty(t, s.Events)
	require.NotNil(t, s.Events, "an empty list")
	require.Nil(t, s.Backlog.Oldest)
	require.Contains(t, succeeds(t, "stats", "--database-url", address), "\nbacklog  nothing waits to be claimed\nleases   0 in force with 0 events, 0 expired\n\nTABLE ")

	r := almanacAt(t, today, "stats", "--database-url", pgtest.EmptyURL(t))
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, `there is no migrated schema "almanac" in this database`)
}

// Large tables are sampled, and the backlog is counted up to a limit.
func TestLargeTablesAreEstimated(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	const rows = 400_000 // of which a page holds some hundred and forty
	runSQL(t, address, `
		INSERT INTO almanac.queue SELECT now() - interval '1 day' + i * interval '1 second', ('1f000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, i,
			CASE WHEN i % 4 = 0 THEN 'PARTY' ELSE 'BIRTHDAY' END
		FROM generate_series(1, $1::bigint) i`, rows)

	s := statsOf(t, address)
	require.True(t, s.Backlog.Events < 100_000 && !s.Backlog.More, "a day has 86400 seconds")
	require.Len(t, s.Events, 2)
	for i, want := range []float64{rows * 3 / 4, rows / 4} {
		require.True(t, s.Events[i].Estimated)
		require.InEpsilon(t, want, s.Events[i].Events, 0.15)
	}
	require.Regexp(t, `\nPARTY     PENDING  ~\d+\n`, succeeds(t, "stats", "--database-url", address))
	exact := statsOf(t, address, "--exact")
	require.Equal(t, []eventCount{{"BIRTHDAY", "PENDING", rows * 3 / 4, false}, {"PARTY", "PENDING", rows / 4, false}}, exact.Events)

	runSQL(t, address, "CREATE TABLE kept AS SELECT * FROM almanac.queue; TRUNCATE almanac.queue; INSERT INTO almanac.queue SELECT now() - interval '1 day', event_id, series_id, event_type FROM kept LIMIT 110000")
	s = statsOf(t, address)
	require.True(t, s.Backlog.More)
	require.Equal(t, int64(100_000), s.Backlog.Events)
	require.Contains(t, succeeds(t, "stats", "--database-url", address), "\nbacklog  more than 100000 events, the first since ")
}

// A role that sees ended events through the view alone gets a note about it.
func TestARoleWithFewPrivilegesGetsStatistics(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	name, asRole := login(t, address)
	runSQL(t, address, `
		GRANT USAGE ON SCHEMA almanac TO `+name+`;
		GRANT SELECT ON almanac.migrations, almanac.queue, almanac.ended_events, almanac.pending_events, almanac.processing_events TO `+name+`;
		GRANT SELECT (timezone, deleted_at) ON almanac.users TO `+name+`;
		GRANT SELECT (id, target_timestamp_utc) ON almanac.series TO `+name+`;
GRANT SELECT (token, owner, event_ids, claimed_at, expires_at) ON almanac.leases TO `+name+`;
		INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local, target_timezone,
			policies, idempotency_key, delivery_payload, user_version, lease_token, executed_at, failure_reason, retry_count, claim_count, crash_count,
			version, created_at, updated_at)
		SELECT md5(i::text)::uuid, md5('u')::uuid, 'BIRTHDAY', '2026', CASE WHEN i > 7 THEN 'FAILED' ELSE 'COMPLETED' END,
			now(), now(), 'UTC', '', i, '{}', 1, md5('t')::uuid, CASE WHEN i <= 7 THEN now() END, CASE WHEN i > 7 THEN 'gone' END, 0, 0, 0, 1, now(), now()
		FROM generate_series(1, 9) i`)

	want := []eventCount{{"BIRTHDAY", "COMPLETED", 7, false}, {"BIRTHDAY", "FAILED", 2, false}}
	require.Equal(t, want, statsOf(t, asRole).Events)
	require.Equal(t, want, statsOf(t, address).Events)
}

func TestSizesInWords(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 8192: "8 KB", 1 << 20: "1 MB", 1610612736: "1.5 GB", 1 << 42: "4 TB"} {
		if got := sizeText(bytes); strings.TrimSpace(got) != want {
			t.Errorf("%d bytes are written %q, want %q", bytes, got, want)
		}
	}
}
