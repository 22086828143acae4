package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
	"github.com/almanac-go/almanac/internal/jsonb"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// renewalDay is a day of the month that is neither near nor in the past while the tests run.
var renewalDay = min(28, begun.AddDate(0, 0, 14).Day())

// renewals are the handler of a type that is the host's own: once a month at six.
func renewals() almanac.Recurring {
	return almanac.Recurring{
		Type: "RENEWAL",
		Rule: func(almanac.User) (calendar.Recurrence, error) {
			return calendar.Monthly{Day: renewalDay, At: calendar.Clock{Hour: 6}}, nil
		},
	}
}

// hostOf returns a host that has handlers.
func hostOf(t *testing.T, handlers ...almanac.EventHandler) Host {
	t.Helper()
	registry, err := almanac.NewRegistry(handlers...)
	require.NoError(t, err)
	return Host{Name: "acme", Registry: registry}
}

// runAs runs a host's command through the one door that hosts have.
func runAs(ctx context.Context, host Host, args ...string) result {
	var out, errs bytes.Buffer
	host.Out, host.Err = &out, &errs
	code := Run(ctx, args, host)
	return result{code, out.String(), errs.String()}
}

// subscribers creates users with the events of the host's handlers.
func subscribers(t *testing.T, url string, host Host, n int) (first []almanac.Event) {
	t.Helper()
	scheduler, err := almanac.NewScheduler(storeAt(t, url), host.Registry)
	require.NoError(t, err)
	for range n {
		enrolled, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Asia/Tokyo"})
		require.NoError(t, err)
		first = append(first, enrolled.Events...)
	}
	return first
}

func TestAFieldThatAHandlerRefusesIsNamedAfterItsFlag(t *testing.T) {
	t.Parallel()
	contracts := renewals()
	contracts.Rule = func(u almanac.User) (calendar.Recurrence, error) {
		bad := []almanac.FieldError{{Field: "attributes.renews", Problem: "is not a date"}}
		if u.Locale == "de" {
			bad = append(bad, almanac.FieldError{Field: "contract", Problem: "is missing"})
		}
		return nil, &almanac.ValidationError{Fields: bad}
	}
	url, host := pgtest.URL(t), hostOf(t, contracts)
	add := func(more ...string) result {
		return runAs(t.Context(), host, append([]string{"users", "add", "--first-name", "Ada", "--last-name", "Lovelace", "--date-of-birth", "1990-12-10",
			"--timezone", "UTC", "--attributes", `{"renews": "soon"}`, "--database-url", url}, more...)...)
	}

	r := add()
	require.Equal(t, exitUsage, r.code, r.errs)
	require.True(t, strings.HasPrefix(r.errs, "acme: --attributes: renews is not a date\n"), r.errs)

	r = add("--locale", "de")
	require.True(t, strings.HasPrefix(r.errs, "acme: --attributes: renews is not a date\n      contract: is missing\n"), r.errs)
}

func TestAnAttributeThatAHandlerRefusesIsNamedAfterTheFlagThatGaveIt(t *testing.T) {
	t.Parallel()
	checkups := renewals()
	checkups.Rule = func(u almanac.User) (calendar.Recurrence, error) {
		if strings.Contains(string(u.Attributes), "soon") {
			return nil, &almanac.ValidationError{Fields: []almanac.FieldError{{Field: "attributes.lastCheckup", Problem: "is not a date"}}}
		}
		return renewals().Rule(u)
	}
	url, host := pgtest.URL(t), hostOf(t, checkups)
	id := subscribers(t, url, host, 1)[0].UserID.String()
	edit := func(args ...string) string {
		r := runAs(t.Context(), host, append([]string{"users", "edit", id, "--database-url", url}, args...)...)
		require.Equal(t, exitUsage, r.code, r.errs)
		return strings.TrimSuffix(r.errs, "Try \"acme users edit --help\".\n")
	}

	require.Equal(t, "acme: --merge: lastCheckup is not a date\n", edit("--merge", `{"lastCheckup": "soon"}`))
	require.Equal(t, "acme: --attributes: lastCheckup is not a date\n", edit("--attributes", `{"lastCheckup": "soon"}`))
	require.Equal(t, "acme: --merge: lastCheckup is not a date\n", edit("--attributes", `{}`, "--merge", `{"lastCheckup": "soon"}`))
	require.Equal(t, "acme: --attributes: lastCheckup is not a date\n", edit("--attributes", `{"lastCheckup": "soon"}`, "--merge", `{"team": "red"}`))
	require.Equal(t, "acme: --merge: is not a JSON object\n", edit("--merge", `{x:1}`))
	require.Equal(t, "acme: --merge: contains a member more than once\n", edit("--merge", `{"x": 1, "x": 2}`))
}

