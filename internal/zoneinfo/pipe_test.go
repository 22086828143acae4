//go:build unix

package zoneinfo_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/zoneinfo"
)

// TestPipes checks that pipes are not opened: opening a pipe waits for a writer.
func TestPipes(t *testing.T) {
	t.Parallel()
	dir := writeDir(t, "", map[string][]byte{"Zulu": march()})
	for _, name := range []string{"+VERSION", "version", "tzdata.zi", "Pipe"} {
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, name), 0o600))
	}
	s, err := zoneinfo.Open(dir)
	require.NoError(t, err)
	require.Empty(t, s.Version())
	_, err = s.Load("Pipe")
	require.EqualError(t, err, "zoneinfo: file Pipe in "+dir+": not a regular file")
	_, err = zoneinfo.Open(filepath.Join(dir, "Pipe"))
	require.ErrorContains(t, err, "neither a directory nor a zip file")
}
