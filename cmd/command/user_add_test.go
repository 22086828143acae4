package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// ada are the flags that store her.
var ada = []string{"users", "add", "--id", adaID, "--first-name", "Ada", "--last-name", "Lovelace", "--date-of-birth", "1990-12-10", "--timezone", "Asia/Tokyo"}

func TestAUserIsAdded(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	r := almanacAt(t, today, append(ada, "--email", "ada@example.com", "--external-id", "member-17", "--locale", "en_gb", "--attributes", `{"hired": "2019-04-01"}`,
		"--anniversary", "hired", "--at", "08:00", "--database-url", url)...)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Empty(t, r.errs)
	require.Contains(t, r.out, "-12-10T08:00:00  Asia/Tokyo  BIRTHDAY ")
	require.Contains(t, r.out, "-04-01T08:00:00  Asia/Tokyo  ANNIVERSARY ")
	require.Equal(t, "stored user "+adaID+" with 2 events\n", lastLine(r))
	u, err := storeAt(t, url).User(t.Context(), uuid.MustParse(adaID))
	require.NoError(t, err)
	require.Equal(t, []string{"Ada", "Lovelace", "1990-12-10", "Asia/Tokyo", "en-GB", "ada@example.com", "member-17", `{"hired": "2019-04-01"}`},
		[]string{u.FirstName, u.LastName, u.DateOfBirth.String(), u.Timezone.String(), u.Locale, u.Email, u.ExternalID, string(u.Attributes)})

	again := almanacAt(t, today, append(ada, "--database-url", url)...)
	require.Equal(t, exitFailed, again.code)
	require.Contains(t, again.errs, "exists already")
	taken := almanacAt(t, today, "users", "add", "--optional-profile", "--timezone", "UTC", "--external-id", "member-17", "--database-url", url)
	require.Equal(t, result{exitFailed, "", "almanac: user " + adaID + ` has the external id "member-17"` + "\n"}, taken)

	r = almanacAt(t, today, "users", "add", "--optional-profile", "--timezone", "UTC", "--date-of-birth", "--03-15", "--json", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	var added struct {
		User   userReport
		Events []eventReport
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &added))
	require.Equal(t, "--03-15", added.User.DateOfBirth)
	require.Len(t, added.Events, 1)
	require.NotContains(t, r.out, "payload")
	r = almanacAt(t, today, "users", "add", "--optional-profile", "--timezone", "UTC", "--no-events", "--database-url", url)
	require.Equal(t, 1, strings.Count(r.out, "\n"))
	require.True(t, strings.HasSuffix(r.out, " with 0 events\n"), r.out)
}