func TestCancelPlansTheSuccessorByTheHostsHandler(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	first := subscribers(t, url, host, 3)

	r := runAs(t.Context(), host, "events", "cancel", first[0].ID.String(), "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Empty(t, r.errs, "nothing waits for another program")
	r = runAs(t.Context(), host, "events", "cancel", "--type", "RENEWAL", "--user", first[1].UserID.String(), "--yes", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Empty(t, r.errs, "nothing waits for another program")
	r = runAs(t.Context(), host, "events", "cancel", first[2].ID.String(), "--end-series", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)

	found, err := storeAt(t, url).Find(t.Context(), almanac.InStatus(almanac.Pending), almanac.Page{})
	require.NoError(t, err)
	require.Len(t, found.Items, 2, "a successor of each, but none where the series has ended")
	for _, next := range found.Items {
		require.Equal(t, "RENEWAL", next.Type)
		require.Equal(t, first[0].Wall.Date.Month%12+1, next.Wall.Date.Month)
		require.Equal(t, calendar.Clock{Hour: 6}, next.Wall.Clock)
	}
}

// One event whose successor cannot be planned does not keep a command from the others.
func TestCancelGoesOnAfterASuccessorThatCannotBePlanned(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	first := subscribers(t, url, host, 2)
	broken := renewals()
	broken.Rule = func(u almanac.User) (calendar.Recurrence, error) {
		if u.ID == first[0].UserID {
			return nil, errors.New("no contract")
		}
		return renewals().Rule(u)
	}

	r := runAs(t.Context(), hostOf(t, broken), "events", "cancel", first[0].ID.String(), first[1].ID.String(), "--database-url", url)

	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "refused "+first[0].ID.String()+": the successor of event "+first[0].ID.String()+" cannot be planned: ")
	require.Contains(t, r.errs, "no contract\n")
	require.Contains(t, r.out, "cancelled 1 event\n")
}

// A host may have several programs, each with handlers of its own.
func TestCancelLeavesTheSuccessorOfOtherTypesToTheirProgram(t *testing.T) {
	t.Parallel()
	url, deliverer := pgtest.URL(t), hostOf(t, renewals())
	first := subscribers(t, url, deliverer, 1)
	r := runAs(t.Context(), hostOf(t, almanac.Birthday{}), "events", "cancel", first[0].ID.String(), "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	require.Equal(t, "nothing is planned yet after 1 event: a running program with the handlers does it within seconds\n", r.errs)
}

func TestPauseKnowsTheTypesOfTheHost(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	require.Equal(t, result{exitOK, "RENEWAL is paused\n", ""}, runAs(t.Context(), host, "pause", "RENEWAL", "--database-url", url))

	r := runAs(t.Context(), host, "pause", "RENEWALS", "--database-url", url)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, `acme: the type "RENEWALS" is not known`)
	r = runAs(t.Context(), hostOf(t, renewals(), almanac.Birthday{}), "pause", "RENEWALS", "--database-url", url)
	require.Contains(t, r.errs, `; known types are "BIRTHDAY", "RENEWAL" (did you mean "RENEWAL"?); --force pauses it nevertheless`)
	require.Equal(t, result{exitOK, "RENEWALS is paused\n", ""}, runAs(t.Context(), host, "pause", "RENEWALS", "--force", "--database-url", url))
}

// twoUsers are users as a file has them.
const twoUsers = "id,firstName,lastName,dateOfBirth,timezone\n" +
	"0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55,Ada,Lovelace,1990-12-10,Asia/Tokyo\n" +
	"0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a56,Grace,Hopper,1990-12-09,America/New_York\n"

func TestImportPlansByTheHostsHandlers(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals(), almanac.Birthday{})
	var mu sync.Mutex
	created := 0
	host.Options = []almanac.Option{almanac.WithObserver(almanac.Hooks{Created: func(context.Context, almanac.Event) {
		mu.Lock()
		defer mu.Unlock()
		created++
	}})}
	load := func(more ...string) result {
		host.In = strings.NewReader(twoUsers)
		return runAs(t.Context(), host, append([]string{"users", "import", "-", "--format", "csv"}, more...)...)
	}

	require.Equal(t, result{exitOK, "would store 2 users with 4 events; 0 rows refused\n", ""}, load("--dry-run"))
	require.Zero(t, created, "nothing is stored, so no observer is notified")
	require.Equal(t, result{exitOK, "stored 2 users with 4 events; 0 users there already; 0 rows refused\n", ""}, load("--database-url", url))
	require.Equal(t, 4, created)
	pending, err := storeAt(t, url).Find(t.Context(), almanac.OfType("RENEWAL"), almanac.Page{})
	require.NoError(t, err)
	require.Len(t, pending.Items, 2)

	require.Equal(t, result{exitOK, "stored 2 users with 0 events; 0 users there already; 0 rows refused\n", ""}, load("--no-events", "--database-url", pgtest.URL(t)))
}

