package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestUsersOptOutAndIn(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	first := subscribers(t, url, host, 1)[0]
	id := first.UserID.String()

	r := runAs(t.Context(), host, "users", "opt-out", id, "--type", "RENEWAL", "--json", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.JSONEq(t, `{"id": "`+id+`", "optOuts": [{"type": "RENEWAL"}], "removed": 1, "cancelled": 0, "added": 0, "inFlight": 0}`, r.out)
	require.Zero(t, countEvents(t, url))
	r = runAs(t.Context(), host, "users", "opt-out", id, "--type", "OFFER", "--channel", "email", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Equal(t, id+" refuses OFFER by email\n"+id+" refuses RENEWAL\n0 events removed, 0 cancelled, 0 added; 0 stay as they are\n", r.out)
	r = runAs(t.Context(), host, "users", "opt-out", id, "--database-url", url)
	require.Contains(t, r.out, id+" refuses everything\n")
	r = runAs(t.Context(), host, "users", "opt-in", id, "--database-url", url)
	require.NotContains(t, r.out, "everything")
	r = runAs(t.Context(), host, "users", "opt-in", id, "--type", "RENEWAL", "--database-url", url)
	require.Contains(t, r.out, "0 events removed, 0 cancelled, 1 added; 0 stay as they are\n")
	r = runAs(t.Context(), host, "users", "opt-in", id, "--type", "OFFER", "--channel", "email", "--database-url", url)
	require.Contains(t, r.out, id+" refuses nothing\n")

	r = almanacAt(t, today, "users", "opt-out", id, "--type", "RENEWAL", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Contains(t, r.out, "0 events removed, 0 cancelled, 0 added; 0 stay as they are\n", "the stock command has no handlers")
	require.Equal(t, 1, countEvents(t, url))
	r = almanacAt(t, today, "users", "opt-out", adaID, "--database-url", url)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "no user "+adaID)
	r = almanacAt(t, today, "users", "opt-out", "ada", "--database-url", url)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "no user with this external id")
	require.NotContains(t, runAs(t.Context(), host, "users", "opt-out", "--help").out, "no handlers, so")
}

func TestUsersAreNamedByTheirExternalIDs(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	runSQL(t, c.url, "UPDATE almanac.users SET external_id = 'member-17', email = 'ada@example.com' WHERE id = $1", adaID)
	users := func(args ...string) result {
		return almanacAt(t, today, append(append([]string{"users"}, args...), "--database-url", c.url)...)
	}

	require.Contains(t, users("opt-out", "member-17", "--type", "OFFER").out, adaID+" refuses OFFER\n")
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
