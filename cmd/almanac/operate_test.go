package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// is returns an event of the calendar as it is stored.
func (c *calendar) is(name string) almanac.Event {
	c.t.Helper()
	e, err := c.store.Event(c.t.Context(), c.ids[name])
	require.NoError(c.t, err)
	return e
}

// reportIn reads what a command writes as JSON.
func reportIn(t *testing.T, r result) (report changeReport) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.out), &report), r.errs)
	return report
}

func TestEventsAreCancelled(t *testing.T) {
	t.Parallel()
	c := calendarOf(t)
	overdue, pending, completed := c.ids["overdue"].String(), c.ids["pending"].String(), c.ids["completed"].String()

	r := c.run("cancel", overdue)
	require.Equal(t, result{exitFailed, "cancelled 0 events\n",
		`refused ` + overdue + `: no handler for event type "C" in this program; --end-series cancels it without one` + "\nalmanac: 1 event of 1 refused\n"}, r)
	require.Equal(t, almanac.Pending, c.is("overdue").Status)

	r = c.run("cancel", overdue, completed, pending, "--end-series", "--reason", "the party is off", "--json")

	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "almanac: 1 event of 3 refused\n", r.errs)
	report := reportIn(t, r)
	require.Equal(t, almanac.OperationCancel, report.Operation)
	require.Len(t, report.Events, 2)
	require.Equal(t, []unchanged{{c.ids["completed"], "event " + completed + ": invalid state transition from COMPLETED to FAILED"}}, report.Refused)
	for _, name := range []string{"overdue", "pending"} {
		require.Equal(t, almanac.Failed, c.is(name).Status)
		require.Equal(t, "cancelled: the party is off", c.is(name).FailureReason)
	}
	require.Equal(t, 4, countEvents(t, c.url), "nothing follows")
	require.NotContains(t, r.out, "Lovelace")
}

// A series of which this program has the handler goes on.
func TestABirthdayIsCancelledAndTheNextIsPlanned(t *testing.T) {
	t.Parallel()
	c := calendarOf(t)
	r := almanacAt(t, today, "users", "import", fileOf(t, "people.csv", crowdFile(2)), "--id-from", "email", "--database-url", c.url)
	require.Equal(t, exitOK, r.code, r.errs)

	r = c.run("cancel", "--type", "BIRTHDAY", "--limit", "1", "--yes")

	require.Equal(t, exitOK, r.code, r.errs)
	require.Equal(t, "there may be more: the limit of 1 is reached\n", r.errs)
	require.Contains(t, r.out, "  FAILED  ")
	require.True(t, strings.HasSuffix(r.out, "\ncancelled 1 event\n"), r.out)
	found, err := c.store.Find(t.Context(), almanac.OfType("BIRTHDAY"), almanac.Page{})
	require.NoError(t, err)
	years := map[almanac.Status][]int{}
	for _, e := range found.Events {
		years[e.Status] = append(years[e.Status], e.Wall.Date.Year)
	}
	require.Len(t, years[almanac.Failed], 1)
	require.Contains(t, years[almanac.Pending], years[almanac.Failed][0]+1)
	require.Len(t, years[almanac.Pending], 2)
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	c := calendarOf(t)
	for verb, want := range map[string]struct {
		says string
		with []string
	}{
		"cancel":  {"would try to cancel 1 event\n", []string{"--overdue", "0s"}},
		"run-now": {"would try to make due 2 events\n", []string{"--due-from", "2020-01-01"}},
		"requeue": {"would try to requeue 1 event\n", []string{"--user", adaID, "--due-until", "2022-01-01"}},
	} {
		r := c.run(append([]string{verb, "--dry-run"}, want.with...)...)
		require.Equal(t, exitOK, r.code, r.errs)
		require.Empty(t, r.errs)
		require.True(t, strings.HasSuffix(r.out, "\n"+want.says), r.out)
	}
	require.Equal(t, result{exitOK, "would try to cancel 0 events\n", ""}, c.run("cancel", "--type", "Z", "--dry-run"))
	require.Equal(t, almanac.Pending, c.is("overdue").Status)
	require.Equal(t, 2099, c.is("pending").Due.Year())
	require.Equal(t, 4, countEvents(t, c.url))
}

func TestEventsAreMadeDue(t *testing.T) {
	t.Parallel()
	c := calendarOf(t)
	before, nobodys := time.Now().Add(-time.Minute), uuid.NewString()

	r := c.run("run-now", c.ids["pending"].String(), c.ids["overdue"].String(), nobodys)

	require.Equal(t, exitFailed, r.code)
	require.True(t, strings.HasSuffix(r.out, "\nmade due 2 events\n"), r.out)
	require.Contains(t, r.errs, "refused "+nobodys+": no event "+nobodys+"\n")
	require.WithinRange(t, c.is("pending").Due, before, time.Now().Add(time.Minute))
	require.Equal(t, 2022, c.is("overdue").Due.Year(), "it could be claimed anyway")
}