func TestFlagsOfReadyMadeHandlersAreNotThoseOfAHost(t *testing.T) {
	t.Parallel()
	host := hostOf(t, renewals())
	for _, flag := range []string{"--no-birthday", "--anniversary=hired", "--at=09:00", "--gap=skip", "--fold=second", "--leap-day=mar1"} {
		for command, rest := range map[string][]string{
			"users import": {"people.csv", "--dry-run"}, "users add": nil, "users edit": {"member-17"},
			"users preview": {"member-17", "RENEWAL"}, "users reschedule": {"member-17"}, "backfill": {"RENEWAL"}, "roll-out": {"RENEWAL", "--yes"}, "rehearse": nil,
		} {
			r := runAs(t.Context(), host, slices.Concat(strings.Fields(command), rest, []string{flag})...)
			require.Equal(t, exitUsage, r.code, flag)
			require.Contains(t, r.errs, "acme: unknown flag --"+strings.TrimPrefix(strings.Split(flag, "=")[0], "--"))
			require.True(t, strings.HasSuffix(r.errs, "Try \"acme "+command+" --help\".\n"), r.errs)
		}
	}
	require.Equal(t, exitOK, runAs(t.Context(), host, "when", "--zone", "UTC", "--gap", "skip", "--at", "09:00").code, "that is another command")
}

func TestRequeueAndRunNowWorkAsTheHosts(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	first := subscribers(t, url, host, 1)
	host.Open = func(ctx context.Context) (*pgxpool.Pool, error) { return pgxpool.New(ctx, url) }
	r := runAs(t.Context(), host, "events", "cancel", first[0].ID.String())
	require.Equal(t, exitOK, r.code, r.errs)
	require.Equal(t, "requeued 1 event\n", lastLine(runAs(t.Context(), host, "events", "requeue", first[0].ID.String())))
	require.Equal(t, "made due 2 events\n", lastLine(runAs(t.Context(), host, "events", "run-now", "--type", "RENEWAL", "--due-until", "2100-01-01", "--yes")), "the successor, and what was requeued early")
}

// begun is when the tests began: an hour may end while they run.
var begun = time.Now()

// quietNow are quiet hours that every user has at present, for two hours at least.
func quietNow(u almanac.User) calendar.Window {
	if u.Timezone.IsZero() {
		return calendar.Window{}
	}
	now := u.Timezone.WallTime(begun)
	return calendartest.Quiet(fmt.Sprintf("%02d:00-%02d:00", (now.Clock.Hour+23)%24, (now.Clock.Hour+3)%24))
}

