package command

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
)

func TestWhyExplainsADay(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	runSQL(t, c.url, "UPDATE almanac.users SET external_id = 'member-17' WHERE id = $1", adaID)
	host := hostOf(t, nightly(2), almanac.Recurring{Type: "NEVER", Rule: func(almanac.User) (calendar.Recurrence, error) { return nil, nil }})
	why := func(args ...string) result {
		return runAs(t.Context(), host, append([]string{"why", "member-17", "--database-url", c.url}, args...)...)
	}

	r := why("NIGHTLY", "2094-03-14")
	require.Equal(t, exitOK, r.code, r.errs)
	require.Contains(t, r.out, "not planned 2094: It belongs to 2094-03-14 03:30:00, but the series has no open event")
	require.Contains(t, r.out, "How its time was found: moved forward 60 min because clocks skip 02:00–03:00. Times are those of America/New_York.\n")
	require.NotContains(t, r.out, "next: ", "nothing plans it")
	require.Contains(t, why("NIGHTLY", "2096-03-14").out, "ended: ")
	runSQL(t, c.url, "INSERT INTO almanac.settings (name, value, program, since) VALUES ('handler FEE', '', 'another program', now())")
	require.Contains(t, why("FEE", "2096-03-14").out, "no handler: ", "another program has the handler")
	r = why("FEES", "2096-03-14")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, `(did you mean "FEE"?)`)

	r = why("NIGHTLY", "2094-03-15", "--json")
	var found map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.out), &found), r.out)
	require.Equal(t, "no_occurrence", found["answers"].([]any)[0].(map[string]any)["code"])
	require.Equal(t, adaID, found["userId"])

	r = runAs(t.Context(), Host{}, "why", "member-17", "BIRTHDAY", "2094-01-02", "--database-url", c.url, "--at", "10:00")
	require.Equal(t, exitOK, r.code, r.errs)
	require.Contains(t, r.out, "BIRTHDAY")

	r = why("", "2094-02-30")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errs, "<type>: is not an event type")
	require.Contains(t, r.errs, "<day>: ")
	r = runAs(t.Context(), host, "why", "stranger", "NIGHTLY", "2094-03-14", "--database-url", c.url)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "or the user was deleted: nothing is kept of a deleted user")
}

func TestWhySaysWhatIsNextInOneZone(t *testing.T) {
	t.Parallel()
	due := time.Date(2094, time.March, 14, 14, 0, 0, 0, time.UTC)
	next := ops.WhyNext{Due: due, Local: "2094-03-14T10:00:00", Zone: "America/New_York", Start: due.Add(5 * time.Minute)}
	require.Equal(t, "next: 2094-03-14T10:00:00 in America/New_York, expected to start at 2094-03-14T10:05:00 there\n", whyText(ops.WhyResult{Next: &next}))
}

func TestWhyNamesTheBroadcast(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals(), almanac.OneOff{Type: "NEWS"})
	subscribers(t, url, host, 1)
	command := func(args ...string) result {
		r := runAs(t.Context(), host, append(args, "--database-url", url)...)
		require.Equal(t, exitOK, r.code, r.errs)
		return r
	}
	command("broadcasts", "start", "sale", "--type", "NEWS", "--at", "2094-03-14T10:00", "--passed", "skip", "--yes")
	users, err := storeAt(t, url).FindUsers(t.Context(), almanac.UserFilter{}, almanac.Page{})
	require.NoError(t, err)
	user := users.Items[0].ID.String()
	require.Contains(t, command("why", user, "NEWS", "2094-03-14").out, "not stored sale: The broadcast sale is due at 2094-03-14 10:00:00")
	command("broadcasts", "stop", "sale", "--reason", "typo")
	require.Regexp(t, `stopped sale: The broadcast sale has stored no event for the user. It was stopped at .*: typo.`, command("why", user, "NEWS", "2094-03-14").out)
}
