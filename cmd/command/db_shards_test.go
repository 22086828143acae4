package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// twoServers starts two servers between which a schema can move, and returns their URLs. The old one has a schema with a user.
func twoServers(t *testing.T) (from, to string) {
	t.Helper()
	var urls [2]string
	var started sync.WaitGroup
	for i := range urls {
		started.Go(func() {
			server, err := pgserver.Start(t.Context(), pgserver.Config{MaxConnections: 50, Settings: map[string]string{"wal_level": "logical"}})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = server.Stop(context.Background()) })
			urls[i] = server.URL()
		})
	}
	started.Wait()
	require.False(t, t.Failed())
	succeeds(t, "migrate", "up", "--database-url", urls[0], "--schema", "almanac_07")
	succeeds(t, "users", "add", "--database-url", urls[0], "--schema", "almanac_07", "--first-name", "Ada", "--last-name", "Lovelace", "--date-of-birth", "1990-12-10", "--timezone", "UTC", "--email", "ada@example.com")
	return urls[0], urls[1]
}

// The page about moves shows commands that move a schema, and what they print.
func TestTheMoveOfTheDocumentsIsReal(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/moving.md")
	require.NoError(t, err)
	from, to := twoServers(t)
	published := filepath.Join(t.TempDir(), "published")
	real := strings.NewReplacer("postgres://admin@new/app", to, "postgres://mover@old/app", from, "./to-new", "touch "+published)
	shown := regexp.MustCompile("(?s)```sh\nalmanac ([^\n]+)\n```\n\n```text\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, shown, 2)
	duration := regexp.MustCompile(`[0-9.]+ms`)
	for _, s := range shown {
		var words []string
		for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(s[1], -1) {
			words = append(words, real.Replace(strings.Trim(word, `"`)))
		}
		r := almanacAt(t, today, append(words, "--database-url", from)...)
		require.Equal(t, exitOK, r.code, r.errs)
		require.Equal(t, duration.ReplaceAllString(s[2], "TIME"), duration.ReplaceAllString(r.errs+r.out, "TIME"))
	}
	require.FileExists(t, published)
	require.Contains(t, succeeds(t, "users", "find", "ada@example.com", "--database-url", to, "--schema", "almanac_07"), "Lovelace")
	require.Contains(t, almanacAt(t, today, "migrate", "up", "--database-url", from, "--schema", "almanac_07").errs, "the schema has moved to another server")
}

// What is missing is named. A move that fails says how to go on, and goes on, or is undone.
func TestAMoveThatFailsIsRepeatedOrAbandoned(t *testing.T) {
	t.Parallel()
	from, to := twoServers(t)
	runSQL(t, from, "CREATE ROLE reader; GRANT USAGE ON SCHEMA almanac_07 TO reader")
	move := func(flags ...string) result {
		return almanacAt(t, today, append([]string{"shards", "move", "almanac_07", "--database-url", from, "--to", to}, flags...)...)
	}
	abandon := func(flags ...string) result {
		return almanacAt(t, today, append([]string{"shards", "abandon", "almanac_07", "--database-url", from, "--to", to}, flags...)...)
	}
	r := move("--dry-run", "--json")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "almanac: shards: move almanac_07: the target lacks the roles reader, which have rights on the schema\n", r.errs)
	require.JSONEq(t, `{"schema": "almanac_07", "dryRun": true, "step": "prepare", "left": ["prepare", "copy", "close", "wake", "publish"], "tries": 0, "closedSeconds": 0,
		"error": "shards: move almanac_07: the target lacks the roles reader, which have rights on the schema"}`, r.out)
	runSQL(t, to, "CREATE ROLE reader")

	// The new server cannot reach the old one.
	r = move("--yes", "--publish", "true", "--source", "host=/nowhere dbname=postgres")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "\nprograms go on with the old server; run the command again, or undo the move by almanac shards abandon\n")
	require.Equal(t, result{exitOK, "abandoned the move of schema almanac_07: programs go on with the old server\n", ""}, abandon())

	r = move("--yes", "--publish", "echo gone >&2; exit 3")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "publish: give programs the new address, and end the replication\ngone\n")
	require.Contains(t, r.errs, "the new server takes writes: run the command again, so that programs get its address\nalmanac: shards: move almanac_07: publish: --publish: exit status 3\n")
	r = abandon()
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "the target takes writes")

	r = move("--yes", "--publish", "true", "--json")
	require.Equal(t, exitOK, r.code, r.errs)
	var report moveReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.Equal(t, moveReport{Schema: "almanac_07", Step: "done", Left: report.Left, Kept: "almanac_07_moved"}, report)
	require.Empty(t, report.Left)
	const done = "schema almanac_07 is on the new server; the old one keeps almanac_07_moved\n"
	require.Equal(t, result{exitOK, done, ""}, move("--dry-run"))
	require.Equal(t, result{exitOK, done, ""}, move("--yes", "--publish", "false"))
}

// A schema of another release does not move, because the new server would get tables of this one.
func TestASchemaOfAnotherReleaseDoesNotMove(t *testing.T) {
	t.Parallel()
	from, to := twoServers(t)
	runSQL(t, from, "INSERT INTO almanac_07.migrations (version, name) VALUES (999, '0999_future')")
	r := almanacAt(t, today, "shards", "move", "almanac_07", "--database-url", from, "--to", to, "--yes", "--publish", "true")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "schema almanac_07 is at version 999, of a newer release")
}

// A command that is interrupted leaves the schema where programs have it.
func TestAnInterruptedMoveLeavesTheOldSchemaInUse(t *testing.T) {
	t.Parallel()
	from, to := twoServers(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	errs := writerFunc(func(p []byte) (int, error) {
		if bytes.HasPrefix(p, []byte("copy:")) {
			interrupt()
		}
		return len(p), nil
	})
	code := run(ctx, []string{"shards", "move", "almanac_07", "--database-url", from, "--to", to, "--yes", "--publish", "true"}, Host{Out: &out, Err: errs}.environment(today))
	require.Equal(t, exitInterrupted, code)
	require.Contains(t, succeeds(t, "users", "find", "ada@example.com", "--database-url", from, "--schema", "almanac_07"), "Lovelace")
}

// writerFunc is a function that takes what is written.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestEveryBadArgumentOfMovesIsNamed(t *testing.T) {
	t.Parallel()
	const noDatabase = "--database-url or DATABASE_URL is required"
	tests := map[string]struct{ args, want []string }{
		"nothing":          {[]string{"move", "almanac_07"}, []string{"--to is required", noDatabase, "either --dry-run or --yes is required"}},
		"no address":       {[]string{"move", "almanac_07", "--to", "host=x", "--database-url", "host=y", "--yes"}, []string{"--publish is required with --yes"}},
		"wrong values":     {[]string{"move", "pg_x", "--to", "postgres://h:port/x", "--wait", "1ms", "--dry-run", "--yes"}, []string{`<schema>: postgres: "pg_x" is no name for a schema: use a-z, 0-9 and _, at most 63, not beginning with a digit or pg_`, "--to: cannot parse `postgres://h:port/x`: invalid port", noDatabase, "either --dry-run or --yes is required", `--wait: "1ms" is not a duration from 10ms to 1m`, "--publish is required with --yes"}},
		"a long name":      {[]string{"abandon", strings.Repeat("a", 51), "--to", "host=x"}, []string{"<schema>: has more than 50 bytes", noDatabase}},
		"abandon whereto?": {[]string{"abandon", "almanac_07"}, []string{"--to is required", noDatabase}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMisuse(t, almanacAt(t, today, append([]string{"shards"}, tt.args...)...), tt.want...)
		})
	}
}
