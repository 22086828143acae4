package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// importUntil feeds the first users of a file to an import until some are stored;
// the rest is yet to come.
func importUntil(t *testing.T, url, text string, lines int, more ...string) *started {
	t.Helper()
	s := start(t, append([]string{"users", "import", "-", "--format", "csv", "--id-from", "email", "--database-url", url}, more...)...)
	end := 0
	for range lines {
		end += strings.IndexByte(text[end:], '\n') + 1
	}
	_, err := io.WriteString(s.in, text[:end])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return countUsers(t, url) > 0 }, time.Minute, 20*time.Millisecond)
	return s
}

// importReport is what an import says of itself, as JSON.
type importReport struct {
	Complete                bool
	Rows, Created, Existing int
	Changed, Unchanged      int
}

// crowdFile has so many users.
func crowdFile(n int) string {
	var b strings.Builder
	b.WriteString("email,firstName,lastName,dateOfBirth,timezone\n")
	for i := range n {
		fmt.Fprintf(&b, "ada%d@example.com,Ada,Lovelace,1990-12-10,Asia/Tokyo\n", i)
	}
	return b.String()
}

func TestAnImportThatWasKilledIsRunAgain(t *testing.T) {
	t.Parallel()
	const n = 3500
	url, text := pgtest.URL(t), crowdFile(n)

	killed := importUntil(t, url, text, 2500)
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())

	r := process(t, nil, "users", "import", fileOf(t, "people.csv", text), "--id-from", "email", "--database-url", url, "--json")
	require.Equal(t, exitOK, r.code, r.errs)
	var report importReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.Equal(t, n, report.Rows)
	require.Positive(t, report.Existing, "whom the first run has stored")
	require.Equal(t, n, report.Existing+report.Created)
	require.True(t, report.Complete)
	require.Equal(t, n, countUsers(t, url), "each of them once")
	require.Equal(t, n, countEvents(t, url), "each with one event")
}

// The users exist, and an import that changes all of them is killed or interrupted at any moment. The
// second one changes the rest. Each user has been changed once.
func TestAnUpdateThatWasKilledIsRunAgain(t *testing.T) {
	t.Parallel()
	const n = 6000
	url, text := pgtest.URL(t), crowdFile(n)
	args := []string{"users", "import", "--update", "--id-from", "email", "--database-url", url, "--json"}
	r := process(t, nil, append(args, fileOf(t, "people.csv", text))...)
	require.Equal(t, exitOK, r.code, r.errs)
	later := fileOf(t, "later.csv", strings.ReplaceAll(text, "Asia/Tokyo", "Europe/Paris"))
	const moved = "SELECT count(*) FROM almanac.users WHERE timezone = 'Europe/Paris'"
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		was := ask(t, url, moved)
		s := start(t, append(args, later)...)
		require.Eventually(t, func() bool { return ask(t, url, moved) > was }, time.Minute, 5*time.Millisecond)
		require.NoError(t, s.Process.Signal(signal))
		_ = s.Wait()
		if signal == syscall.SIGINT && s.ProcessState.ExitCode() == exitInterrupted {
			var report importReport
			require.NoError(t, json.Unmarshal(s.out.Bytes(), &report))
			require.False(t, report.Complete)
			require.Equal(t, ask(t, url, moved)-was, report.Changed)
		}
	}
	left := n - ask(t, url, moved)

	r = process(t, nil, append(args, later)...)

	require.Equal(t, exitOK, r.code, r.errs)
	var report importReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.Equal(t, importReport{Complete: true, Rows: n, Changed: left, Unchanged: n - left}, report)
	require.Equal(t, n, ask(t, url, "SELECT count(*) FROM almanac.users WHERE version = 2 AND timezone = 'Europe/Paris'"), "each was changed once")
	require.Equal(t, n, ask(t, url, "SELECT count(*) FROM almanac.events WHERE target_timezone = 'Europe/Paris'"))
}

func TestAnImportThatIsInterruptedSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"^C": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			s := importUntil(t, url, crowdFile(2000), 1500, "--json")
			require.NoError(t, s.Process.Signal(signal))
			require.Error(t, s.Wait())
			require.Equal(t, exitInterrupted, s.ProcessState.ExitCode(), s.errs.String())
			require.Equal(t, "almanac: interrupted\n", s.errs.String())
			var report importReport
			require.NoError(t, json.Unmarshal(s.out.Bytes(), &report))
			require.False(t, report.Complete)
			require.Equal(t, countUsers(t, url), report.Created)
		})
	}
}

func TestAnImportReadsStandardInputToItsEnd(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := start(t, "users", "import", "-", "--format", "csv", "--id-from", "email", "--database-url", url)
	_, err := io.WriteString(s.in, crowdFile(20)+"x\n")
	require.NoError(t, err)
	require.NoError(t, s.in.Close())
	require.Error(t, s.Wait())
	require.Equal(t, exitFailed, s.ProcessState.ExitCode())
	require.Equal(t, "stored 20 users with 20 events; 0 users there already; 1 row refused\n", s.out.String())
	require.Equal(t, "standard input:22: has 1 field, not 5\nalmanac: 1 row of 21 refused\n", s.errs.String())
	require.Equal(t, 20, countUsers(t, url))
}
