package command

import (
	"context"
	"encoding/json"
	"log/slog"
	"os/user"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// sendAll stores the events of broadcasts, as a program that runs a sender does.
func sendAll(t *testing.T, url string, host Host) {
	t.Helper()
	store := storeAt(t, url)
	scheduler, err := almanac.NewScheduler(store, host.Registry, almanac.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	sender, err := broadcast.New(scheduler, store)
	require.NoError(t, err)
	require.NoError(t, sender.RunOnce(t.Context(), broadcast.RunOptions{}))
}

func TestABroadcastThatHasEndedShowsWithdrawnEvents(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := progressReport{Withdrawn: 2, Due: 5, Total: broadcastZone{Users: 6, broadcastCounts: &broadcastCounts{Stored: 5, Delivered: 3, Read: true}}}
	require.NoError(t, r.write(&environment{out: &out}))
	require.Contains(t, out.String(), "5 events stored, 5 due; 3 delivered, 0 failed, 0 cancelled, 2 withdrawn; 0 opted out, 0 refused\n")
	r.Total.Read = false
	for state, want := range map[string]string{"storing": "6 users read, and more to read; ", "stopped": "6 users read, and more to read after a resume; "} {
		r.State = state
		require.NoError(t, r.write(&environment{out: &out}))
		require.Contains(t, out.String(), want)
	}
}

func TestABroadcastIsStartedShownStoppedAndResumed(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals(), almanac.OneOff{Type: "NEWS"})
	subscribers(t, url, host, 3)
	broadcasts := func(args ...string) result {
		return runAs(t.Context(), host, append([]string{"broadcasts"}, append(args, "--database-url", url)...)...)
	}
	ok := func(args ...string) string {
		r := broadcasts(args...)
		require.Equal(t, exitOK, r.code, r.errs)
		return r.out
	}
	require.Equal(t, "there are no broadcasts\n", ok("list"))
	sale := []string{"start", "sale", "--type", "NEWS", "--at", "2094-03-14T10:00", "--passed", "skip", "--payload", `{"price": 7}`}

	require.Regexp(t, `(?m)^would send to 3 users, including those who have opted out, first at 2094-03-1\S+, last at 2094-03-1\S+$`, ok(append(sale, "--dry-run")...))
	require.Equal(t, "there are no broadcasts\n", ok("list"), "a dry run stores nothing")
	require.Equal(t, "sale is storing\n", ok(append(sale, "--yes")...))
	require.Equal(t, "sale is storing, and was stored before\n", ok(append(sale, "--yes")...))
	for _, args := range [][]string{{"lane", "NEWS/sale", "--rate", "300"}, {"pause", "NEWS/sale"}, {"resume", "NEWS/sale"}} { // before its first event
		r := almanacAt(t, today, append(args, "--database-url", url)...)
		require.Equal(t, exitOK, r.code, r.errs)
		require.Empty(t, r.errs)
	}
	require.Equal(t, "sale is storing, and is stored already: a start would change nothing\n", ok(append(sale, "--dry-run")...))
	another := broadcasts(append(sale, "--dry-run", "--locale", "fr")...)
	require.Equal(t, exitFailed, another.code)
	require.Contains(t, another.errs, `"sale" exists, with another locale`)
	sendAll(t, url, host)
	require.Regexp(t, `(?m)^NAME +TYPE +STATE +WHEN +CREATED\nsale +NEWS +stored +2094-03-14T10:00:00 `, ok("list"))
	shown := ok("show", "sale")
	require.Regexp(t, `(?m)^sale: stored of type NEWS, at 2094-03-14T10:00:00, passed: skip$`, shown)
	require.Regexp(t, `(?m)^3 users read; 3 events stored, 0 due; 0 delivered, 0 failed, 0 cancelled; 0 opted out, 0 refused$`, shown)

	require.Equal(t, "sale is stopped\n", ok("stop", "sale", "--reason", "wrong price"))
	sendAll(t, url, host)
	var report struct {
		Total struct{ Cancelled int }
		Steps []struct{ Reason string }
	}
	require.NoError(t, json.Unmarshal([]byte(ok("show", "sale", "--json")), &report))
	require.Equal(t, 3, report.Total.Cancelled)
	require.Equal(t, "wrong price", report.Steps[1].Reason)
	cancelled, err := storeAt(t, url).Find(t.Context(), almanac.And{almanac.OfType("NEWS"), almanac.InStatus(almanac.Cancelled)}, almanac.Page{})
	require.NoError(t, err)
	require.Equal(t, "broadcast stopped: wrong price", cancelled.Items[0].FailureReason)
	require.Contains(t, ok("show", "sale"), "\n3 users read; 3 events stored, ", "another reading follows a resume only")
	r := broadcasts("resume", "sale")
	require.Equal(t, exitOK, r.code, r.errs)
	require.Contains(t, ok("show", "sale"), "\n3 users read, which is all of them, and another reading follows; 3 events stored, ")

	other := broadcasts("start", "sale", "--type", "NEWS", "--at", "2094-03-15T10:00", "--passed", "skip", "--yes")
	require.Equal(t, exitFailed, other.code)
	require.Contains(t, other.errs, `"sale" exists, with another payload, at`+"\n", "%s", other.errs)
	misspelt := almanacAt(t, today, "broadcasts", "start", "other", "--type", "NEW", "--at", "2094-03-15T10:00", "--passed", "skip", "--yes", "--database-url", url)
	require.Equal(t, exitFailed, misspelt.code)
	require.Contains(t, misspelt.errs, `known types are "NEWS", "RENEWAL" (did you mean "NEWS"?); --force sends it nevertheless`)
	missing := broadcasts("show", "other")
	require.Equal(t, result{exitFailed, "", "acme: there is no broadcast \"other\"\n"}, missing)
	require.Contains(t, broadcasts("stop", "other").errs, "there is no broadcast")
	checkMisuse(t, almanacAt(t, today, "broadcasts", "start", "a/b", "--type", "NEWS", "--at", "2094-03-14T10:00", "--passed", "later", "--yes", "--database-url", url),
		"<name>: has a slash", "--passed: is none of now, skip and next-day")
	checkMisuse(t, almanacAt(t, today, "broadcasts", "start", "sale", "--type", "NEWS", "--at", "x", "--instant", "y", "--passed", "now", "--payload", "{", "--database-url", url),
		`--at: "x" is not a wall time of the form YYYY-MM-DDTHH:MM or YYYY-MM-DDTHH:MM:SS`, `--instant: "y" is not an instant of RFC 3339 since 1900, such as 2026-03-15T14:00:00Z`, "--payload: is not JSON", "either --dry-run or --yes is required")
}

// The stock command has no handlers, and need not have them: other programs store the events.
func TestTheStockCommandStartsABroadcastToAList(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals(), almanac.OneOff{Type: "NEWS"})
	first := subscribers(t, url, host, 3)
	file := fileOf(t, "ids.txt", first[0].UserID.String()+"\n\n"+first[1].UserID.String()+"\nnobody\n")
	start := []string{"broadcasts", "start", "recall", "--type", "NEWS", "--at", "2094-03-14T10:00", "--passed", "now", "--users", file, "--yes", "--force", "--database-url", url}

	r := almanacAt(t, today, start...)

	require.Equal(t, result{exitOK, "recall is storing; 2 users in its list\n", "1 id of no user left out, such as nobody\n"}, r, "it has started")
	sendAll(t, url, host)
	n, err := storeAt(t, url).Count(t.Context(), almanac.OfType("NEWS"))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	again := almanacAt(t, today, start...)
	require.Equal(t, exitOK, again.code, again.errs)
	require.True(t, strings.HasSuffix(again.out, "and was stored before\n"), again.out)
}

func TestStepsNameWhoAsked(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, almanac.OneOff{Type: "NEWS"})
	subscribers(t, url, host, 1)
	command := func(ctx context.Context, args ...string) {
		r := runAs(ctx, host, append(args, "--database-url", url)...)
		require.Equal(t, exitOK, r.code, r.errs)
	}
	command(t.Context(), "broadcasts", "start", "sale", "--type", "NEWS", "--at", "2094-03-14T10:00", "--passed", "skip", "--yes")
	command(t.Context(), "broadcasts", "stop", "sale", "--as", "grace")
	command(almanac.WithPrincipal(t.Context(), "ada"), "broadcasts", "resume", "sale")
	command(almanac.WithPrincipal(t.Context(), "ada"), "broadcasts", "stop", "sale", "--as", "alan")
	is, err := storeAt(t, url).Broadcast(t.Context(), "sale")
	require.NoError(t, err)
	here, err := user.Current()
	require.NoError(t, err)
	var authors []string
	for _, step := range is.Steps {
		authors = append(authors, step.By)
	}
	require.Equal(t, []string{here.Username, "grace", "ada", "alan"}, authors)
}
