package command

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// is returns an event of the stage as it is stored.
func (c *stage) is(name string) almanac.Event {
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
	c := stageOf(t)
	overdue, pending, completed := c.ids["overdue"].String(), c.ids["pending"].String(), c.ids["completed"].String()

	r := c.run("cancel", overdue, completed, pending, "--end-series", "--reason", "the party is off", "--json")

	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "almanac: 1 event of 3 refused\n", r.errs)
	report := reportIn(t, r)
	require.Equal(t, ops.Cancel, report.Operation)
	require.Len(t, report.Events, 2)
	require.Equal(t, []unchanged{{c.ids["completed"], "event " + completed + ": invalid state transition from COMPLETED to CANCELLED"}}, report.Refused)
	for _, name := range []string{"overdue", "pending"} {
		require.Equal(t, almanac.Cancelled, c.is(name).Status)
		require.Equal(t, "the party is off", c.is(name).FailureReason)
	}
	require.Zero(t, report.Unplanned)
	require.Equal(t, 4, countEvents(t, c.url), "nothing follows")
	require.NotContains(t, r.out, "Lovelace")
}

// This program has no handler of the host's, so the host's program plans what follows,
// at its own time of day.
func TestTheNextEventAfterACancellationIsLeftToTheHost(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	r := almanacAt(t, today, "users", "import", fileOf(t, "people.csv", crowdFile(2)), "--id-from", "email", "--database-url", c.url)
	require.Equal(t, exitOK, r.code, r.errs)

	r = c.run("cancel", "--type", "BIRTHDAY", "--limit", "1", "--yes")

	require.Equal(t, exitOK, r.code, r.errs)
	require.Equal(t, "nothing is planned yet after 1 event: a running program with the handlers does it within seconds\n"+
		"there may be more: the limit of 1 is reached\n", r.errs)
	require.Contains(t, r.out, "  CANCELLED  ")
	require.True(t, strings.HasSuffix(r.out, "\ncancelled 1 event\n"), r.out)
	byStatus := func(s almanac.Status) []almanac.Event {
		found, err := c.store.Find(t.Context(), almanac.And{almanac.OfType("BIRTHDAY"), almanac.InStatus(s)}, almanac.Page{})
		require.NoError(t, err)
		return found.Items
	}
	require.Len(t, byStatus(almanac.Pending), 1, "nothing is planned here")
	cancelled := byStatus(almanac.Cancelled)[0]

	evening := almanac.Birthday{At: func(almanac.User) calendar.Clock { return calendar.Clock{Hour: 18, Minute: 30} }}
	registry, err := almanac.NewRegistry(evening)
	require.NoError(t, err)
	created := make(chan almanac.Event, 1)
	pool, err := pgxpool.New(t.Context(), c.url)
	require.NoError(t, err)
	defer pool.Close()
	store, err := postgres.New(pool)
	require.NoError(t, err)
	host, err := almanac.NewScheduler(store, registry, almanac.WithSweep(50*time.Millisecond),
		almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })),
		almanac.WithObserver(almanac.Hooks{Created: func(_ context.Context, e almanac.Event) { created <- e }}))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- host.Run(ctx) }()
	next := <-created
	stop()
	require.NoError(t, <-stopped)
	require.Equal(t, cancelled.UserID, next.UserID)
	require.Equal(t, cancelled.Wall.Date.Year+1, next.Wall.Date.Year)
	require.Equal(t, calendar.Clock{Hour: 18, Minute: 30}, next.Wall.Clock)
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	for verb, want := range map[string]struct {
		says string
		with []string
	}{
		"cancel":  {"would try to cancel 1 event\n", []string{"--overdue", "0s"}},
		"run-now": {"would try to make due 2 events\n", []string{"--due-from", "2020-01-01", "--due-until", "2100-01-01"}},
		"requeue": {"would try to requeue 1 event\n", []string{"--user", adaID, "--due-until", "2022-01-01"}},
	} {
		r := c.run(append([]string{verb, "--dry-run"}, want.with...)...)
		require.Equal(t, exitOK, r.code, r.errs)
		require.Empty(t, r.errs)
		require.True(t, strings.HasSuffix(r.out, "\n"+want.says), r.out)
	}
	r := c.run("cancel", "--type", "Z", "--dry-run")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "would try to cancel 0 events\n", r.out)
	require.Contains(t, r.errs, `the type "Z" is not known`)
	require.Equal(t, almanac.Pending, c.is("overdue").Status)
	require.Equal(t, 2099, c.is("pending").Due.Year())
	require.Equal(t, 4, countEvents(t, c.url))
}