// Where the host has quiet hours, an event waits for their end, by id and in bulk, unless forced.
func TestRunNowKeepsTheHostsQuietHours(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	host.Options = []almanac.Option{almanac.WithWindow(quietNow)}
	host.Open = func(ctx context.Context) (*pgxpool.Pool, error) { return pgxpool.New(ctx, url) }
	for _, which := range []func(e almanac.Event) []string{
		func(e almanac.Event) []string { return []string{e.ID.String()} },
		func(e almanac.Event) []string {
			return []string{"--type", "RENEWAL", "--user", e.UserID.String(), "--due-until", "2100-01-01", "--yes"}
		},
	} {
		e := subscribers(t, url, host, 1)[0]
		due := func(with ...string) time.Duration {
			r := runAs(t.Context(), host, append(append([]string{"events", "run-now"}, which(e)...), with...)...)
			require.Equal(t, exitOK, r.code, r.errs)
			stored, err := storeAt(t, url).Event(t.Context(), e.ID)
			require.NoError(t, err)
			if len(with) == 0 {
				require.Equal(t, "the event waits until "+instantText(stored.Due)+" because of the user's quiet hours; --force delivers it now\n", r.errs)
			} else {
				require.Empty(t, r.errs)
			}
			return time.Until(stored.Due)
		}
		require.Greater(t, due(), time.Hour)
		require.Less(t, due("--force"), time.Minute)
	}
}

// The program that delivers postpones a late event to the end of the quiet hours, forced or not.
func TestRunNowSaysThatForceDoesNotDeliverLateEvents(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	host := hostOf(t, renewals())
	host.Options = []almanac.Option{almanac.WithWindow(quietNow)}
	c.ids["tried"] = c.event(c.user, "D", 2023, func(e almanac.Event) (almanac.Event, error) {
		return e.Release(almanac.AfterFailure, "503", time.Now().Add(24*time.Hour))
	})
	tried, overdue, ahead := c.ids["tried"].String(), c.ids["overdue"].String(), c.ids["pending"].String()
	run := func(args ...string) result {
		return runAs(t.Context(), host, append(append([]string{"events", "run-now"}, args...), "--database-url", c.url)...)
	}

	require.Regexp(t, `^the event waits until \S+Z because of the user's quiet hours, also with --force, because it is late already\n$`, run(tried).errs)
	require.Regexp(t, `(?m)^1 of the events waits until \S+Z because of the user's quiet hours; --force delivers it now\n`+
		`1 of the events waits until \S+Z because of the user's quiet hours, also with --force, because it is late already\n`+
		`1 of the events is late already: if the user has quiet hours now, it waits for their end, also with --force\n$`, run(tried, overdue, ahead).errs)

	require.Equal(t, "2 of the events are late already: they wait for the end of the quiet hours, if their users have any now, also with --force\n", run(tried, overdue, ahead, "--force").errs)
	const still = "the event is late already: if the user has quiet hours now, it waits for their end, also with --force\n"
	require.Equal(t, still, run(tried, "--force").errs)
	require.Equal(t, still, run(overdue, "--force").errs)
	r := run(overdue)
	require.Equal(t, "made due 1 event\n", lastLine(r))
	require.Empty(t, r.errs, "no quiet hours have moved it")
}

func TestHelpOfRunNowSaysWhatIsKnownOfQuietHours(t *testing.T) {
	t.Parallel()
	help := func(host Host) string {
		return strings.Join(strings.Fields(runAs(t.Context(), host, "events", "run-now", "--help").out), " ")
	}
	host := hostOf(t, renewals())
	require.Contains(t, help(host), "This command has no quiet hours.")
	host.Options = []almanac.Option{almanac.WithWindow(quietNow)}
	require.Contains(t, help(host), "becomes due at their end, unless --force is given. An event that is late already waits for the end of the quiet hours, also with --force.")
	require.NotContains(t, help(host), "has no quiet hours")
}