func TestAUserIsAddedByTheHostsHandlers(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	host.Options = []almanac.Option{almanac.WithOptionalProfile()}
	r := runAs(t.Context(), host, "users", "add", "--timezone", "Asia/Tokyo", "--external-id", "17", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Contains(t, r.out, "RENEWAL")
	r = runAs(t.Context(), host, "users", "edit", "17", "--timezone", "America/New_York", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Empty(t, r.errs)
	require.Regexp(t, fmt.Sprintf(`(?m)^MOVED  .*-%02dT06:00:00  America/New_York  RENEWAL `, renewalDay), r.out)
	require.Regexp(t, `^changed user \S+, now version 2, with 1 changed event\n$`, lastLine(r))
}

func TestAUserWithoutAZoneGetsTheDefault(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	zone := func(args ...string) string {
		t.Helper()
		r := runAs(t.Context(), host, append(args, "--optional-profile", "--database-url", url)...)
		require.Equal(t, exitOK, r.code, r.errs)
		u, err := storeAt(t, url).UserByExternalID(t.Context(), "17")
		require.NoError(t, err)
		return u.Timezone.String() + " " + string(u.ZoneSource)
	}
	require.Equal(t, "Europe/Oslo default", zone("users", "add", "--external-id", "17", "--default-zone", "europe/oslo"))
	r := almanacAt(t, today, "users", "show", "17", "--database-url", url)
	require.Regexp(t, `(?m)^zone +Europe/Oslo, default$`, r.out)
	list := func(source string) result {
		return almanacAt(t, today, "users", "list", "--zone-source", source, "--database-url", url, "--csv")
	}
	require.Contains(t, list("default").out, "Europe/Oslo")
	require.NotContains(t, list("declared").out, "Europe/Oslo")
	checkMisuse(t, list("known"), `--zone-source: "known" is not one of declared, guessed, default`)

	host.Options = []almanac.Option{almanac.WithZoneGuess("", func(u almanac.User) string {
		return map[string]string{"de-AT": "Europe/Vienna"}[u.Locale]
	})}
	require.Equal(t, "Europe/Vienna guessed", zone("users", "edit", "17", "--locale", "de-AT"))
	require.Equal(t, "Asia/Tokyo declared", zone("users", "edit", "17", "--timezone", "Asia/Tokyo"))
	require.Equal(t, "Europe/Vienna guessed", zone("users", "edit", "17", "--timezone", ""))
	require.Equal(t, "Europe/Vienna guessed", zone("users", "edit", "17", "--timezone", "", "--default-zone", "UTC"))
	require.Equal(t, "UTC default", zone("users", "edit", "17", "--timezone", "", "--locale", "en", "--default-zone", "UTC"))
	checkMisuse(t, almanacAt(t, today, "users", "edit", "17", "--timezone", "", "--database-url", url), "--timezone: is empty")
	checkMisuse(t, almanacAt(t, today, "users", "edit", "17", "--timezone", "", "--default-zone", "PST", "--database-url", url),
		`--default-zone: "PST" is not a known time zone; did you mean "America/Los_Angeles"?`)
}

// A zone that the host has guessed, and that is no zone, is not taken for a missing flag.
func TestAGuessThatIsNoZoneIsNamed(t *testing.T) {
	t.Parallel()
	host := hostOf(t, renewals())
	for guess, want := range map[string]string{
		"Mars/Base": `--timezone: is not given, and the guessed zone "Mars/Base" is not a known time zone`,
		"":          "--timezone is required without --default-zone",
	} {
		host.Options = []almanac.Option{almanac.WithOptionalProfile(), almanac.WithZoneGuess("", func(almanac.User) string { return guess })}
		r := runAs(t.Context(), host, "users", "add", "--external-id", "17", "--database-url", "postgres://127.0.0.1:1/none")
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.errs, want)
	}
}

func TestAUserIsEdited(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	require.Equal(t, exitOK, almanacAt(t, today, append(ada, "--email", "ada@example.com", "--attributes", `{"team": "red", "level": 3}`, "--database-url", url)...).code)
	edit := func(args ...string) result {
		return almanacAt(t, today, append([]string{"users", "edit", "--database-url", url}, args...)...)
	}
	stored := func() almanac.User {
		u, err := storeAt(t, url).User(t.Context(), uuid.MustParse(adaID))
		require.NoError(t, err)
		return u
	}

	r := edit("ada@example.com", "--timezone", "America/New_York")
	require.Equal(t, result{exitOK, "changed user " + adaID + ", now version 2, with 0 changed events\n",
		"1 pending event kept as before, because this command has no handler of BIRTHDAY: a program that has it replans them by Reschedule\n"}, r)
	require.Equal(t, "America/New_York", stored().Timezone.String())
	require.Equal(t, "Lovelace", stored().LastName, "only the given flags change")

	r = edit(adaID, "--last-name", "King", "--merge", `{"team": null, "desk": 7}`, "--if-version", "2", "--birthday")
	require.Equal(t, exitOK, r.code, r.errs)
	require.Empty(t, r.errs)
	require.Regexp(t, `(?m)^MOVED  .*-12-10T09:00:00  America/New_York  BIRTHDAY `, r.out)
	require.JSONEq(t, `{"level": 3, "desk": 7}`, string(stored().Attributes))

	r = edit(adaID, "--last-name", "King", "--if-version", "2")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "almanac: user "+adaID+" is at version 3, not at 2\n", r.errs)
	require.Equal(t, 3, stored().Version)

	r = edit(adaID, "--email", "", "--json")
	require.Equal(t, exitOK, r.code, r.errs)
	var report struct {
		User      userReport
		Events    []changedEvent
		LeftAlone int
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.Empty(t, report.User.Email)
	require.Equal(t, 1, report.LeftAlone)
	checkMisuse(t, edit(adaID, "--first-name", ""), "--first-name: is empty")
	half := strings.Repeat("x", 40<<10)
	require.Equal(t, exitOK, edit(adaID, "--merge", `{"a": "`+half+`"}`).code)
	checkMisuse(t, edit(adaID, "--merge", `{"b": "`+half+`"}`), "--merge: attributes are longer than 65536 bytes as PostgreSQL writes them") // with what is stored
	require.Equal(t, exitOK, edit(adaID, "--first-name", "", "--optional-profile").code)
	require.Equal(t, "King", stored().Name())
}

func TestWhatIsInFlightStaysInAnEdit(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	first := subscribers(t, url, host, 1)[0]
	_, err := storeAt(t, url).Update(t.Context(), mustClaim(t, first), first.Version)
	require.NoError(t, err)
	r := runAs(t.Context(), host, "users", "edit", first.UserID.String(), "--timezone", "Asia/Kolkata", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Equal(t, "event "+first.ID.String()+" was claimed or requeued before, and stays as it is\n", r.errs)
}

func TestAUserIsDeleted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	c := stageAt(t, url)
	_, err := c.store.Update(t.Context(), mustClaim(t, c.is("overdue")), c.is("overdue").Version)
	require.NoError(t, err)
	remove := func(args ...string) result {
		return almanacAt(t, today, append([]string{"users", "delete", "--database-url", url}, args...)...)
	}
	hidden := "; hidden until the end of 1 event in flight\n"
	require.Equal(t, result{exitOK, "would delete user " + adaID + " with 0 pending events" + hidden, ""}, remove(adaID, "--dry-run"))
	require.Equal(t, 2, countUsers(t, url))
	stale := remove(adaID, "--dry-run", "--if-version", "9")
	require.Equal(t, exitFailed, stale.code)
	require.Equal(t, stale, remove(adaID, "--yes", "--if-version", "9"), "a dry run says what happens")
	require.Equal(t, result{exitOK, "would delete user " + graceID + " with 1 pending event\n", ""}, remove(graceID, "--dry-run"))
	require.Equal(t, result{exitOK, "deleted user " + graceID + " with 1 pending event\n", ""}, remove(graceID, "--yes", "--if-version", "1"))
	require.Equal(t, 1, countUsers(t, url))

	require.Equal(t, result{exitOK, "deleted user " + adaID + " with 0 pending events" + hidden, ""}, remove(adaID, "--yes"))
	require.Equal(t, 1, countUsers(t, url))
	require.Equal(t, result{exitFailed, "", "almanac: no user " + adaID + "\n"}, remove(adaID, "--yes"))
	r := remove(adaID, "--yes", "--erase-now", "--json")
	require.JSONEq(t, `{"id": "`+adaID+`", "dryRun": false, "eraseNow": true, "hidden": false, "removed": 0, "inFlight": ["`+c.ids["overdue"].String()+`"]}`, r.out, r.errs)
	require.Zero(t, countUsers(t, url))
	require.Zero(t, countEvents(t, url))
}

func mustClaim(t *testing.T, e almanac.Event) almanac.Event {
	t.Helper()
	claimed, err := e.Claim(uuid.New())
	require.NoError(t, err)
	return claimed
}

func TestOneOfSeveralUsersIsNotGuessed(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	everyone(t, url)
	runSQL(t, url, "UPDATE almanac.users SET email = 'one@example.com', folded_email = 'one@example.com'")
	for _, args := range [][]string{{"show"}, {"delete", "--yes"}, {"edit", "--locale", "de"}} {
		r := almanacAt(t, today, append([]string{"users", args[0], "one@example.com", "--database-url", url}, args[1:]...)...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.errs, "several users have this e-mail address, so give an id: "+personID(1).String()+", "+personID(2).String())
	}
	require.Equal(t, 5, countUsers(t, url))
	r := almanacAt(t, today, "users", "show", "two@example.com", "--database-url", url)
	require.Equal(t, result{exitFailed, "", "almanac: not found: no user with this external id or e-mail address\n"}, r)
	r = almanacAt(t, today, "users", "show", "member-18", "--database-url", url)
	require.Equal(t, result{exitFailed, "", "almanac: no user with this external id\n"}, r)
}

func TestAUserIsShown(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	c := stageAt(t, url)
	runSQL(t, url, `UPDATE almanac.users SET first_name = $1, email = 'ada@example.com', folded_email = 'ada@example.com', external_id = 'member-17', locale = 'en-GB', attributes = '{"team": "red"}',
		opt_outs = '[{"type": "OFFER"}, {"channel": "email"}]', created_at = '2026-03-01Z', updated_at = '2026-03-02Z' WHERE id = $2`, "A\x1b[2Jd\u202ea", adaID)
	ids := []uuid.UUID{c.ids["completed"], c.ids["failed"], c.ids["overdue"]}
	for _, width := range []int{0, 200, 80, 40} {
		r := onScreen(t, terminal{width, width > 0}, "users", "show", "member-17", "--database-url", url)
		require.Equal(t, exitOK, r.code, r.errs)
		require.Empty(t, r.errs)
		checkGolden(t, map[int]string{0: "user.txt", 200: "user-200.txt", 80: "user-80.txt", 40: "user-40.txt"}[width], r.out, ids...)
	}
	r := almanacAt(t, today, "users", "show", adaID, "-n", "1", "--database-url", url)
	require.Equal(t, "there are more: almanac events list --newest --user "+adaID+"\n", r.errs)
	require.Contains(t, r.out, c.ids["failed"].String(), "the newest of those that ended")
	require.NotContains(t, r.out, c.ids["completed"].String())

	r = almanacAt(t, today, "users", "show", "ADA@example.com", "--json", "--database-url", url)
	var details struct {
		Email, LocalTime, Offset string
		Open, Ended              []struct {
			ID   uuid.UUID
			Wall string
			Due  time.Time
		}
		OptOuts             []almanac.OptOut
		MoreOpen, MoreEnded bool
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &details), r.errs)
	require.Equal(t, "2026-03-07T12:00:00", details.LocalTime)
	require.Equal(t, "-05:00", details.Offset)
	require.Len(t, details.OptOuts, 2)
	require.Equal(t, c.ids["overdue"], details.Open[0].ID)
	require.Equal(t, "2022-03-15T09:00:00", details.Open[0].Wall)
	require.Equal(t, []uuid.UUID{c.ids["failed"], c.ids["completed"]}, []uuid.UUID{details.Ended[0].ID, details.Ended[1].ID})
	require.False(t, details.MoreOpen || details.MoreEnded)
	require.NotContains(t, r.out, "payload")

	runSQL(t, url, "UPDATE almanac.users SET opt_outs = '[]', attributes = '{}' WHERE id = $1", graceID)
	require.Contains(t, almanacAt(t, today, "users", "show", graceID, "--database-url", url).out, "\nno ended events\n")
}