func TestEventsAreRequeuedOnce(t *testing.T) {
	t.Parallel()
	c := calendarOf(t)

	r := c.run("requeue", "--type", "B", "--yes", "--json")

	require.Equal(t, exitOK, r.code, r.errs)
	again := reportIn(t, r).Events
	require.Len(t, again, 1)
	require.Equal(t, almanac.Pending, again[0].Status)
	require.Equal(t, c.is("failed").IdempotencyKey, again[0].IdempotencyKey)
	require.Equal(t, almanac.Failed, c.is("failed").Status, "what has ended never changes")

	r = c.run("requeue", c.ids["failed"].String(), c.ids["overdue"].String())
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `^refused `+c.ids["failed"].String()+`: exists already: `, r.errs)
	require.True(t, strings.HasSuffix(r.errs, "\nalmanac: 2 events of 2 refused\n"), r.errs)
	require.Equal(t, 5, countEvents(t, c.url))
}

func TestPausesHoldUntilTheyAreTakenBack(t *testing.T) {
	t.Parallel()
	c := calendarOf(t)
	run := func(args ...string) result {
		return almanacAt(t, today, append(args, "--database-url", c.url)...)
	}
	require.Equal(t, result{exitOK, "nothing is paused\n", ""}, run("pauses"))
	require.Equal(t, result{exitOK, "C is paused\n", ""}, run("pause", "C"))
	require.Equal(t, result{exitOK, "{\n  \"paused\": true,\n  \"type\": \"B\"\n}\n", ""}, run("pause", "B", "--json"))

	require.Regexp(t, `^TYPE  SINCE\nB     \S+Z\nC     \S+Z\n$`, run("pauses").out)
	var paused []pauseReport
	require.NoError(t, json.Unmarshal([]byte(run("pauses", "--json").out), &paused))
	require.Len(t, paused, 2)
	claim, err := c.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"C"}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Empty(t, claim.Events, "it is overdue, but paused")

	require.Equal(t, result{exitOK, "C is not paused\n", ""}, run("resume", "C"))
	claim, err = c.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"C"}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)
	require.Regexp(t, `^TYPE  SINCE\nB `, run("pauses").out)
}

func TestTheTrailIsKeptShownAndPruned(t *testing.T) {
	t.Parallel()
	c := calendarOf(t)
	named, err := url.Parse(c.url)
	require.NoError(t, err)
	q := named.Query()
	q.Set("application_name", "greeter") // as the host's programs have it
	named.RawQuery = q.Encode()
	c.url = named.String()
	run := func(args ...string) result {
		return almanacAt(t, today, append(args, "--database-url", c.url)...)
	}
	pending := c.ids["pending"].String()
	require.NotContains(t, c.run("show", pending).out, "trail")
	require.Equal(t, result{exitOK, "no trail of event " + pending + "\n", ""}, run("audit", "show", pending))
	require.Equal(t, result{exitOK, "a trail is kept from now on in schema almanac\n", ""}, run("audit", "on"))
	require.Equal(t, exitFailed, c.run("cancel", pending, pending, "--end-series", "--reason", "a\nb").code)

	const step = `\S+Z version 3 cancelled by \S+ almanac: cancelled: a b\n$`
	require.Regexp(t, step, run("audit", "show", pending).out)
	require.Regexp(t, `\ntrail       `+step, c.run("show", pending).out)
	var trail []trailStep
	require.NoError(t, json.Unmarshal([]byte(run("audit", "show", pending, "--json").out), &trail))
	require.Len(t, trail, 1)
	require.Equal(t, "cancelled", trail[0].Kind)

	require.Equal(t, result{exitOK, "deleted 0 rows of the trail\n", ""}, run("audit", "prune", "--before", "2020-01-01"))
	require.Equal(t, result{exitOK, "{\n  \"on\": false,\n  \"schema\": \"almanac\"\n}\n", ""}, run("audit", "off", "--json"))
	require.Equal(t, exitOK, c.run("cancel", "--type", "C", "--yes", "--end-series").code)
	require.Equal(t, result{exitOK, "[]\n", ""}, run("audit", "show", c.ids["overdue"].String(), "--json"))
	require.Equal(t, result{exitOK, "{\n  \"deleted\": 1\n}\n", ""}, run("audit", "prune", "--before", "2099-01-01", "--json"))
	require.Equal(t, "no trail of event "+pending+"\n", run("audit", "show", pending).out)
}
