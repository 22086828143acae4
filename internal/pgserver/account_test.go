//go:build unix && !solaris && !aix

package pgserver_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgserver"
)

func TestRun_returnsTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	gaveUp := errors.New("no test needs it any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	_, early := pgserver.Run(ctx, "/bin/sh", "-c", "exit 3")
	require.ErrorIs(t, early, gaveUp)

	// The program prints a line when it runs.
	ctx, late := context.WithCancelCause(t.Context())
	defer late(nil)
	pipe := filepath.Join(t.TempDir(), "begun")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	go func() { _, _ = os.ReadFile(pipe); late(gaveUp) }()
	out, err := pgserver.Run(ctx, "/bin/sh", "-c", "echo words; echo >"+pipe+"; sleep 600")
	require.ErrorIs(t, err, gaveUp)
	require.ErrorContains(t, err, "signal: killed")
	require.Equal(t, "words\n", string(out))
}

func TestRun_ignoresAContextThatHasNotEnded(t *testing.T) {
	t.Parallel()
	_, err := pgserver.Run(t.Context(), "/bin/sh", "-c", "exit 3")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.EqualError(t, err, "exit status 3")

	ctx, cancel := context.WithCancel(t.Context())
	out, err := pgserver.Run(ctx, "/bin/sh", "-c", "echo words")
	cancel()
	require.NoError(t, err)
	require.Equal(t, "words\n", string(out))
}
