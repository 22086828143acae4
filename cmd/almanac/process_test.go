package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// process runs the binary with the given environment.
func process(t *testing.T, env []string, args ...string) result {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append([]string{asProgram + "=1", "PATH=" + os.Getenv("PATH")}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		require.True(t, errors.As(err, new(*exec.ExitError)), "%v", err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func TestExitCodesOfTheProgram(t *testing.T) {
	t.Parallel()
	const unreachable = "DATABASE_URL=postgres://u:hunter2@127.0.0.1:1/x"
	tests := map[string]struct {
		env, args []string
		want      int
		out, errs string // how each begins
	}{
		"no arguments":             {nil, nil, exitUsage, "", "Usage: almanac <command>"},
		"help":                     {nil, []string{"--help"}, exitOK, "Usage: almanac <command>", ""},
		"when":                     {nil, []string{"when", "--zone", "Asia/Tokyo", "--rule", "monthly", "--on", "-1", "-n1"}, exitOK, "  WALL TIME ", ""},
		"a rule that is refused":   {nil, []string{"when", "--zone", "America/New_York", "--from", "2026-03-08", "--at", "02:30", "--gap=reject"}, exitFailed, "", "almanac: clocks in America/New_York show "},
		"a misspelt zone":          {nil, []string{"zone", "Asia/Tokio"}, exitUsage, "", `almanac: <name>: "Asia/Tokio" is not a known time zone; did you mean "Asia/Tokyo"?` + "\nTry \"almanac zone --help\".\n"},
		"a database by variable":   {[]string{unreachable}, []string{"zones", "reconcile"}, exitFailed, "", "almanac: failed to connect to `user=u database=x`"},
		"a variable that is empty": {[]string{"DATABASE_URL="}, []string{"zones", "reconcile"}, exitUsage, "", "almanac: --database-url or DATABASE_URL is required\nTry \"almanac zones reconcile --help\".\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := process(t, tt.env, tt.args...)
			require.Equal(t, tt.want, r.code, "%s%s", r.out, r.errs)
			require.True(t, strings.HasPrefix(r.out, tt.out) && (tt.out != "" || r.out == ""), r.out)
			require.True(t, strings.HasPrefix(r.errs, tt.errs) && (tt.errs != "" || r.errs == ""), r.errs)
		})
	}
}

func TestZoneUsesTheDatabaseOfTheEnvironment(t *testing.T) {
	t.Parallel()
	r := process(t, []string{"DATABASE_URL=postgres://u:hunter2@127.0.0.1:1/x"}, "zone", "UTC")
	require.Equal(t, exitOK, r.code, r.errs)
	require.Contains(t, r.out, "\ndatabase   cannot be asked: failed to connect")
	require.Contains(t, process(t, []string{"DATABASE_URL="}, "zone", "UTC").out, "\ndatabase   not asked;")
}

// The binary has zone files of its own, for machines that have none: hundreds, each
// of which begins with these letters.
func TestZoneDataIsEmbedded(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	binary, err := os.ReadFile(self)
	require.NoError(t, err)
	require.Greater(t, bytes.Count(binary, []byte("TZif2")), 300)
}
