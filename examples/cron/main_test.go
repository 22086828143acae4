package main

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// The test binary runs the program itself on request.
func TestMain(m *testing.M) {
	if os.Getenv("CRON") != "" {
		main()
		return
	}
	pgtest.Main(m)
}

func TestCronGreetsDueUsersAndEnds(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	store, err := postgres.New(pool)
	require.NoError(t, err)
	for range 3 {
		u := almanactest.User()
		almanactest.Store(t, store, u, almanactest.Event(time.Now(), almanactest.For(u)))
	}
	run := func() string {
		program := exec.CommandContext(t.Context(), os.Args[0])
		program.Env = append(os.Environ(), "CRON=1", "DATABASE_URL="+url)
		program.Stderr = os.Stderr
		out, err := program.Output()
		require.NoError(t, err)
		return string(out)
	}

	require.Regexp(t, `(?s)"Hey".*\n3 greeted\n$`, run())
	require.Equal(t, "0 greeted\n", run())
	done, err := store.Count(t.Context(), almanac.InStatus(almanac.Completed))
	require.NoError(t, err)
	require.Equal(t, 3, done)
}
