package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// runSQL runs SQL on a database, as its owner would by hand.
func runSQL(t *testing.T, url, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// newest is the version that this program knows.
func newest(t *testing.T) int {
	t.Helper()
	files, err := postgres.Export{Layout: postgres.Tern}.Files()
	require.NoError(t, err)
	return len(files)
}

func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	r := almanacAt(t, today, args...)
	require.Equal(t, exitOK, r.code, "%s%s", r.out, r.errs)
	require.Empty(t, r.errs)
	return r.out
}

func TestASchemaGoesUpAndDown(t *testing.T) {
	t.Parallel()
	url, last := pgtest.EmptyURL(t), newest(t)
	of := func(command string, flags ...string) string {
		return succeeds(t, append([]string{"migrate", command, "--database-url", url, "--schema", "greetings"}, flags...)...)
	}

	require.Equal(t, fmt.Sprintf("schema greetings was never migrated; this program is of version %d\n", last), of("version"))
	require.Equal(t, fmt.Sprintf("schema greetings went from version 0 to %d\n", last), of("up"))
	require.Equal(t, fmt.Sprintf("schema greetings is at version %d already\n", last), of("up"))
	require.Equal(t, fmt.Sprintf("schema greetings is at version %d, as this program\n", last), of("version"))
	require.JSONEq(t, fmt.Sprintf(`{"schema": "greetings", "before": %d, "after": %d, "known": %[1]d}`, last, last-1), of("down", "--json"))
	require.Equal(t, fmt.Sprintf("schema greetings was never migrated; this program is of version %d\n", last), of("version"), "down to the bottom")
	require.JSONEq(t, fmt.Sprintf(`{"schema": "greetings", "found": %d, "known": %d}`, last-1, last), of("version", "--json"))
	require.JSONEq(t, fmt.Sprintf(`{"schema": "greetings", "before": %d, "after": %d, "known": %[2]d}`, last-1, last), of("up", "--json"))

	runSQL(t, url, "INSERT INTO greetings.migrations (version, name) VALUES (999, '0999_future')")
	require.Equal(t, "schema greetings is at version 999, of a newer release: left as it is\n", of("up"))
	require.Equal(t, fmt.Sprintf("schema greetings is at version 999, of a newer release; this program is of version %d\n", last), of("version"))
}

func TestGoingDownIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	down := func(flags ...string) result {
		return almanacAt(t, today, append([]string{"migrate", "down", "--database-url", url}, flags...)...)
	}
	runSQL(t, url, `INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone)
		VALUES ('5f3b1c9e-0000-4000-8000-000000000001', 'Ada', 'Lovelace', '1990-12-10', 'UTC')`)

	r := down()
	require.Equal(t, result{exitFailed, "", `almanac: postgres: undoing migration 1 of schema "almanac" would lose for good what is in users; --lose-data does it all the same` + "\n"}, r)
	require.Equal(t, result{exitOK, "schema almanac went from version 1 to 0\n", ""}, down("--lose-data"))
	r = down("--lose-data")
	require.Equal(t, result{exitFailed, "", "almanac: postgres: take down schema almanac: there is no migration to undo: it is at version 0\n"}, r)
}

func TestAnExportedScriptMigrates(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	runSQL(t, url, succeeds(t, "migrate", "export", "--schema", "greetings"))
	require.Contains(t, succeeds(t, "migrate", "version", "--database-url", url, "--schema", "greetings"), ", as this program\n")

	succeeds(t, "migrate", "down", "--database-url", url, "--schema", "greetings")
	runSQL(t, url, succeeds(t, "migrate", "export", "--schema", "greetings", "--after", fmt.Sprint(newest(t)-1)))
	require.Contains(t, succeeds(t, "migrate", "version", "--database-url", url, "--schema", "greetings"), ", as this program\n")
}

func TestFilesAreExported(t *testing.T) {
	t.Parallel()
	for _, layout := range postgres.Layouts() {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "db", "almanac")
			want, err := postgres.Export{Layout: layout, Schema: "greetings"}.Files()
			require.NoError(t, err)
			export := []string{"migrate", "export", "--layout", string(layout), "--schema", "greetings"}
			into := append(export, "--dir", dir)

			var wrote, kept strings.Builder
			for _, f := range want {
				fmt.Fprintf(&wrote, "wrote %s\n", filepath.Join(dir, f.Name))
				fmt.Fprintf(&kept, "kept  %s\n", filepath.Join(dir, f.Name))
			}
			require.Equal(t, wrote.String(), succeeds(t, into...))
			require.Equal(t, kept.String(), succeeds(t, into...), "once more")
			for _, f := range want {
				text, err := os.ReadFile(filepath.Join(dir, f.Name))
				require.NoError(t, err)
				require.Equal(t, f.SQL, string(text))
			}
			require.Contains(t, succeeds(t, append(into, "--json")...), fmt.Sprintf("{\n      \"name\": %q,\n      \"written\": false\n    }", want[0].Name))
			require.Contains(t, succeeds(t, append(export, "--json")...), "BEGIN")
		})
	}
}

