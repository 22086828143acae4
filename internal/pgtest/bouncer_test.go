package pgtest_test

import (
	"bufio"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// bounced reports whether the tests of this process use a PgBouncer.
func bounced() bool { return os.Getenv(pgtest.BouncerVariable) != "" }

// sessions returns the number of sessions that the statements of one client use, when at
// least two are possible.
func sessions(t *testing.T, address string) int {
	t.Helper()
	client, other := connect(t, address), connect(t, address)
	seen := make(map[int]bool)
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = client.Exec(t.Context(), "SELECT 1") // needs a second session
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	for range 4 {
		var pid int
		require.NoError(t, client.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		seen[pid] = true
	}
	return len(seen)
}

func TestURL_goesThroughAPgBouncerThatIsAskedFor(t *testing.T) {
	t.Parallel()
	address := pgtest.EmptyURL(t)

	require.Equal(t, bounced(), sessions(t, address) > 1, "only a pooler moves a client between sessions")
	require.Equal(t, 1, sessions(t, pgtest.Direct(t, address)))
	require.Equal(t, name(t, address), name(t, pgtest.Direct(t, address)))
	if !bounced() {
		require.Equal(t, address, pgtest.Direct(t, address))
	}
}

func TestURL_takesAnyRoleOfTheServer(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	guest := role(t, u.String(), "")
	u.User = url.UserPassword(guest, secret)

	var as string
	require.NoError(t, connect(t, u.String()).QueryRow(t.Context(), "SELECT current_user").Scan(&as))

	require.Equal(t, guest, as)
}

// keepProgram makes the test binary keep a program, print its pid and directory, and wait
// to be killed.
func keepProgram() {
	dir, err := os.MkdirTemp("", "pgtest-kept-")
	if err == nil {
		_, _, err = pgtest.Keep(dir, []string{"/bin/sh", "-c", `echo $$ >"$0/pid"; exec sleep 600`, dir})
	}
	if err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString(dir + "\n")
	select {}
}

// pidIn returns the pid of the program that is kept in dir.
func pidIn(t *testing.T, dir string) int {
	t.Helper()
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	}, 10*time.Second, poll)
	return pid
}

// poll is how often a real process is checked.
const poll = 20 * time.Millisecond

// gone reports whether the process and the directory are gone.
func gone(pid int, dir string) func() bool {
	return func() bool {
		_, err := os.Stat(dir)
		return exec.Command("kill", "-0", strconv.Itoa(pid)).Run() != nil && os.IsNotExist(err)
	}
}

func TestPgBouncer_diesWithItsProgram(t *testing.T) {
	t.Parallel()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), sabotage+"=keep a program")
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	dir, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	dir = strings.TrimSpace(dir)
	pid := pidIn(t, dir)
	require.False(t, gone(pid, dir)())

	require.NoError(t, program.Process.Kill())
	_ = program.Wait() // "signal: killed"

	require.Eventually(t, gone(pid, dir), 10*time.Second, poll)
}

func TestPgBouncer_isKilledIfItDoesNotStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	require.NoError(t, os.Mkdir(dir, 0o700))
	stop, lastWords, err := pgtest.Keep(dir, []string{"/bin/sh", "-c",
		`trap '' TERM; echo said; echo $$ >"$0/pid"; while :; do sleep 1; done`, dir})
	require.NoError(t, err)
	pid := pidIn(t, dir)
	require.Equal(t, "\nsaid", lastWords())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	require.NoError(t, stop(ctx))

	require.True(t, gone(pid, dir)())
}
