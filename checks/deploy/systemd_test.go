package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// setting returns the last value of a key of the unit.
func setting(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile("birthdayd.service")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, found, "birthdayd.service: no %s", key)
	return found[len(found)-1][1]
}

// systemd accepts every line of the unit. The program is named where the test has built it, since
// systemd looks for it.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("birthdayd.service")
	require.NoError(t, err)
	unit := filepath.Join(t.TempDir(), "birthdayd.service")
	named := strings.Replace(string(text), "/usr/local/bin/birthdayd", built(t).birthdayd, 1)
	require.NotEqual(t, string(text), named)
	require.NoError(t, os.WriteFile(unit, []byte(named), 0o600))
	// An unknown key is a warning and leaves the exit code at 0.
	said, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NotContains(t, string(said), "birthdayd.service")
}

// The exposure is at most 1.5 of 10, of which 1.0 is that birthdayd has a network.
func TestTheUnitIsHardened(t *testing.T) {
	t.Parallel()
	said, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=15", "birthdayd.service").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Equal(t, "yes", setting(t, "DynamicUser"))
	require.NotContains(t, []string{"", "root", "0"}, setting(t, "User"))
}

func TestTheUnitUsesSettingsThatExist(t *testing.T) {
	t.Parallel()
	command := strings.Fields(setting(t, "ExecStart"))
	require.Equal(t, "/usr/local/bin/birthdayd", command[0])
	text, err := os.ReadFile("birthdayd.env")
	require.NoError(t, err)
	require.Equal(t, "/etc/birthdayd.env", setting(t, "EnvironmentFile"))
	var variables []string
	for _, found := range regexp.MustCompile(`(?m)^(\w+)=`).FindAllStringSubmatch(string(text), -1) {
		variables = append(variables, found[1])
	}
	require.Greater(t, len(variables), 3)
	help(t).check(t, "birthdayd.service", command[1:], variables)
}

func TestTheUnitLetsBirthdaydStop(t *testing.T) {
	t.Parallel()
	limit, err := time.ParseDuration(setting(t, "TimeoutStopSec"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, limit, stopping(t))
}

func TestTheUnitDoesNotRestartWithBadSettings(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), built(t).birthdayd, "-workers", "none")
	require.Error(t, cmd.Run())
	require.Equal(t, setting(t, "RestartPreventExitStatus"), strings.TrimPrefix(cmd.ProcessState.String(), "exit status "))
}
