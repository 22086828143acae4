package command

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// storedSince returns the members of the first opt-out of a report that say since when and by whom.
func storedSince(t *testing.T, report string) string {
	t.Helper()
	found := regexp.MustCompile(`"since": ?"[^"]+"`).FindString(report)
	require.NotEmpty(t, found, report)
	if author := regexp.MustCompile(`"author": ?"[^"]+"`).FindString(report); author != "" {
		found += ", " + author
	}
	return found
}

func TestUsersOptOutAndIn(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	first := subscribers(t, url, host, 1)[0]
	id := first.UserID.String()

	r := runAs(t.Context(), host, "users", "opt-out", id, "--type", "RENEWAL", "--json", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.JSONEq(t, `{"id": "`+id+`", "optOuts": [{"type": "RENEWAL", `+storedSince(t, r.out)+`}], "removed": 1, "moved": 0, "cancelled": 0, "added": 0, "inFlight": 0, "leftAlone": 0, "unplanned": false}`, r.out)
	require.Zero(t, countEvents(t, url))
	r = runAs(t.Context(), host, "users", "opt-out", id, "--type", "OFFER", "--channel", "email", "--force", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Equal(t, id+" refuses OFFER by email\n"+id+" refuses RENEWAL\n0 events removed, 0 moved, 0 cancelled, 0 added; 0 stay as they are\n", r.out)
	r = runAs(t.Context(), host, "users", "opt-out", id, "--database-url", url)
	require.Contains(t, r.out, id+" refuses everything\n")
	r = runAs(t.Context(), host, "users", "opt-in", id, "--database-url", url)
	require.NotContains(t, r.out, "everything")
	r = runAs(t.Context(), host, "users", "opt-in", id, "--type", "RENEWAL", "--database-url", url)
	require.Contains(t, r.out, "0 events removed, 0 moved, 0 cancelled, 1 added; 0 stay as they are\n")
	r = runAs(t.Context(), host, "users", "opt-in", id, "--type", "OFFER", "--channel", "email", "--database-url", url)
	require.Contains(t, r.out, id+" refuses nothing\n")

	r = runAs(t.Context(), host, "users", "opt-out", id, "--type", "RENEWAL", "--until", "2199-01-01", "--reason", "on leave", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Contains(t, r.out, id+" refuses RENEWAL until 2199-01-01\n")
	require.Regexp(t, `opted out of +RENEWAL until 2199-01-01, since \S+Z(, by \S+)?: on leave`, runAs(t.Context(), host, "users", "show", id, "--database-url", url).out)
	require.Contains(t, runAs(t.Context(), host, "users", "opt-out", id, "--until", "2199-02-29", "--database-url", url).errs, "--until")
	r = runAs(t.Context(), host, "users", "opt-in", id, "--type", "RENEWAL", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)

	r = almanacAt(t, today, "users", "opt-out", id, "--type", "RENEWAL", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Contains(t, r.out, "0 events removed, 0 moved, 0 cancelled, 0 added; 1 stays as it is\n", "the stock command has no handlers")
	require.Equal(t, "1 pending event of RENEWAL stays until it is due, because this command has no handler of RENEWAL: the program that delivers ends it as CANCELLED\n", r.errs)
	require.Equal(t, 1, countEvents(t, url))
	r = almanacAt(t, today, "users", "opt-out", adaID, "--database-url", url)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "no user "+adaID)
	r = almanacAt(t, today, "users", "opt-out", "ada", "--database-url", url)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "no user with this external id")
	require.NotContains(t, runAs(t.Context(), host, "users", "opt-out", "--help").out, "no handlers, so")
}

func TestAnOptInWithoutTheHandlerSaysWhichProgramPlans(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	first := subscribers(t, url, host, 1)[0]
	users := func(host Host, args ...string) result {
		return runAs(t.Context(), host, append([]string{"users", args[0], first.UserID.String(), "--database-url", url}, args[1:]...)...)
	}
	const plans = ": a program that has it plans the next event by Reschedule or Backfill, and a command with handlers by users reschedule\n"
	require.Equal(t, exitOK, users(host, "opt-out", "--type", "RENEWAL").code)

	r := users(Host{}, "opt-in", "--type", "RENEWAL")
	require.Equal(t, "nothing is planned, because this command has no handler of RENEWAL"+plans, r.errs)
	require.True(t, strings.HasSuffix(r.out, "\n0 events removed, 0 moved, 0 cancelled, 0 added; 0 stay as they are\n"), r.out)
	require.Zero(t, countEvents(t, url))

	r = users(Host{}, "opt-in", "--type", "RENEWAL")
	require.Equal(t, "the user had no opt-out of RENEWAL, so nothing is changed\n", r.errs)
	require.Equal(t, exitOK, users(Host{}, "opt-out").code)
	require.Equal(t, exitOK, users(Host{}, "opt-out", "--type", "RENEWAL", "--force").code)
	require.Empty(t, users(Host{}, "opt-in", "--type", "RENEWAL").errs, "the user refuses everything still")
	r = users(Host{}, "opt-in", "--json")
	require.Empty(t, r.errs)
	require.Contains(t, r.out, `"unplanned": true`)
	require.Equal(t, exitOK, users(Host{}, "opt-out").code)
	require.Equal(t, "nothing is planned, because this command has no handlers"+plans, users(Host{}, "opt-in").errs)
	require.Equal(t, exitOK, users(Host{}, "opt-out", "--channel", "mail").code)
	require.Empty(t, users(Host{}, "opt-in", "--channel", "mail").errs, "it kept nothing from being planned")

	require.Equal(t, exitOK, users(host, "opt-out").code)
	r = users(host, "opt-in")
	require.Contains(t, r.out, " 1 added;")
	require.Empty(t, r.errs)
	require.Equal(t, exitOK, users(Host{}, "opt-out").code)
	r = users(Host{}, "opt-in", "--type", "RENEWAL")
	require.Equal(t, "the user had no opt-out of RENEWAL, so nothing is changed\n", r.errs)
	r = users(Host{}, "opt-in", "--json")
	require.Contains(t, r.out, `"leftAlone": 1`, "the pending event has stayed")
}

// A change of opt-outs leaves the events of other types as they are, also if their handlers have changed.
func TestOptOutsOfAnotherTypeMoveNoEvent(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first := subscribers(t, url, hostOf(t, renewals()), 1)[0]
	later := renewals()
	later.Rule = func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Monthly{Day: renewalDay, At: calendar.Clock{Hour: 7}}, nil
	}
	r := runAs(t.Context(), hostOf(t, later), "users", "opt-out", first.UserID.String(), "--type", "OFFER", "--force", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Contains(t, r.out, "0 events removed, 0 moved, 0 cancelled, 0 added; 0 stay as they are\n")
	r = runAs(t.Context(), hostOf(t, renewals()), "users", "opt-in", first.UserID.String(), "--type", "OFFER", "--json", "--database-url", url)
	require.Contains(t, r.out, `"moved": 0`)
}

func TestAnOptOutOfATypeThatNothingKnowsIsRefused(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	users := func(args ...string) result {
		return almanacAt(t, today, append([]string{"users", args[0], adaID, "--database-url", c.url}, args[1:]...)...)
	}
	c.event(c.user, "OFFER", 2099, nil)

	r := users("opt-out", "--type", "OFER")
	require.Equal(t, result{exitFailed, "", `almanac: the type "OFER" is not known: no program has run with a handler of it, and no event of it is pending, in flight or among the last 10000 that ended; ` +
		`known types are "A", "B", "C", "OFFER" (did you mean "OFFER"?); --force stores the opt-out nevertheless` + "\n"}, r)
	require.Contains(t, users("opt-in", "--type", "A").out, "refuses nothing", "the opt-out was not stored")
	for _, known := range []string{"A", "B", "C", "OFFER"} {
		require.Equal(t, exitOK, users("opt-out", "--type", known).code)
	}
	require.Equal(t, exitOK, users("opt-out", "--type", "OFER", "--force").code)
	require.Equal(t, exitOK, users("opt-out", "--type", "OFER").code, "the user has it already")
	require.Equal(t, exitFailed, users("opt-out", "--type", "OFER", "--channel", "mail").code)
	require.Equal(t, exitFailed, runAs(t.Context(), hostOf(t, renewals()), "users", "opt-out", adaID, "--type", "RENEWALS", "--database-url", c.url).code)
	require.Equal(t, exitOK, runAs(t.Context(), hostOf(t, renewals()), "users", "opt-out", adaID, "--type", "RENEWAL", "--database-url", c.url).code, "there is a handler")
}

func TestHelpOfOptOutsIsThatOfTheCommand(t *testing.T) {
	t.Parallel()
	help := func(host Host, command string) string {
		return strings.Join(strings.Fields(runAs(t.Context(), host, "users", command, "--help").out), " ")
	}
	stock, own := Host{}, hostOf(t, renewals())
	require.Contains(t, help(stock, "opt-in"), "This command has no handlers, so it plans nothing.")
	require.Contains(t, help(own, "opt-in"), "is planned in the same transaction, by the handlers of this program.")
	require.NotContains(t, help(own, "opt-in"), "no handlers")
	require.Contains(t, help(stock, "opt-out"), "Known are the types of handlers that programs have run with")
	require.Contains(t, help(own, "opt-out"), "Known are the types of this program's handlers")
}

func TestUsersAreNamedByTheirExternalIDs(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	runSQL(t, c.url, "UPDATE almanac.users SET external_id = 'member-17', email = 'ada@example.com', folded_email = 'ada@example.com' WHERE id = $1", adaID)
	users := func(args ...string) result {
		return almanacAt(t, today, append(append([]string{"users"}, args...), "--database-url", c.url)...)
	}

	require.Contains(t, users("opt-out", "member-17", "--type", "OFFER", "--force").out, adaID+" refuses OFFER\n")
	require.Contains(t, users("opt-in", "ada@example.com", "--type", "OFFER").out, adaID+" refuses nothing\n")
	for _, user := range []string{adaID, "member-17", "ada@example.com"} {
		r := c.run("list", "--user", user, "--json")
		require.Equal(t, exitOK, r.code, r.errs)
		require.ElementsMatch(t, []string{"completed", "failed", "overdue"}, c.listed(r.out))
		r = c.run("cancel", "--user", user, "--dry-run")
		require.Equal(t, "would try to cancel 1 event\n", lastLine(r))
	}
	r := c.run("list", "--user", "member-18")
	require.Equal(t, result{exitFailed, "", "almanac: no user with this external id\n"}, r)
}

func TestARequeueOfWhatIsRefusedMustBeForced(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	r := almanacAt(t, today, "users", "opt-out", c.user.ID.String(), "--type", "B", "--database-url", c.url)
	require.Equal(t, exitOK, r.code, r.errs)

	r = c.run("requeue", "--type", "B", "--yes")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "refused "+c.ids["failed"].String()+": user has opted out")
	r = c.run("requeue", c.ids["failed"].String())
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "user has opted out")
	r = c.run("requeue", "--type", "B", "--yes", "--force", "--json")
	require.Equal(t, exitOK, r.code, r.errs)
	again, err := c.store.Event(t.Context(), reportIn(t, r).Events[0].ID)
	require.NoError(t, err)
	require.Equal(t, almanac.Origin{Kind: almanac.OriginRequeued, From: c.ids["failed"], Forced: true}, again.Origin)
}