func lastLine(r result) string {
	lines := strings.SplitAfter(r.out, "\n")
	return lines[max(0, len(lines)-2)]
}

// Each way of the command to a database is a host's where the host opens it.
func TestAHostOpensItsDatabase(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	var opened []*pgxpool.Pool
	host := Host{Schema: "greetings", Open: func(ctx context.Context) (*pgxpool.Pool, error) {
		pool, err := pgxpool.New(ctx, url)
		opened = append(opened, pool)
		return pool, err
	}}
	for _, line := range []string{
		"migrate up", "migrate version", "doctor", "stats", "zones reconcile", "zone UTC", "events list", "events cancel --overdue 0s --yes",
		"backfill BIRTHDAY --birthday", "roll-out BIRTHDAY --birthday --yes", "rehearse --birthday", "pause X --force", "resume X", "pauses", "audit on", "audit off", "migrate down --lose-data",
	} {
		r := runAs(t.Context(), host, strings.Fields(line)...)
		if line != "doctor" { // which finds what it finds
			require.Equal(t, exitOK, r.code, "%s: %s", line, r.errs)
		}
		require.NotContains(t, r.out, "cannot be", line)
		require.Len(t, opened, 1, line)
		require.ErrorContains(t, opened[0].Ping(t.Context()), "closed pool", line)
		opened = nil
	}
	require.Equal(t, 1, ask(t, url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'greetings'"))
	require.Zero(t, ask(t, url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'almanac'"))
}

func TestAHostThatOpensItsDatabaseHasNoFlagForIt(t *testing.T) {
	t.Parallel()
	refused := errors.New("the vault is sealed")
	host := Host{Open: func(context.Context) (*pgxpool.Pool, error) { return nil, refused }}
	for _, line := range []string{"stats", "zone UTC", "users import x.csv"} {
		r := runAs(t.Context(), host, append(strings.Fields(line), "--database-url", "postgres://localhost/other")...)
		require.Equal(t, exitUsage, r.code, line)
		require.Contains(t, r.errs, "unknown flag --database-url", line)
	}
	for _, line := range []string{"stats --help", "--help"} {
		require.NotContains(t, runAs(t.Context(), host, strings.Fields(line)...).out, "DATABASE_URL")
	}
	for _, line := range []string{"stats", "events list"} {
		require.Equal(t, result{exitFailed, "", "almanac: the vault is sealed\n"}, runAs(t.Context(), host, strings.Fields(line)...))
	}
}

// A name is that of the stock command wherever a user reads it.
func TestEveryTextHasTheHostsName(t *testing.T) {
	t.Parallel()
	host := hostOf(t, renewals())
	host.Version = "1.2.3"
	stock := []string{"when", "zone", "zones reconcile", "migrate up", "migrate down", "migrate version", "migrate export", "doctor", "stats", "users import", "users list", "users find", "users show",
		"users add", "users edit", "users delete", "users opt-out", "users opt-in", "users preview", "users reschedule", "why", "backfill", "roll-out", "rehearse", "broadcasts start", "broadcasts list", "broadcasts show", "broadcasts stop", "broadcasts resume",
		"events list", "events show", "events cancel", "events run-now", "events requeue", "pause", "resume", "pauses", "lane", "lanes", "audit on", "audit off", "audit show", "audit prune", "completion", ""}
	for _, line := range stock {
		args := append(strings.Fields(line), "--help")
		own := runAs(t.Context(), host, args...).out
		require.True(t, strings.HasPrefix(own, "Usage: acme "), own)
		for word := range strings.FieldsSeq(own) {
			if strings.Contains(word, "almanac") {
				require.Regexp(t, `almanac_|db/almanac|\(default$|^almanac\)|lose_data`, word, "help of %q", line)
			}
		}
		if !slices.Contains(slices.Concat(plannedBy, []string{"broadcasts start", "events cancel", "pause", "lane", "users opt-out", "users opt-in"}), line) {
			text := runAs(t.Context(), Host{Name: "acme"}, args...).out
			require.Equal(t, text, own, "handlers change nothing in the help of %q", line)
		}
	}
	require.Regexp(t, `^acme 1\.2\.3 go\S+\n$`, runAs(t.Context(), host, "--version").out)
	require.Equal(t, "acme: --zone or --country is required\nTry \"acme when --help\".\n", runAs(t.Context(), host, "when").errs)
	require.Contains(t, strings.Join(strings.Fields(runAs(t.Context(), host, "events", "cancel", "--help").out), " "), "plans that event in the same transaction")
	for _, command := range plannedBy {
		own := runAs(t.Context(), host, append(strings.Fields(command), "--help")...).out
		require.NotContains(t, own, "ready-made")
		require.NotContains(t, own, "--birthday")
	}
}

func TestCompletionIsForTheHostsName(t *testing.T) {
	t.Parallel()
	host := Host{Name: "acme-events"}
	for shell, want := range map[string][]string{
		"bash": {"\ncomplete -o default -F _acme_events acme-events\n", "\n_acme_events_words() {", "\t_acme_events_at\n"},
		"zsh":  {"#compdef acme-events\n"},
		"fish": {"function __acme_events_at\n", "complete -c acme-events -n '__acme_events_at users' -f -a import"},
	} {
		r := runAs(t.Context(), host, "completion", shell)
		require.Equal(t, exitOK, r.code, r.errs)
		for _, part := range want {
			require.Contains(t, r.out, part)
		}
		require.NotContains(t, r.out, "_almanac")
	}
	r := runAs(t.Context(), Host{Name: "acme events"}, "completion", "bash")
	require.Equal(t, result{exitFailed, "", "acme events: \"acme events\" is not one word, and shells complete what follows one word\n"}, r)
}

// The name of the command is that of its sessions, for the trail.
func TestSessionsHaveTheHostsName(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	require.Equal(t, exitOK, runAs(t.Context(), host, "audit", "on", "--database-url", url).code)
	first := subscribers(t, url, host, 1)
	require.Equal(t, exitOK, runAs(t.Context(), host, "events", "cancel", first[0].ID.String(), "--database-url", url).code)
	conn, err := host.environment(today).connect(t.Context(), url) // as commands do that need one connection
	require.NoError(t, err)
	defer disconnect(t.Context(), conn)
	name := ""
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting('application_name')").Scan(&name))
	require.Equal(t, "acme", name)
	require.Regexp(t, ` cancelled by \S+ acme for \S+\n`, runAs(t.Context(), host, "audit", "show", first[0].ID.String(), "--database-url", url).out)
}

func TestTheTrailShowsThePrincipalOfTheHost(t *testing.T) {
	t.Parallel()
	url, host := pgtest.URL(t), hostOf(t, renewals())
	require.Equal(t, exitOK, runAs(t.Context(), host, "audit", "on", "--database-url", url).code)
	id := subscribers(t, url, host, 1)[0].ID.String()
	asked := almanac.WithPrincipal(t.Context(), "Grace\nHopper")
	require.Equal(t, exitOK, runAs(asked, host, "events", "cancel", id, "--reason", "moved", "--database-url", url).code)

	const step = ` cancelled by \S+ acme for Grace Hopper: moved\n`
	require.Regexp(t, step, runAs(t.Context(), host, "audit", "show", id, "--database-url", url).out)
	require.Regexp(t, step, runAs(t.Context(), host, "events", "show", id, "--database-url", url).out)
	require.Contains(t, runAs(t.Context(), host, "audit", "show", id, "--json", "--database-url", url).out, `"principal": "Grace\nHopper"`)
}

// Under the race detector this also shows that runs share nothing.
func TestConcurrentRunsAreIndependent(t *testing.T) {
	t.Parallel()
	stdout := os.Stdout
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			name := []string{"acme", "zenith"}[i%2]
			host := hostOf(t, renewals())
			host.Name, host.In = name, strings.NewReader(twoUsers)
			for _, line := range []string{"--help", "completion bash", "when --zone Asia/Tokyo", "users import - --format csv --dry-run", "nonsense"} {
				r := runAs(t.Context(), host, strings.Fields(line)...)
				if other := []string{"zenith", "acme"}[i%2]; strings.Contains(r.out+r.errs, other) {
					t.Errorf("%s %s speaks of %s", name, line, other)
				}
			}
		})
	}
	group.Wait()
	require.Same(t, stdout, os.Stdout)
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	never, writer := io.Pipe()
	defer writer.Close()
	host := hostOf(t, renewals())
	host.In = never
	time.AfterFunc(0, cancel)
	r := runAs(ctx, host, "users", "import", "-", "--format", "jsonl", "--dry-run")
	require.Equal(t, exitInterrupted, r.code)
	require.Equal(t, "acme: interrupted\n", r.errs)
}

// What the scheduler refuses is the host's mistake, and a message.
func TestOptionsOutOfRangeAreNamed(t *testing.T) {
	t.Parallel()
	host := hostOf(t, renewals())
	host.Options = []almanac.Option{almanac.WithWorkers(0)}
	r := runAs(t.Context(), host, "events", "cancel", uuid.NewString(), "--database-url", pgtest.URL(t))
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "acme: ")
	require.Contains(t, r.errs, "workers")
}

