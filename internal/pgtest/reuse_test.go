package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// user is a test that uses a pool, and ends when end is called.
type user struct {
	testing.TB
	cleanups []func()
	errors   []any
}

func (u *user) Cleanup(f func())  { u.cleanups = append(u.cleanups, f) }
func (u *user) Error(args ...any) { u.errors = append(u.errors, args...) }
func (u *user) Failed() bool      { return len(u.errors) > 0 }

func (u *user) end() {
	for _, f := range u.cleanups {
		f()
	}
}

// Not parallel: another test could take the database between two uses.
func TestReusedPoolIsEmptyAgain(t *testing.T) {
	first := &user{TB: t}
	pool := pgtest.ReusedPool(first)
	name := database(t, pool)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone) VALUES (gen_random_uuid(), 'Ada', 'Lovelace', '1990-01-01', 'UTC');
		INSERT INTO almanac.zone_rules VALUES ('UTC', 1, 2026, '');
		UPDATE almanac.pruning SET before = now()`)
	require.NoError(t, err)
	first.end()
	require.Empty(t, first.errors)

	second := &user{TB: t}
	pool = pgtest.ReusedPool(second)
	require.Equal(t, name, database(t, pool), "of the test before")
	var rows int
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM almanac.users) + (SELECT count(*) FROM almanac.zone_rules) +
			(SELECT count(*) FROM almanac.pruning WHERE before <> '-infinity')`).Scan(&rows))
	require.Zero(t, rows)

	for _, change := range []string{
		"CREATE TABLE public.notes ()",
		"GRANT SELECT ON almanac.users TO PUBLIC",
		"ALTER TABLE almanac.users DISABLE TRIGGER USER, ADD CHECK (version > 0)",
		"DROP VIEW almanac.events",
		"DROP INDEX almanac.queue_due",
	} {
		t.Run(change, func(t *testing.T) {
			changing := &user{TB: t}
			pool := pgtest.ReusedPool(changing)
			_, err := pool.Exec(t.Context(), change)
			require.NoError(t, err)
			changing.end()
			require.Len(t, changing.errors, 1, "a change that the next test would find")
		})
	}
	second.end()
	require.Empty(t, second.errors)
}

func database(t *testing.T, pool *pgxpool.Pool) (name string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	return name
}
