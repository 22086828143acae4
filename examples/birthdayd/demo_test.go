package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	greeted = regexp.MustCompile(`(?m)^  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \S+ +Hey, .+ it's your birthday +\d+\.\d ms$`)
	apiURL  = regexp.MustCompile(`API +(http://\S+)`)
)

// Runs the demo twice on its own database. The second run uses the data of the first.
func TestTheDemoGreetsEveryUserAndKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := reachable(t)
	for round := 1; round <= 2; round++ {
		p := begin(t, "-demo", "-addr", "127.0.0.1:0", "-data-dir", dir)
		began := time.Now()
		require.Eventually(t, func() bool { return p.ended() || strings.Contains(p.out.String(), "Ctrl-C") }, 4*patience, pollEvery,
			"%s", p.log) // it creates a cluster, stores its users, and waits until they are due
		require.False(t, p.ended(), "it ended: %s", p.log)
		t.Logf("summary after %v", time.Since(began).Round(time.Millisecond))

		out := p.out.String()
		require.Contains(t, out, "data in "+dir)
		require.Len(t, greeted.FindAllString(out, -1), demoUsers, out)
		require.Contains(t, out, "300 of 300 users greeted")
		require.Contains(t, out, "0 early")
		require.Contains(t, out, "greeted twice 0; signatures refused 0")
		require.Contains(t, out, "300 events stored")
		t.Log(regexp.MustCompile(`late by .* ms .*`).FindString(out))

		p.url = apiURL.FindStringSubmatch(out)[1]
		status, page := p.send("GET", "/events?status=COMPLETED&limit=1000", "")
		require.Equal(t, http.StatusOK, status)
		require.Len(t, page["events"], round*demoUsers)
		require.Equal(t, exitOK, p.stop(), "%s", p.log)
	}
}

// reachable returns a directory that the server's account can enter. As root, that is
// another account than ours.
func reachable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	dir, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	return dir
}
