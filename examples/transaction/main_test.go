package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// The test binary runs the program itself on request.
func TestMain(m *testing.M) {
	if os.Getenv("TRANSACTION") != "" {
		main()
		return
	}
	pgtest.Main(m)
}

func TestProgramStoresBothSidesOrNeither(t *testing.T) {
	t.Parallel()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), "TRANSACTION=1", "DATABASE_URL="+pgtest.URL(t))
	program.Stderr = os.Stderr

	out, err := program.Output()

	require.NoError(t, err)
	const story = `
joined   1 members, 1 users, 1 events in Europe/London, Europe/London
refused  1 members, 1 users, 1 events in Europe/London, Europe/London
moved    1 members, 1 users, 1 events in Asia/Tokyo, Asia/Tokyo
left     0 members, 0 users, 0 events in -, -
`
	require.Equal(t, story, "\n"+string(out))
}

func TestAFailureOnEitherSideIsRolledBackOnBoth(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), schema)
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	c := club{pool, scheduler}
	ada := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}
	id, err := c.join(t.Context(), "ada@example.org", ada)
	require.NoError(t, err)
	unchanged := func() {
		t.Helper()
		var out strings.Builder
		require.NoError(t, report(t.Context(), &out, pool, "is"))
		require.Equal(t, "is       1 members, 1 users, 1 events in Europe/London, Europe/London\n", out.String())
		almanactest.FindEvents(t, store, almanac.And{almanac.ForUser(id), almanac.InZone{"Europe/London"}}, 1)
	}

	_, err = c.join(t.Context(), "ada@example.org", ada)
	var taken *pgconn.PgError
	require.ErrorAs(t, err, &taken, "the host's side refuses")
	unchanged()
	ada.Timezone = "Europe/Loondon"
	_, err = c.join(t.Context(), "grace@example.org", ada)
	require.ErrorIs(t, err, almanac.ErrInvalid, "ours does")
	unchanged()
	require.ErrorIs(t, c.move(t.Context(), id, "Europe/Loondon"), almanac.ErrInvalid, "after the host's side was changed")
	unchanged()
	require.ErrorIs(t, c.leave(t.Context(), uuid.New()), almanac.ErrNotFound)
	unchanged()
}
