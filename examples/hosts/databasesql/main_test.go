package main

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var ada = almanac.Profile{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.org", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}

// opened returns a club whose greetings are recorded.
func opened(t *testing.T) (*pgxpool.Pool, club, *almanactest.Recorder) {
	t.Helper()
	pool, greetings := pgtest.Pool(t), new(almanactest.Recorder)
	c, err := open(t.Context(), pool, greetings.Deliver)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.db.Close()) })
	return pool, c, greetings
}

func TestBothSidesAreStoredOrNeither(t *testing.T) {
	t.Parallel()
	pool, c, _ := opened(t)
	id, err := c.join(t.Context(), ada)
	require.NoError(t, err)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	inZone := func(zone string) {
		t.Helper()
		var members, users int
		var at string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*), (SELECT count(*) FROM almanac.users), max(zone) FROM members`).
			Scan(&members, &users, &at))
		require.Equal(t, []any{1, 1, zone}, []any{members, users, at})
		require.Equal(t, zone, almanactest.PendingEvent(t, store, id, almanac.TypeBirthday).Zone)
	}
	inZone("Europe/London")

	_, err = c.join(t.Context(), ada)
	var taken *pgconn.PgError
	require.ErrorAs(t, err, &taken, "the club refuses the address, after Almanac has stored the user")
	inZone("Europe/London")
	require.ErrorIs(t, c.move(t.Context(), id, "Europe/Loondon"), almanac.ErrInvalid, "Almanac refuses the zone, after the club has stored it")
	inZone("Europe/London")
	require.ErrorIs(t, c.move(t.Context(), uuid.New(), "Asia/Tokyo"), almanac.ErrNotFound)
	inZone("Europe/London")

	require.NoError(t, c.move(t.Context(), id, "Asia/Tokyo"))
	inZone("Asia/Tokyo")
}

func TestWhoJoinedByDatabaseSQLIsGreeted(t *testing.T) {
	t.Parallel()
	pool, c, greetings := opened(t)
	id, err := c.join(t.Context(), ada)
	require.NoError(t, err)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	_, err = c.scheduler.RunNow(t.Context(), almanactest.PendingEvent(t, store, id, almanac.TypeBirthday).ID, almanac.ForceOptions{})
	require.NoError(t, err)

	did, err := c.scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})

	require.NoError(t, err)
	require.Equal(t, 1, did.Completed)
	require.Len(t, greetings.AttemptsFor(id), 1)
	require.Equal(t, ada.Email, greetings.Attempts()[0].User.Email)
}

func TestTheProgramStopsCleanly(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, address) }()
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	defer pool.Close()
	const listening = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %')"
	delivers := func() (there bool) { // Run listens for hints when the program has started
		require.NoError(t, pool.QueryRow(t.Context(), listening).Scan(&there))
		return there
	}
	for !delivers() {
		require.NoError(t, t.Context().Err())
	}

	stop()

	require.NoError(t, <-ended)
}
