package command

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
)

// rounds are due each day.
func rounds(hour int) almanac.Recurring {
	return almanac.Recurring{Type: "NIGHTLY", Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Daily{At: calendar.Clock{Hour: hour}}, nil
	}}
}

func TestARehearsalIsComparedWithThatOfAnotherProgram(t *testing.T) {
	t.Parallel()
	url, dir := pgtest.URL(t), t.TempDir()
	subscribers(t, url, hostOf(t, rounds(9)), 3)
	file := func(name string) string { return filepath.Join(dir, name) }

	r := runAs(t.Context(), hostOf(t, rounds(9)), "rehearse", "--database-url", url, "--days", "5", "--save-users", file("users.gz"), "--save", file("before.json"),
		"--csv", file("counts.csv"), "--capacity", "1")
	require.Equal(t, exitOK, r.code, r.errs)
	require.Regexp(t, `^DAY +TYPE +EVENTS\n(\d{4}-\d\d-\d\d +NIGHTLY +3\n){5}\nLANE +EVENTS .*\n\(all\) +15 .* 1 +2s, from .*\nNIGHTLY +15 `, r.out)
	require.Regexp(t, `^3 users from .*: 15 delivered, 0 failed, 0 cancelled\n$`, r.errs)
	info, err := os.Stat(file("users.gz"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "only the owner may read the users")
	table, err := os.ReadFile(file("counts.csv"))
	require.NoError(t, err)
	require.Regexp(t, `^date,type,zone,channel,lane,events\n\d{4}-\d\d-\d\d,NIGHTLY,Asia/Tokyo,webhook,NIGHTLY,3\n`, string(table))

	// Without a database.
	again := func(hour int, args ...string) result {
		return runAs(t.Context(), hostOf(t, rounds(hour)), append([]string{"rehearse", "--days", "5", "--users", file("users.gz"), "--compare", file("before.json")}, args...)...)
	}
	require.Contains(t, again(9).out, "\nthe same events at the same times\n")
	require.Regexp(t, `\nNIGHTLY: 15 events before, 15 now\n(\S+ NIGHTLY: 3 before, 3 now \(other events or other times\)\n){4}$`, again(10).out, "the pending events stay")
	var report rehearsalReport
	r = again(10, "--roll-out", "--json")
	require.Equal(t, exitOK, r.code, r.errs)
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.NotEmpty(t, report.Difference.Days)
	require.Equal(t, 5*24*time.Hour, report.Until.Sub(report.From))

	r = runAs(t.Context(), hostOf(t, almanac.OneOff{Type: "NEWS"}), "rehearse", "--database-url", url)
	require.Contains(t, r.errs, "left out, because this command has no handler of the type: NIGHTLY\n")
	r = runAs(t.Context(), hostOf(t, rounds(9)), "rehearse", "--database-url", url, "--save-users", file("users.gz"))
	require.Equal(t, exitFailed, r.code, "no file is written over")
	r = runAs(t.Context(), hostOf(t, rounds(9)), "rehearse", "--days", "6", "--users", file("users.gz"), "--compare", file("before.json"))
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "before.json: ops: the rehearsals are not of the same copy and the same time, so they cannot be compared: one is of 3 users from ")
	require.Contains(t, r.out, "DAY ", "the result is shown")
	r = again(9, "--compare", file("counts.csv"))
	require.Equal(t, exitFailed, r.code)
}

func TestARehearsalOfARollOutSaysWhatBecomesOfTimesThatHavePassed(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, time.March, 26, 12, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	monthly := func(day int) almanac.Registry {
		registry, err := almanac.NewRegistry(almanac.Recurring{Type: "FEE", Rule: func(almanac.User) (calendar.Recurrence, error) {
			return calendar.Monthly{Day: day, At: calendar.Clock{Hour: 9}}, nil
		}})
		require.NoError(t, err)
		return registry
	}
	before, err := almanac.NewScheduler(repository, monthly(28))
	require.NoError(t, err)
	_, err = before.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"})
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "users.gz")
	require.NoError(t, writeFile(name, func(w io.Writer) error {
		_, err := ops.CopyUsers(t.Context(), repository, []string{"FEE"}, w, ops.CopyUsersOptions{})
		return err
	}))

	for passed, atOnce := range map[string]bool{"edit": false, "skip": false, "now": true, "60h": true, "2h": false} {
		r := runAs(t.Context(), Host{Registry: monthly(25)}, "rehearse", "--users", name, "--days", "40", "--roll-out", "--passed", passed)
		require.Equal(t, exitOK, r.code, r.errs)
		require.Contains(t, r.out, "2027-04-25  FEE   1\n", passed)
		require.Equal(t, atOnce, strings.Contains(r.out, "2027-03-26  FEE   1\n"), passed)
	}
}

// What a command leaves that was killed while it copied users is not taken for a copy, and the next command begins again.
func TestACopyHasItsNameWhenItIsComplete(t *testing.T) {
	t.Parallel()
	url, path := pgtest.URL(t), filepath.Join(t.TempDir(), "users.gz")
	subscribers(t, url, hostOf(t, rounds(9)), 3)
	killed := &rehearse{SaveUsers: path}
	part, err := killed.newCopy()
	require.NoError(t, err)
	require.NoError(t, part.Close())
	require.NoFileExists(t, path)
	r := runAs(t.Context(), hostOf(t, rounds(9)), "rehearse", "--days", "5", "--users", part.Name())
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "not a copy of users")

	r = runAs(t.Context(), hostOf(t, rounds(9)), "rehearse", "--database-url", url, "--days", "5", "--save-users", path)
	require.Equal(t, exitOK, r.code, r.errs)
	left, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{path, part.Name()}, left, "the command leaves the copy alone")
	part, err = killed.newCopy()
	require.ErrorIs(t, err, os.ErrExist)
	require.Nil(t, part)
	r = runAs(t.Context(), hostOf(t, rounds(9)), "rehearse", "--days", "5", "--users", path)
	require.Equal(t, exitOK, r.code, r.errs)

	unkept, err := new(rehearse).newCopy()
	require.NoError(t, err)
	t.Cleanup(func() { _ = unkept.Close() })
	if runtime.GOOS != "windows" {
		require.NoFileExists(t, unkept.Name(), "a killed command leaves nothing")
	}
}

func TestARehearsalNeedsHandlers(t *testing.T) {
	t.Parallel()
	stock := func(args ...string) result {
		return almanacAt(t, today, append([]string{"rehearse", "--database-url", "postgres://localhost/x"}, args...)...)
	}
	checkMisuse(t, stock(), "this command has no handlers: give --birthday or --anniversary, or use a command with your handlers")
	checkMisuse(t, stock("--birthday", "--days", "400", "--every", "0", "--capacity", "-1"), `--days: "400" is not a number from 1 to 366`, `--every: "0" is not a number from 1 to 1000000`, `--capacity: "-1" is not a number, or negative`)
	checkMisuse(t, stock("--birthday", "--passed", "now"), "--passed: goes with --roll-out only")
	checkMisuse(t, stock("--birthday", "--roll-out", "--passed", "soon"), `--passed: "soon" is none of edit, now and skip, and no duration such as 24h`)
	checkMisuse(t, stock("--birthday", "--users", "x", "--save-users", "y"), "--users goes with neither --save-users nor --every")
}
