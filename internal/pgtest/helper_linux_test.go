package pgtest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// goCommand is a process with the name "go" that starts test processes.
type goCommand struct {
	*exec.Cmd
	temporary string // for all files of the server and of its helper
	output    bytes.Buffer
}

// startGo starts a go command whose processes run the tests of this package that the flags select,
// or misbehave.
func startGo(t *testing.T, sabotaged string, flags ...string) *goCommand {
	t.Helper()
	name := filepath.Join(t.TempDir(), "go")
	require.NoError(t, os.Symlink(os.Args[0], name))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c := &goCommand{Cmd: exec.CommandContext(ctx, name, flags...), temporary: t.TempDir()}
	require.NoError(t, os.Chmod(filepath.Dir(c.temporary), 0o711)) // the server may have another account
	require.NoError(t, os.Chmod(c.temporary, 0o777))
	c.Env = append(os.Environ(), "TMPDIR="+c.temporary, sabotage+"="+sabotaged,
		pgtest.DatabaseVariable+"=", pgtest.PoolerVariable+"=", pgtest.ImageVariable+"=", "DOCKER_HOST=unix:///nowhere")
	c.Stdout, c.Stderr = &c.output, &c.output
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, c.Start())
	return c
}

// poll is how often a real process is checked.
const poll = 20 * time.Millisecond

// requireNoFiles requires that the server and the helper leave nothing.
func (c *goCommand) requireNoFiles(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(c.temporary)
		return err == nil && len(left) == 0
	}, 20*time.Second, poll)
}

func TestAHelperThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	c := startGo(t, "fail as the helper", "-test.run=^TestURL_isANewMigratedDatabase$")
	require.NoError(t, c.Wait())

	// A process that looks while the helper ends finds nothing.
	require.Equal(t, processes, strings.Count(c.output.String(), `pgtest: the helper said "`), c.output.String())
	require.Contains(t, c.output.String(), `pgtest: the helper said "no disk\n"`)
	c.requireNoFiles(t)
}