// Everything that names a subcommand in help is a subcommand.
func TestInvocationsAreSubcommands(t *testing.T) {
	t.Parallel()
	for _, name := range strings.Fields("when zone zones migrate doctor stats users events backfill broadcasts roll-out rehearse pause resume pauses lane lanes audit completion") {
		require.Equal(t, "`acme "+name+"`", Host{Name: "acme"}.environment(today).renamed("`almanac "+name+"`"))
	}
	require.Equal(t, "almanac_team and almanac, almanac eventful", Host{Name: "acme"}.environment(today).renamed("almanac_team and almanac, almanac eventful"))
}

func TestHalfCharactersAreFoundAsInTheLibrary(t *testing.T) {
	t.Parallel()
	pieces := []string{`\ud83d`, `\uDE00`, `\uD83D\ude00`, `\uDBFF\uDFFF`, `\uda00`, `\udc00`, `\ud7ff`, `\ue000`, `\\`, `\n`, `\u00e9`, `ud83d`, "x", "é", `\"`}
	var try func(text string, deep int)
	try = func(text string, deep int) {
		quoted := []byte(`"` + text + `"`)
		require.True(t, json.Valid(quoted))
		require.Equal(t, jsonb.HalfCharacter(quoted), halfCharacter(quoted), text)
		for _, p := range pieces {
			if deep > 0 {
				try(text+p, deep-1)
			}
		}
	}
	try("", 3)
}

