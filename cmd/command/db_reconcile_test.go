package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// Beirut's rules in two releases: in the second, clocks stand at +02:30 from
// October on and at +03:00 from 31 March, 00:00, on.
const (
	beirut  = "Asia/Beirut"
	release = "<+02>-2"
	another = "<+0230>-2:30<+03>-3,J90/0,J300/0"
)

// roster is a database with users in Beirut.
type roster struct {
	t          *testing.T
	url        string
	store      *postgres.Store
	dirA, dirB string
}

// born stores a user for each date, who is greeted at 00:15 under the policies,
// and returns the roster when it follows release 2026a.
func born(t *testing.T, p calendar.Policies, dates ...string) *roster {
	t.Helper()
	r := &roster{t: t, url: pgtest.URL(t), dirA: zoneDir(t, "2026a", beirut, release), dirB: zoneDir(t, "2026b", beirut, another)}
	conn, err := pgx.Connect(t.Context(), r.url)
	require.NoError(t, err)
	t.Cleanup(func() { disconnect(t.Context(), conn) })
	r.store, err = postgres.New(conn)
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.Birthday{
		At:       func(almanac.User) calendar.Clock { return calendar.Clock{Minute: 15} },
		Policies: p,
	})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(r.store, registry)
	require.NoError(t, err)
	for _, date := range dates {
		_, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: date, Timezone: beirut})
		require.NoError(t, err)
	}
	r.reconcile("--zoneinfo", r.dirA)
	return r
}

// reconcile runs the command and returns what it prints.
func (r *roster) reconcile(args ...string) string {
	r.t.Helper()
	got := almanacAt(r.t, today, append([]string{"zones", "reconcile", "--database-url", r.url}, args...)...)
	require.Equal(r.t, exitOK, got.code, got.errs)
	require.Empty(r.t, got.errs)
	return got.out
}

// offsets returns, by day of the year, how far east of UTC the stored instants hold
// clocks to stand at the stored wall times.
func (r *roster) offsets() map[string]string {
	r.t.Helper()
	found, err := r.store.Find(r.t.Context(), almanac.InStatus(almanac.Pending), almanac.Page{Limit: 10})
	require.NoError(r.t, err)
	offsets := map[string]string{}
	for _, e := range found.Items {
		require.Equal(r.t, calendar.Clock{Minute: 15}, e.Wall.Clock)
		offsets[e.Wall.Date.String()[len("2026-"):]] = offsetText(e.Wall.Labelled().Sub(e.Due))
	}
	return offsets
}

func TestNewerRulesMoveEventsOnce(t *testing.T) {
	t.Parallel()
	r := born(t, calendar.Policies{}, "1992-01-15", "1992-07-15")
	before, after := map[string]string{"01-15": "+02:00", "07-15": "+02:00"}, map[string]string{"01-15": "+02:30", "07-15": "+03:00"}
	require.Equal(t, before, r.offsets(), "they follow 2026a")

	would := r.reconcile("--zoneinfo", r.dirB, "--dry-run")

	require.Equal(t, `
ZONE         DATA   CHECKED  MOVED  LEFT  SMALLEST  LARGEST
Asia/Beirut  2026b  2        2      0     -30m      -1h
would move 2 events in 1 zone
`[1:], would)
	require.Equal(t, before, r.offsets(), "a dry run moves nothing")

	require.JSONEq(t, `{"dryRun": false, "moved": 2, "outdated": [], "zones": [
		{"zone": "Asia/Beirut", "version": "2026b", "checked": 2, "moved": 2, "left": 0, "smallestSeconds": -1800, "largestSeconds": -3600}
	]}`, r.reconcile("--zoneinfo", r.dirB, "--json"))
	require.Equal(t, after, r.offsets())

	require.Contains(t, r.reconcile("--zoneinfo", r.dirB), "\nmoved 0 events in 1 zone\n", "again, nothing is left to do")
	require.JSONEq(t, `{"dryRun": true, "moved": 0, "outdated": [], "zones": [
		{"zone": "Asia/Beirut", "version": "2026b", "checked": 2, "moved": 0, "left": 0, "smallestSeconds": 0, "largestSeconds": 0}
	]}`, r.reconcile("--zoneinfo", r.dirB, "--dry-run", "--json"))
	require.Equal(t, after, r.offsets())
}

