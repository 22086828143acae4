//go:build unix && !solaris && !aix

package pgserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// programDir is the environment variable that makes the test binary start a server in the
// directory of its value ("temporary" for none) and wait to be killed.
const programDir = "PGSERVER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(programDir); ok {
		program(dir)
	}
	os.Exit(m.Run())
}

func program(dir string) {
	c := pgserver.Config{Dir: dir, Durable: true}
	if dir == "temporary" {
		c = pgserver.Config{}
	}
	s, err := pgserver.Start(context.Background(), c)
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println(s.URL())
	select {}
}

// run starts the program and returns it with the URL of its server.
func run(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), programDir+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	url, err := bufio.NewReader(io.LimitReader(out, 4096)).ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(url, "postgres://"), url)
	return cmd, strings.TrimSpace(url)
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // "signal: killed"
}

func TestServer_diesWithItsProgram(t *testing.T) {
	t.Parallel()
	cmd, url := run(t, "temporary")
	data := mustQuery(t, url, "SHOW data_directory")
	pid := pidOf(t, filepath.Dir(data))
	require.False(t, gone(pid))

	kill(t, cmd)

	require.Eventually(t, func() bool { return gone(pid) }, 10*time.Second, poll)
	require.Eventually(t, func() bool {
		_, err := os.Stat(data)
		return os.IsNotExist(err)
	}, 10*time.Second, poll, "the temporary directory goes too")
}

// poll is how often a real process is checked.
const poll = 20 * time.Millisecond

// The next program may start before the watchdog of the first has reacted. It must not join
// a server that is about to stop.
func TestServer_ofAKilledProgramIsNotJoined(t *testing.T) {
	t.Parallel()
	dir := directory(t)
	cmd, url := run(t, dir)
	mustQuery(t, url, "CREATE TABLE kept AS SELECT 42 AS n")

	group, err := syscall.Getpgid(pidOf(t, dir))
	require.NoError(t, err)
	freeze(t, -group)
	kill(t, cmd)
	s := start(t, pgserver.Config{Dir: dir, Durable: true})

	require.NotContains(t, s.Describe(), "of another program")
	require.Equal(t, "42", mustQuery(t, s.URL(), "SELECT n FROM kept"))
}

// freeze stops a process, or a group when the pid is negative, for long enough to be
// observed.
func freeze(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	thaw := time.AfterFunc(500*time.Millisecond, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	t.Cleanup(func() {
		if thaw.Stop() {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
}

// A killed server remains a process until its watchdog notices, and its file still says
// that it is ready.
func TestServer_recoversFromItsOwnDeath(t *testing.T) {
	t.Parallel()
	c := pgserver.Config{Dir: directory(t), Durable: true}
	first := start(t, c)
	mustQuery(t, first.URL(), "CREATE TABLE kept AS SELECT 42 AS n")
	pid := pidOf(t, c.Dir)

	watchdog, err := syscall.Getpgid(pid) // the watchdog leads the group
	require.NoError(t, err)
	freeze(t, watchdog)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return gone(pid) }, 10*time.Second, time.Millisecond)
	second := start(t, c)

	require.Equal(t, "42", mustQuery(t, second.URL(), "SELECT n FROM kept"))
	require.ErrorContains(t, first.Stop(t.Context()), "had ended by itself")
}

// A terminal sends its signals to its foreground process group.
func TestServer_isOutsideTheProcessGroup(t *testing.T) {
	t.Parallel()
	c := pgserver.Config{Dir: directory(t)}
	start(t, c)

	group, err := syscall.Getpgid(pidOf(t, c.Dir))

	require.NoError(t, err)
	require.NotEqual(t, syscall.Getpgrp(), group)
}

// A client with a running statement does not delay a stop.
func TestStop_disconnectsClients(t *testing.T) {
	t.Parallel()
	c := pgserver.Config{Dir: directory(t), Durable: true}
	s := start(t, c)
	answer := make(chan string, 1)
	go func() {
		out, _ := query(t, s.URL(), "SELECT pg_sleep(600)")
		answer <- out
	}()
	require.Eventually(t, func() bool {
		return mustQuery(t, s.URL(), "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'") == "1"
	}, 10*time.Second, 5*poll)

	began := time.Now()
	stop(t, s)

	require.Less(t, time.Since(began), 20*time.Second)
	require.Contains(t, <-answer, "terminating connection due to administrator command")
}
