package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

var (
	greeted = regexp.MustCompile(`(?m)^  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \S+ +Hey, .+ it's your birthday.* +(\d+\.\d ms|\d+ s)$`)
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
		require.NotContains(t, p.out.String(), "of an earlier run")
		require.True(t, strings.HasSuffix(p.out.String(), "\nstopping: no greetings are left\n"), p.out)
	}
}

// The first run is interrupted when some users are greeted, and the next run greets the others.
func TestTheDemoSaysWhatAnInterruptedRunLeaves(t *testing.T) {
	t.Parallel()
	flags := []string{"-demo", "-addr", "127.0.0.1:0", "-database-url", pgtest.URL(t)}
	p := begin(t, flags...)
	require.Eventually(t, func() bool { return p.ended() || greeted.MatchString(p.out.String()) }, patience, pollEvery)
	require.Equal(t, exitOK, p.stop(), "%s", p.log)
	found := regexp.MustCompile(`\nstopping: (\d+) greetings are left; the next run delivers them\n$`).FindStringSubmatch(p.out.String())
	require.NotNil(t, found, p.out)
	left, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	require.Greater(t, left, 0)
	shown := len(greeted.FindAllString(p.out.String(), -1))
	require.LessOrEqual(t, shown+left, demoUsers) // fewer if it was interrupted while it stored users

	p = begin(t, flags...)
	require.Eventually(t, func() bool { return p.ended() || strings.Contains(p.out.String(), "Ctrl-C") }, 2*patience, pollEvery, "%s", p.log)
	out := p.out.String()
	require.Contains(t, out, "\n  "+found[1]+" greetings of an earlier run are delivered first.\n")
	require.Contains(t, out, "300 of 300 users greeted")
	require.Len(t, greeted.FindAllString(out, -1), demoUsers+left)
	p.url = apiURL.FindStringSubmatch(out)[1]
	_, page := p.send("GET", "/events?status=COMPLETED&limit=1000", "")
	require.Equal(t, shown+left+demoUsers, len(page["events"].([]any)))
	require.Equal(t, exitOK, p.stop(), "%s", p.log)
}

func TestTheDemoCountsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for left, want := range map[owed][2]string{
		{}:     {"", "\nstopping: no greetings are left\n"},
		{1, 0}: {"  1 greeting of an earlier run is delivered first.\n", "\nstopping: 1 greeting is left; the next run delivers it\n"},
		{0, 1}: {"  1 greeting of an earlier run follows when its lease has run out.\n", "\nstopping: 1 greeting is left; the next run delivers it\n"},
		{60, 2}: {"  60 greetings of an earlier run are delivered first.\n  2 greetings of an earlier run follow when their lease has run out.\n",
			"\nstopping: 62 greetings are left; the next run delivers them\n"},
	} {
		var before, after bytes.Buffer
		screen{out: &before}.earlier(left)
		screen{out: &after}.farewell(left)
		require.Equal(t, want, [2]string{before.String(), after.String()})
	}
}

func TestRowsOfTheDemoFitTheTerminal(t *testing.T) {
	t.Parallel()
	for _, zone := range zones() {
		for _, repeat := range []bool{false, true} {
			for _, width := range []int{75, 80, 100, 113, 114, 121, 200} {
				var out bytes.Buffer
				s := screen{out: &out, width: width}
				g := greeting{late: 12345 * time.Millisecond, arrival: arrival{message: "Hey, Yannis Papadopoulos it's your birthday", repeat: repeat}}
				g.event.Zone = zone
				g.event.Wall = calendar.WallTime{Date: calendar.Date{Year: 2026, Month: time.November, Day: 21}}
				s.greeting(g)
				s.title(stage{})
				for line := range strings.Lines(out.String()) {
					require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width, line)
				}
				require.Contains(t, out.String(), "  12 s")
				if width >= 121 || width >= 114 && !repeat {
					require.NotContains(t, out.String(), "…", "there is room")
				}
			}
		}
	}
	require.Equal(t, "…/Buenos_Aires", tail("America/Argentina/Buenos_Aires", 14))
	require.Equal(t, "Hey, Zoë…", head("Hey, Zoë O'Neil", 9))
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
