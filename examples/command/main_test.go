package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// The test binary runs the program itself when it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv("ACME") != "" {
		main()
		return
	}
	pgtest.Main(m)
}

func TestACancelledRenewalHasItsSuccessorAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	store, err := postgres.New(pool)
	require.NoError(t, err)
	acme := func(args ...string) string {
		program := exec.CommandContext(t.Context(), os.Args[0], args...)
		program.Env = append(os.Environ(), "ACME=1", "DATABASE_URL="+url)
		said, err := program.CombinedOutput()
		require.NoError(t, err, "%s", said)
		return string(said)
	}
	users := filepath.Join(t.TempDir(), "users.csv")
	require.NoError(t, os.WriteFile(users, []byte("email,firstName,lastName,dateOfBirth,timezone\nada@example.com,Ada,Lovelace,1990-12-10,Asia/Tokyo\n"), 0o600))
	require.Contains(t, acme("users", "import", users, "--id-from", "email"), " with 1 event; ")

	said := acme("events", "cancel", "--type", "RENEWAL", "--yes")

	require.Contains(t, said, "\ncancelled 1 event\n")
	require.NotContains(t, said, "nothing is planned yet")
	of := func(s almanac.Status) almanac.Event {
		found, err := store.Find(t.Context(), almanac.InStatus(s), almanac.Page{})
		require.NoError(t, err)
		require.Len(t, found.Items, 1)
		return found.Items[0]
	}
	cancelled, next := of(almanac.Cancelled), of(almanac.Pending)
	require.Equal(t, "RENEWAL", next.Type)
	require.Equal(t, cancelled.UserID, next.UserID)
	require.Equal(t, cancelled.Wall.Date.Month%12+1, next.Wall.Date.Month)
	require.Equal(t, calendar.Clock{Hour: 9}, next.Wall.Clock)
}