// Either everything is written or nothing.
func TestFilesThatDifferAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := []string{filepath.Join(dir, "000001_schema.down.sql"), filepath.Join(dir, "000001_schema.up.sql")}
	require.NoError(t, os.WriteFile(mine[1], []byte("mine"), 0o600))
	r := almanacAt(t, today, "migrate", "export", "--layout", "golang-migrate", "--dir", dir)
	require.Equal(t, result{exitFailed, "", "almanac: " + mine[1] + " is there and says something else\n"}, r)
	require.NoFileExists(t, mine[0])

	require.NoError(t, os.WriteFile(mine[0], []byte("mine"), 0o600))
	r = almanacAt(t, today, "migrate", "export", "--layout", "golang-migrate", "--dir", dir)
	require.Equal(t, result{exitFailed, "", "almanac: " + mine[0] + " is there and says something else\n         " + mine[1] + " is there and says something else\n"}, r)

	r = almanacAt(t, today, "migrate", "export", "--dir", filepath.Join(mine[0], "below"))
	require.Equal(t, exitFailed, r.code, "a file is no directory")
}

func TestAFailedExportLeavesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := writeFiles(dir, []postgres.File{{Name: "a.sql", SQL: "a"}, {Name: filepath.Join("none", "b.sql"), SQL: "b"}})
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "a.sql"))
}

func TestMigrateRefusesBadArguments(t *testing.T) {
	t.Parallel()
	const name = `--schema: postgres: "pg_x" is no name for a schema: use a-z, 0-9 and _, at most 63, not beginning with a digit or pg_`
	for _, command := range []string{"migrate up", "migrate down", "migrate version", "doctor", "stats"} {
		checkMisuse(t, almanacAt(t, today, append(strings.Fields(command), "--schema", "pg_x")...), "--database-url or DATABASE_URL is required", name)
	}
	tests := map[string]struct{ args, want []string }{
		"no such layout":       {[]string{"--layout", "flyway", "--schema", "pg_x", "--after", "x"}, []string{`--layout: "flyway" is not one of plain, goose, tern, golang-migrate`, `--after: "x" is not the number of a version`, name}},
		"nowhere to put files": {[]string{"--layout", "tern"}, []string{"--dir is required for tern"}},
		"after all":            {[]string{"--after", "999"}, []string{fmt.Sprintf("--after: postgres: there is no migration after 999: the last is %d", newest(t))}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMisuse(t, almanacAt(t, today, append([]string{"migrate", "export"}, tt.args...)...), tt.want...)
		})
	}
}

func TestMigratingFails(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"migrate up", "migrate down", "migrate version", "stats"} {
		r := almanacAt(t, today, append(strings.Fields(command), "--database-url", "postgres://u:hunter2@127.0.0.1:1/x")...)
		require.Equal(t, exitFailed, r.code)
		require.Empty(t, r.out)
		require.Regexp(t, "^almanac: failed to connect to ", r.errs)
		require.NotContains(t, r.errs, "hunter2")
	}
	url := pgtest.EmptyURL(t)
	runSQL(t, url, "CREATE SCHEMA almanac; CREATE TABLE almanac.users (mine text)")
	r := almanacAt(t, today, "migrate", "up", "--database-url", url)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, `0001_schema: ERROR: relation "users" already exists`)
}

// A URL of a program may have settings of its pool. Each command takes it.
func TestCommandsTakeTheSettingsOfPools(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	url += map[bool]string{true: "&", false: "?"}[strings.Contains(url, "?")] + "pool_max_conns=3"
	for _, args := range [][]string{
		{"migrate", "version"}, {"migrate", "up"}, {"stats"}, {"doctor"}, {"lanes"}, {"lane", "NEWS", "--rate", "3"}, {"pause", "NEWS", "--reason", "test", "--force"}, {"resume", "NEWS"},
		{"zones", "reconcile", "--dry-run"}, {"events", "list"},
	} {
		r := runAs(t.Context(), Host{}, append(args, "--database-url", url)...)
		require.NotContains(t, r.errs, "pool_max_conns", "%v", args)
	}
}