func TestEventsAreMadeDue(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
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
	c := stageOf(t)

	r := c.run("requeue", "--type", "B", "--yes", "--json")

	require.Equal(t, exitOK, r.code, r.errs)
	again := reportIn(t, r).Events
	require.Len(t, again, 1)
	require.Equal(t, almanac.Pending, again[0].Status)
	require.Equal(t, c.is("failed").IdempotencyKey, again[0].IdempotencyKey)
	require.Equal(t, almanac.Failed, c.is("failed").Status, "what has ended never changes")
	require.Equal(t, "k", again[0].OccurrenceKey)
	require.Equal(t, c.ids["failed"], *again[0].OriginEvent)
	require.Equal(t, result{exitOK, "requeued 0 events\n", "left out 1 failed event: requeued before\n"}, c.run("requeue", "--type", "B", "--yes"))
	require.Equal(t, 1, reportIn(t, c.run("requeue", "--type", "B", "--dry-run", "--json")).RequeuedBefore)
	require.Contains(t, c.run("show", again[0].ID.String()).out, "\noccurrence  k\norigin      requeued\nof event    "+c.ids["failed"].String()+"\n")

	r = c.run("requeue", c.ids["failed"].String(), c.ids["overdue"].String())
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "refused "+c.ids["failed"].String()+": exists already: event "+c.ids["failed"].String()+" was requeued before, as event "+again[0].ID.String()+"\n")
	require.True(t, strings.HasSuffix(r.errs, "\nalmanac: 2 events of 2 refused\n"), r.errs)
	require.Equal(t, 5, countEvents(t, c.url))
}

func TestPausesHoldUntilResumed(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	run := func(args ...string) result {
		return almanacAt(t, today, append(args, "--database-url", c.url)...)
	}
	require.Equal(t, result{exitOK, "nothing is paused\n", ""}, run("pauses"))
	require.Equal(t, result{exitOK, "C is paused\n", ""}, run("pause", "C"))
	require.Equal(t, result{exitOK, "{\n  \"lane\": \"B\",\n  \"paused\": true\n}\n", ""}, run("pause", "B", "--json"))

	require.Regexp(t, `^LANE +SINCE +UNTIL +AUTHOR +REASON\nB +\S+Z +\S+ *\nC +\S+Z +\S+ *\n$`, run("pauses").out)
	var paused []pauseReport
	require.NoError(t, json.Unmarshal([]byte(run("pauses", "--json").out), &paused))
	require.Len(t, paused, 2)
	claim, err := c.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"C"}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Empty(t, claim.Events, "it is overdue, but paused")

	require.Regexp(t, `^C is paused, since \S+Z, until 2999-01-02T03:04:00Z\n$`, run("pause", "C", "--until", "2999-01-02T03:04", "--reason", "the receiver is down").out)
	require.Regexp(t, `(?m)^C +\S+Z +2999-01-02T03:04:00Z +\S+ +the receiver is down$`, run("pauses").out)
	require.Equal(t, exitUsage, run("pause", "C", "--until", "soon").code)
	require.Contains(t, run("pause", "C", "--until", "2001-01-02").errs, "until is 2001-01-02T00:00:00Z, which has passed")
	require.Regexp(t, `^C was paused since \S+Z; it is not paused any more\n$`, run("resume", "C").out)
	claim, err = c.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"C"}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)
	require.Regexp(t, `^LANE .*\nB .*\n$`, run("pauses").out)
	require.Equal(t, result{exitOK, "C was not paused\n", ""}, run("resume", "C"))
	require.Equal(t, result{exitOK, "{\n  \"lane\": \"C\",\n  \"paused\": false\n}\n", ""}, run("resume", "C", "--json"))
	require.Regexp(t, `"since": "\S+Z"`, run("resume", "B", "--json").out)
}

