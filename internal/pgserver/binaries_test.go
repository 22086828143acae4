package pgserver_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// install creates programs in root/name that print the version, and returns that directory.
func install(t *testing.T, root, name, version string) string {
	t.Helper()
	dir := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	// A process that another test starts meanwhile inherits the files open for writing
	// here. Until that process executes its program, these files cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + " (Debian " + version + "-1)'\n"
	for _, program := range []string{"postgres", "initdb"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755))
	}
	return dir
}

func TestFind_choosesOneInstallation(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		path      string            // the directory in PATH, if any
		installed map[string]string // directory: version
		want      string            // directory
	}{
		"the only one": {
			installed: map[string]string{"16/bin": "16.4"},
			want:      "16/bin",
		},
		"the newest by number, not by letter": {
			installed: map[string]string{"9/bin": "9.6.1", "15/bin": "15.18", "100/bin": "100.1"},
			want:      "100/bin",
		},
		"that in PATH before a newer one": {
			path:      "mine",
			installed: map[string]string{"mine": "14.2", "17/bin": "17.0"},
			want:      "mine",
		},
		"a newer one when that in PATH is too old": {
			path:      "mine",
			installed: map[string]string{"mine": "12.22", "17/bin": "17.0"},
			want:      "17/bin",
		},
		"a beta": {
			installed: map[string]string{"19/bin": "19beta1"},
			want:      "19/bin",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for dir, version := range tt.installed {
				install(t, root, dir, version)
			}

			b, err := pgserver.Search(filepath.Join(root, tt.path), []string{filepath.Join(root, "*", "bin")})

			require.NoError(t, err)
			require.Equal(t, filepath.Join(root, tt.want), b.Dir)
			require.Equal(t, tt.installed[tt.want], b.Version)
		})
	}
}

func TestFind_followsTheLinkInPATH(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	real := install(t, root, "opt/postgres", "15.18")
	links := filepath.Join(root, "bin")
	require.NoError(t, os.Mkdir(links, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(real, "postgres"), filepath.Join(links, "postgres")))

	b, err := pgserver.Search(links, nil)

	require.NoError(t, err)
	require.Equal(t, pgserver.Binaries{Dir: real, Version: "15.18", Major: 15}, b)
}

func TestFind_saysWhereItLookedAndWhatItRefused(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	old := install(t, root, "12/bin", "12.22")
	broken := install(t, root, "16/bin", "16.4")
	require.NoError(t, os.Remove(filepath.Join(broken, "initdb")))
	pattern := filepath.Join(root, "*", "bin")

	_, err := pgserver.Search("", []string{pattern})

	require.ErrorIs(t, err, pgserver.ErrNotFound)
	var missing *pgserver.NotFoundError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"PATH", pattern}, missing.Looked)
	require.ErrorContains(t, err, "PostgreSQL 12.22 in "+old+" is older than 13")
	require.ErrorContains(t, err, filepath.Join(broken, "initdb"))
}

func TestFind_neverRunsAProgramFromARelativePATH(t *testing.T) {
	t.Chdir(install(t, t.TempDir(), "here", "15.18"))

	_, err := pgserver.Search(".", nil)

	require.ErrorIs(t, err, pgserver.ErrNotFound)
}
