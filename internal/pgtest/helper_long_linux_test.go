//go:build long

package pgtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server returns the process of the server once it is ready.
func (c *goCommand) server(t *testing.T) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		files, err := filepath.Glob(filepath.Join(c.temporary, "*", "data", "postmaster.pid"))
		if err != nil || len(files) != 1 {
			return false
		}
		text, err := os.ReadFile(files[0])
		first, _, _ := strings.Cut(string(text), "\n")
		pid, _ = strconv.Atoi(first)
		return err == nil && pid > 0 && strings.Contains(string(text), "ready")
	}, time.Minute, poll)
	return pid
}

// place finds the directory and the port of the server in the line that each process prints.
var place = regexp.MustCompile(`(?m)^pgtest: .*, data in (\S+), port \d+$`)

func TestProcessesOfAGoCommandShareAServer(t *testing.T) {
	t.Parallel()
	c := startGo(t, "", "-test.run=^TestURL_(isANewMigratedDatabase|usesOneTemplate)$")
	require.NoError(t, c.Wait())

	lines := place.FindAllString(c.output.String(), -1)
	require.Len(t, lines, processes, c.output.String())
	require.Len(t, slices.Compact(lines), 1, c.output.String())
	require.Equal(t, processes, strings.Count(c.output.String(), "PASS\n"), c.output.String())
	c.requireNoFiles(t)
}

func TestTheSharedServerEndsWithItsGoCommand(t *testing.T) {
	t.Parallel()
	ends := map[string]func(pid int) error{
		"killed":                    func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		"killed with its tests":     func(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) },
		"interrupted in a terminal": func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startGo(t, "", "-test.run=^TestURL_isANewMigratedDatabase$", "-test.failfast", "-test.count=1000")
			server := c.server(t)

			require.NoError(t, end(c.Process.Pid))
			require.Error(t, c.Wait())

			require.Eventually(t, func() bool { return syscall.Kill(server, 0) == syscall.ESRCH }, 20*time.Second, poll)
			c.requireNoFiles(t)
		})
	}
}