// What was done about calendars is reported beside an error, although no zone has events to check.
func TestCalendarsAreReportedBesideAnError(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	program := func(land, mark string) Host {
		t.Helper()
		rent := func(eventType, days string) almanac.EventHandler {
			c, err := calendar.ParseWorkCalendar(days)
			require.NoError(t, err)
			return almanac.Recurring{
				Execution: almanac.Execution{WorkCalendars: []*calendar.WorkCalendar{c}}, Type: eventType,
				Rule: func(almanac.User) (calendar.Recurrence, error) {
					return calendar.Within{Of: calendar.Yearly{Month: 1, Day: 3, At: calendar.Clock{Hour: 9}}, WorkDays: c}, nil
				},
			}
		}
		return hostOf(t, rent("RENT", "name LAND\nweek Mo-Su\nuntil 2999-12-31\n"+land), rent("TAX", "name MARK\nweek Mo-Su\nuntil 2999-12-31\n"+mark))
	}
	first := program("release 2026-01-01", "release 2026-01-01")
	elsewhere := zoneDir(t, "2026a", beirut, release)
	r := runAs(t.Context(), first, "zones", "reconcile", "--zoneinfo", elsewhere, "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	subscribers(t, url, first, 1)
	var holidays strings.Builder
	for year := range 5 {
		fmt.Fprintf(&holidays, "\n%d-01-03 holiday", time.Now().Year()+year)
	}
	other := program("release 2026-02-01"+holidays.String(), "release 2026-01-01"+holidays.String())
	r = runAs(t.Context(), other, "zones", "reconcile", "--dry-run", "--zoneinfo", elsewhere, "--database-url", url)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "MARK")
	require.Contains(t, r.out, "calendar LAND, release 2026-02-01: 1 checked, 1 moved, 0 removed, 0 added, 0 left\n")
}

func TestOlderRulesMoveNothingUnlessTrusted(t *testing.T) {
	t.Parallel()
	r := born(t, calendar.Policies{}, "1992-07-15")
	r.reconcile("--zoneinfo", r.dirB)
	newer := map[string]string{"07-15": "+03:00"}
	require.Equal(t, newer, r.offsets())

	require.Equal(t, `
not known to be newer than the rules that the database follows: Asia/Beirut
events there stay as they are without --trust
moved 0 events in 0 zones
`[1:], r.reconcile("--zoneinfo", r.dirA))
	require.JSONEq(t, `{"dryRun": false, "moved": 0, "zones": [], "outdated": ["Asia/Beirut"]}`, r.reconcile("--zoneinfo", r.dirA, "--json"))
	require.Equal(t, `
ZONE         DATA   CHECKED  MOVED  LEFT  SMALLEST  LARGEST
Asia/Beirut  2026a  1        1      0     +1h       +1h
not known to be newer than the rules that the database follows: Asia/Beirut
events there stay as they are without --trust
would move 1 event in 1 zone
`[1:], r.reconcile("--zoneinfo", r.dirA, "--dry-run"))
	require.Equal(t, newer, r.offsets())

	require.Contains(t, r.reconcile("--zoneinfo", r.dirA, "--trust"), "\nmoved 1 event in 1 zone\n")
	require.Equal(t, map[string]string{"07-15": "+02:00"}, r.offsets())
}

func TestEventsWhosePolicyRefusesTheNewRulesAreLeft(t *testing.T) {
	t.Parallel()
	r := born(t, calendar.Policies{Gap: calendar.GapReject}, "1992-03-31", "1992-07-15")

	require.Equal(t, `
ZONE         DATA   CHECKED  MOVED  LEFT  SMALLEST  LARGEST
Asia/Beirut  2026b  2        1      1     -1h       -1h
left: their policy refuses the wall time under these rules, so they keep their instant
moved 1 event in 1 zone
`[1:], r.reconcile("--zoneinfo", r.dirB))
	require.Equal(t, map[string]string{"03-31": "+02:00", "07-15": "+03:00"}, r.offsets())
}

// The report says what was moved, also if an event could not be.
func TestAnEventThatTheDatabaseRefusesFailsTheCommandAfterItsReport(t *testing.T) {
	t.Parallel()
	r := born(t, calendar.Policies{}, "1992-01-15", "1992-07-15")
	runSQL(t, r.url, `CREATE FUNCTION almanac.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON almanac.series FOR EACH ROW WHEN (OLD.target_timestamp_local::text LIKE '%-07-15 %')
		EXECUTE FUNCTION almanac.refuse()`)

	got := almanacAt(t, today, "zones", "reconcile", "--database-url", r.url, "--zoneinfo", r.dirB)

	require.Equal(t, exitFailed, got.code)
	require.Equal(t, `
ZONE         DATA   CHECKED  MOVED  LEFT  SMALLEST  LARGEST
Asia/Beirut  2026b  2        1      0     -30m      -30m
moved 1 event in 1 zone
`[1:], got.out)
	require.Contains(t, got.errs, "refused")
	require.Equal(t, map[string]string{"01-15": "+02:30", "07-15": "+02:00"}, r.offsets())
}