// A command without quiet hours makes no event due in those of other programs, unless it is
// forced.
func TestRunNowIsRefusedWithoutTheQuietHoursOfOthers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	file := fileOf(t, "people.csv", "id,firstName,lastName,dateOfBirth,timezone\n"+adaID+",Ada,Lovelace,1990-12-10,Europe/London\n")
	r := almanacAt(t, time.Now(), "users", "import", file, "--birthday", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	runSQL(t, url, "INSERT INTO almanac.settings (name, value, program) VALUES ('quiet hours', 'outside Mo-Su 08:00-22:00', 'birthdayd v1')")
	args := []string{"events", "run-now", "--user", adaID, "--due-until", "9999-01-01", "--yes", "--database-url", url}

	r = almanacAt(t, time.Now(), args...)
	require.Equal(t, exitFailed, r.code, r.out)
	require.Contains(t, r.errs, "force is required, because this program does not have the quiet hours (outside Mo-Su 08:00-22:00) of birthdayd v1")
	d, _ := examined(t, "--database-url", url)
	require.Len(t, d.about("programs"), 1)
	require.Contains(t, d.about("programs")[0], "note: quiet hours: outside Mo-Su 08:00-22:00, stored by birthdayd v1 at ")
	r = almanacAt(t, time.Now(), append(args, "--force")...)
	require.Equal(t, exitOK, r.code, r.errs)
}
