package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// The test binary runs the program itself on request, so that the tests cover a process
// with an exit code.
func TestMain(m *testing.M) {
	if os.Getenv("FANOUT") != "" {
		main()
		return
	}
	pgtest.Main(m)
}

func TestTheWorkersGreetEveryUserOnce(t *testing.T) {
	t.Parallel()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), "FANOUT=1", "DATABASE_URL="+pgtest.URL(t))
	program.Stderr = os.Stderr

	out, err := program.Output()

	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, users+1)
	seen := make(map[string]bool)
	for _, line := range lines[:users] {
		match := regexp.MustCompile(`^worker [12] \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d (\{"message": ?"Hey, Guest \d+ it's your birthday"\})$`).FindStringSubmatch(line)
		require.NotNil(t, match, line)
		require.False(t, seen[match[1]], "greeted twice: %s", line)
		seen[match[1]] = true
	}
	shares := regexp.MustCompile(`^worker 1 greeted (\d+), worker 2 greeted (\d+)$`).FindStringSubmatch(lines[users])
	require.NotNil(t, shares, lines[users])
	sum := 0 // the package almanacjetstream tests that neither worker does all of it
	for _, share := range shares[1:] {
		n, err := strconv.Atoi(share)
		require.NoError(t, err)
		sum += n
	}
	require.Equal(t, users, sum)
}

func TestEveryUserHasANextBirthday(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	var out strings.Builder
	require.NoError(t, run(t.Context(), pool.Config().ConnString(), &out))

	store, err := postgres.New(pool)
	require.NoError(t, err)
	for _, status := range []almanac.Status{almanac.Completed, almanac.Pending} {
		n, err := store.Count(t.Context(), almanac.InStatus(status))
		require.NoError(t, err)
		require.Equal(t, users, n, "%s", status)
	}
}