func TestThisMachinesRulesAreUsedUnlessOthersAreNamed(t *testing.T) {
	t.Parallel()
	r := born(t, calendar.Policies{}, "1992-07-15")

	var report reconciliation
	require.NoError(t, json.Unmarshal([]byte(r.reconcile("--trust", "--json")), &report))

	require.Len(t, report.Zones, 1)
	own, err := calendar.LoadTimezone(beirut)
	require.NoError(t, err)
	found, err := r.store.Find(t.Context(), almanac.InZone{beirut}, almanac.Page{Limit: 1})
	require.NoError(t, err)
	want, err := own.Resolve(found.Items[0].Wall, calendar.Policies{})
	require.NoError(t, err)
	require.Equal(t, want.Instant, found.Items[0].Due)
}

func TestADatabaseWithoutEvents(t *testing.T) {
	t.Parallel()
	dir := zoneDir(t, "2026a", beirut, release)
	url := pgtest.URL(t)
	r := almanacAt(t, today, "zones", "reconcile", "--database-url", url, "--zoneinfo", dir)
	require.Equal(t, result{exitOK, "moved 0 events in 0 zones\n", ""}, r)
	r = almanacAt(t, today, "zones", "reconcile", "--database-url", url, "--zoneinfo", dir, "--json")
	require.JSONEq(t, `{"dryRun": false, "moved": 0, "zones": [], "outdated": []}`, r.out)
}

func TestReconcilingFails(t *testing.T) {
	t.Parallel()
	migrated, empty := pgtest.URL(t), pgtest.EmptyURL(t)
	tests := map[string]struct {
		args []string
		want string
	}{
		"no server":               {[]string{"--database-url", "postgres://u:hunter2@127.0.0.1:1/x"}, "failed to connect to "},
		"on an empty database":    {[]string{"--database-url", empty}, `postgres: edit zone rules: ERROR: schema "almanac" does not exist`},
		"in a schema that is not": {[]string{"--database-url", migrated, "--schema", "another"}, `postgres: edit zone rules: ERROR: schema "another" does not exist`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := almanacAt(t, today, append([]string{"zones", "reconcile"}, tt.args...)...)
			require.Equal(t, exitFailed, r.code)
			require.Empty(t, r.out)
			require.Regexp(t, "^almanac: ", r.errs)
			require.Contains(t, r.errs, tt.want)
			require.NotContains(t, r.errs, "hunter2")
			require.NotContains(t, r.errs, "--help", "the arguments are right")
		})
	}
}

// A release that waits is listed, until a run accepts or refuses it.
func TestReleasesThatWaitAreListedAndAnswered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args     []string
		accepted bool
	}{
		"accepted": {[]string{"--reason", "it is law"}, true},
		"refused":  {[]string{"--trust", "--reason", "it is law"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := born(t, calendar.Policies{}, "1992-01-15", "1992-07-15")
			at := time.Date(2027, 1, 14, 21, 45, 0, 0, time.UTC)
			require.NoError(t, r.store.EditZoneRules(t.Context(), func(almanac.ZoneBook) (almanac.ZoneBook, error) {
				return almanac.ZoneBook{Quarantines: []almanac.Quarantine{{
					Name: beirut, Release: "2026b", Events: 2, Largest: -time.Hour, First: calendar.WallTimeOf(at.Add(150 * time.Minute)), FirstAt: at, Since: at.AddDate(0, 0, -3),
				}}}, nil
			}))
			waits := "waits for an operator since 2027-01-11T21:45:00Z: Asia/Beirut, release 2026b; 2 events, by up to -1h; the first wrong start would be at 2027-01-15T00:15:00, 2027-01-14T21:45:00Z\n"
			require.Contains(t, r.reconcile("--zoneinfo", r.dirA), waits)
			require.Contains(t, r.reconcile("--zoneinfo", r.dirB, "--dry-run"), waits)
			require.Contains(t, r.reconcile("--zoneinfo", r.dirB, "--dry-run", "--json"), `"firstAt": "2027-01-14T21:45:00Z"`)
			with := r.dirA
			if tt.accepted {
				with = r.dirB
			}
			require.NotContains(t, r.reconcile(append(tt.args, "--zoneinfo", with)...), "waits")
			book, err := r.store.ZoneRules(t.Context())
			require.NoError(t, err)
			q := book.Quarantines[0]
			require.Equal(t, []any{tt.accepted, "it is law", false}, []any{q.Accepted, q.Reason, q.Waits()})
			require.NotEmpty(t, q.Author)
		})
	}
}