func TestPauseRefusesTypesThatNothingKnows(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	run := func(args ...string) result {
		return almanacAt(t, today, append(args, "--database-url", c.url)...)
	}
	claim, err := c.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"C"}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)

	r := run("pause", "c")
	require.Equal(t, exitFailed, r.code)
	require.Empty(t, r.out)
	require.Equal(t, `almanac: the type "c" is not known: no program has run with a handler of it, and no event of it is pending, in flight or among the last 10000 that ended; `+
		`known types are "A", "B", "C" (did you mean "C"?); --force pauses it nevertheless`+"\n", r.errs)
	require.Equal(t, "nothing is paused\n", run("pauses").out)

	for _, known := range []string{"A", "B", "C"} { // pending, ended and in flight
		require.Equal(t, result{exitOK, known + " is paused\n", ""}, run("pause", known))
	}
	require.Equal(t, result{exitOK, "c is paused\n", ""}, run("pause", "c", "--force"))
	require.Regexp(t, `^c is paused, since \S+Z\n$`, run("pause", "c").out)

	r = run("pause", strings.Repeat("x", 101), "--force")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "almanac: invalid input: lane has 101 bytes, not 1 to 100\n", r.errs)
}

func TestPauseKnowsTypesThatAnotherProgramPlans(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	require.Equal(t, exitOK, c.run("cancel", c.ids["overdue"].String()).code)
	runSQL(t, c.url, "DELETE FROM almanac.history")
	require.Equal(t, result{exitOK, "A is paused\n", ""}, almanacAt(t, today, "pause", "A", "--database-url", c.url), "pending")
	require.Equal(t, result{exitOK, "C is paused\n", ""}, almanacAt(t, today, "pause", "C", "--database-url", c.url), "left to another program")
	runSQL(t, c.url, "DELETE FROM almanac.unplanned; DELETE FROM almanac.lanes")
	require.Equal(t, exitFailed, almanacAt(t, today, "pause", "C", "--database-url", c.url).code)
}

func TestTheTrailIsKeptShownAndPruned(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
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
	require.Equal(t, result{exitOK, "no trail of event or user " + pending + "\n", ""}, run("audit", "show", pending))
	require.Equal(t, result{exitOK, "a trail is kept from now on in schema almanac\n", ""}, run("audit", "on"))
	require.Equal(t, exitFailed, c.run("cancel", pending, pending, "--end-series", "--reason", "a\nb").code)

	const step = `\S+Z version 2 cancelled by \S+ almanac for \S+: a b\n$`
	require.Regexp(t, step, run("audit", "show", pending).out)
	require.Regexp(t, `\ntrail +`+step, c.run("show", pending).out)
	var trail []trailStep
	require.NoError(t, json.Unmarshal([]byte(run("audit", "show", pending, "--json").out), &trail))
	require.Len(t, trail, 1)
	require.Equal(t, "cancelled", trail[0].Kind)
	require.NotEmpty(t, trail[0].Principal)

	require.Equal(t, result{exitOK, "deleted 0 rows of the trail\n", ""}, run("audit", "prune", "--before", "2020-01-01"))
	require.Equal(t, result{exitOK, "{\n  \"on\": false,\n  \"schema\": \"almanac\"\n}\n", ""}, run("audit", "off", "--json"))
	require.Equal(t, exitOK, c.run("cancel", "--type", "C", "--yes", "--end-series").code)
	require.Equal(t, result{exitOK, "[]\n", ""}, run("audit", "show", c.ids["overdue"].String(), "--json"))
	checkMisuse(t, run("audit", "prune", "--before", "2099-01-01"), "--before: 2099-01-01T00:00:00Z is in the future")
	require.NotContains(t, run("audit", "show", pending).out, "no trail", "a mistyped year deletes nothing")
	require.Equal(t, result{exitOK, "{\n  \"deleted\": 1\n}\n", ""}, run("audit", "prune", "--before", time.Now().UTC().Format(time.RFC3339Nano), "--json"))
	require.Equal(t, "no trail of event or user "+pending+"\n", run("audit", "show", pending).out)
}
