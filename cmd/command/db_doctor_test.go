package command

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// examined runs the doctor, now, and returns what it found.
func examined(t *testing.T, args ...string) (diagnosis, result) {
	t.Helper()
	r := almanacAt(t, time.Now(), append([]string{"doctor", "--json"}, args...)...)
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(r.out), &d), "%s%s", r.out, r.errs)
	want := exitOK
	if d.Errors+d.Warnings > 0 {
		want = exitFailed
	}
	require.Equal(t, want, r.code)
	return d, r
}

// about returns the findings about one thing, without advice.
func (d diagnosis) about(thing string) []string {
	var lines []string
	for _, f := range d.Findings {
		if f.About == thing {
			lines = append(lines, string(f.Severity)+": "+f.Text)
		}
	}
	return lines
}

func TestAHealthyDatabase(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	d, r := examined(t, "--database-url", url)
	require.Equal(t, exitOK, r.code, r.out)
	require.Empty(t, r.errs)
	var abouts []string
	for _, f := range d.Findings {
		abouts = append(abouts, f.About)
	}
	require.Equal(t, []string{"server", "settings", "schema", "schema", "role", "zones", "clock", "vacuum", "connections", "notifications"}, abouts)
	require.Regexp(t, `^ok: PostgreSQL \d`, d.about("server")[0])
	require.Regexp(t, `^ok: schema almanac is at version \d+, as this program$`, d.about("schema")[0])
	require.Equal(t, []string{"ok: nothing keeps vacuum from removing what is older than 10m0s"}, d.about("vacuum"))
	require.Equal(t, []string{"note: no zone rules are stored yet: the first scheduler that runs stores those that events follow"}, d.about("zones"))
	require.Regexp(t, `^ok: the database's clock and this machine's are \S+ apart`, d.about("clock")[0])
	require.Regexp(t, `^ok: \d+ of \d+ connections of the server are in use$`, d.about("connections")[0])
	require.Equal(t, []string{"ok: 0 % of the queue of notifications is in use"}, d.about("notifications"))

	text := almanacAt(t, time.Now(), "doctor", "--database-url", url)
	require.Equal(t, exitOK, text.code)
	require.Contains(t, text.out, "ok    schema         every table, column, ")
}

func TestADatabaseThatCannotBeReached(t *testing.T) {
	t.Parallel()
	d, r := examined(t, "--database-url", "postgres://u:hunter2@127.0.0.1:1/x")
	require.Equal(t, "almanac: 1 error and 0 warnings\n", r.errs)
	require.Len(t, d.Findings, 1)
	require.Equal(t, broken, d.Findings[0].Severity)
	require.Contains(t, d.Findings[0].Text, "cannot be reached: failed to connect")
	require.NotContains(t, r.out, "hunter2")
}

func TestASchemaThatDiffersFromItsMigrations(t *testing.T) {
	t.Parallel()
	t.Run("behind", func(t *testing.T) {
		t.Parallel()
		d, _ := examined(t, "--database-url", pgtest.EmptyURL(t))
		require.Len(t, d.about("schema"), 1, "one finding says it")
		require.Regexp(t, "^error: schema almanac was never migrated", d.about("schema")[0])
		require.Empty(t, append(d.about("role"), d.about("zones")...))
		require.Equal(t, "almanac migrate up", d.Findings[2].Advice)
	})
	t.Run("ahead", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		runSQL(t, url, "INSERT INTO almanac.migrations (version, name) VALUES (999, '0999_future'); DROP INDEX almanac.users_deleted; ALTER TABLE almanac.users ADD later text")
		d, r := examined(t, "--database-url", url)
		require.Equal(t, exitOK, r.code, r.out)
		require.Len(t, d.about("schema"), 3)
		for _, line := range d.about("schema") {
			require.Regexp(t, "^note: ", line)
		}
	})
	t.Run("different", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		runSQL(t, url, "DROP INDEX almanac.queue_due; ALTER TABLE almanac.users ADD mine text; ALTER TABLE almanac.series SET (fillfactor = 70)")
		d, _ := examined(t, "--database-url", url)
		require.Equal(t, 1, d.Errors)
		require.Equal(t, []string{
			"note: column users.mine is not Almanac's: text",
			"error: index queue.queue_due is missing: CREATE INDEX queue_due ON queue USING btree (event_type, lane, available_at, event_id)",
			"note: settings series is autovacuum_vacuum_scale_factor=0.05, fillfactor=70, not autovacuum_vacuum_scale_factor=0.05, fillfactor=50",
		}, d.about("schema")[1:])
	})
}

// login makes a role of the cluster that can log in and returns the database's URL for it.
func login(t *testing.T, address string) (name, asRole string) {
	t.Helper()
	name = "t" + strings.ToLower(rand.Text())
	runSQL(t, address, "CREATE ROLE "+name+" LOGIN PASSWORD 'secret'")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		admin, err := pgx.Connect(ctx, address)
		require.NoError(t, err)
		_, err = admin.Exec(ctx, "DROP OWNED BY "+name+"; DROP ROLE "+name)
		require.NoError(t, err)
		require.NoError(t, admin.Close(ctx))
	})
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.User = url.UserPassword(name, "secret")
	return name, u.String()
}

func TestPrivilegesOfARoleAreReported(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	name, asRole := login(t, address)
	role := func() []string {
		d, _ := examined(t, "--database-url", asRole)
		return d.about("role")
	}
	runSQL(t, address, "GRANT USAGE ON SCHEMA almanac TO "+name+"; GRANT SELECT ON almanac.migrations, almanac.zone_rules, almanac.calendars, almanac.quarantine, almanac.lanes TO "+name)
	require.Equal(t, []string{"error: " + name + " may do nothing with the tables"}, role())

	runSQL(t, address, "GRANT SELECT (id) ON almanac.events TO "+name+"; GRANT SELECT (event_id) ON almanac.queue TO "+name+"; GRANT SELECT ON almanac.leases TO "+name)
	require.Equal(t, []string{"ok: " + name + " may look at events"}, role())

	runSQL(t, address, "GRANT SELECT, INSERT, UPDATE, DELETE ON almanac.users, almanac.series, almanac.queue, almanac.history, almanac.keys, almanac.leases, almanac.zone_marks, almanac.visits TO "+name+
		"; GRANT SELECT ON almanac.pruning, almanac.settings, almanac.lane_states TO "+name+"; GRANT SELECT, INSERT, UPDATE ON almanac.unplanned TO "+name)
	require.Equal(t, []string{
		"ok: " + name + " may keep users, look at events",
		"warning: " + name + " may not run a scheduler: it lacks INSERT on calendars, UPDATE on calendars, EXECUTE on claim_lanes, SELECT on lane_clock, UPDATE on lane_clock, EXECUTE on lane_room, UPDATE on lane_states, UPDATE on pruning, INSERT on quarantine, UPDATE on quarantine, INSERT on settings, UPDATE on settings, EXECUTE on step_lane, DELETE on unplanned, INSERT on zone_rules, UPDATE on zone_rules",
	}, role())

	runSQL(t, address, "GRANT INSERT, UPDATE ON almanac.zone_rules, almanac.calendars, almanac.quarantine, almanac.settings TO "+name+"; GRANT DELETE ON almanac.unplanned TO "+name+"; GRANT UPDATE ON almanac.pruning, almanac.lane_states TO "+name+"; GRANT SELECT, UPDATE ON almanac.lane_clock TO "+name+
		"; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA almanac TO "+name)
	require.Equal(t, []string{"ok: " + name + " may run a scheduler, keep users, look at events"}, role())

	runSQL(t, address, "REVOKE USAGE ON SCHEMA almanac FROM "+name)
	d, _ := examined(t, "--database-url", asRole)
	require.Contains(t, d.about("schema")[0], "error: cannot be asked: ")
	require.NotEmpty(t, d.about("connections"), "the rest is looked at all the same")
}

func TestSettingsThatStopPrograms(t *testing.T) {
	t.Parallel()
	address := pgtest.Direct(t, pgtest.URL(t))
	require.Regexp(t, "^ok: no setting of this role", func() string { d, _ := examined(t, "--database-url", address); return d.about("settings")[0] }())

	name := pgx.Identifier{strings.TrimPrefix(mustParse(t, address).Path, "/")}.Sanitize()
	for _, set := range []string{"statement_timeout = '300ms'", "session_replication_role = replica", "default_transaction_read_only = on"} {
		runSQL(t, address, "ALTER DATABASE "+name+" SET "+set)
	}
	d, _ := examined(t, "--database-url", address)
	require.Equal(t, []string{
		"error: default_transaction_read_only is on: programs can store nothing",
		"error: session_replication_role is replica: triggers do not run, so edits of users are missed, and so are the trail and the outbox",
		"warning: statement_timeout is 300: an operation may take 5 s, and one that never ends in time is never done",
	}, d.about("settings"))
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u
}

func TestADatabaseOfAnotherEncoding(t *testing.T) {
	t.Parallel()
	address := pgtest.Direct(t, pgtest.EmptyURL(t))
	u := mustParse(t, address)
	u.Path += "_latin"
	runSQL(t, address, "CREATE DATABASE "+strings.TrimPrefix(u.Path, "/")+" TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		admin, err := pgx.Connect(ctx, address)
		require.NoError(t, err)
		_, err = admin.Exec(ctx, "DROP DATABASE "+strings.TrimPrefix(u.Path, "/")+" WITH (FORCE)")
		require.NoError(t, err)
		require.NoError(t, admin.Close(ctx))
	})
	d, _ := examined(t, "--database-url", u.String())
	require.Equal(t, []string{
		"error: client_encoding is LATIN1: programs refuse to work, since they send and read UTF8",
		"error: server_encoding is LATIN1: the database cannot hold every text, and programs refuse it: make one with ENCODING 'UTF8'",
	}, d.about("settings"))
	r := almanacAt(t, time.Now(), "migrate", "up", "--database-url", u.String())
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "the encoding of this database is LATIN1, and Almanac needs UTF8")
}

func TestAPublicationThatStopsWrites(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	runSQL(t, address, "CREATE PUBLICATION everything FOR ALL TABLES")
	d, _ := examined(t, "--database-url", address)
	require.Empty(t, d.about("publications"))

	runSQL(t, address, "ALTER TABLE almanac.queue REPLICA IDENTITY NOTHING")
	d, _ = examined(t, "--database-url", address)
	require.Equal(t, []string{"error: publication everything stops updates and deletions in queue, which has neither a primary key nor a replica identity"}, d.about("publications"))
}

func TestPositionsOfAnotherServer(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	for _, name := range []string{"billing", "search"} {
		require.NoError(t, store.CreateConsumer(t.Context(), name))
	}
	d, _ := examined(t, "--database-url", address)
	require.Empty(t, d.about("outbox"))

	runSQL(t, address, "UPDATE almanac.outbox_consumers SET server = server + 1")
	d, r := examined(t, "--database-url", address)
	require.Equal(t, []string{"error: positions of another server, so that these consumers read nothing: billing, search"}, d.about("outbox"))
	require.Contains(t, r.out, "postgres.EnableOutbox")
	require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
	d, _ = examined(t, "--database-url", address)
	require.Empty(t, d.about("outbox"))

	name, asRole := login(t, address)
	runSQL(t, address, "GRANT USAGE ON SCHEMA almanac TO "+name+"; GRANT SELECT ON almanac.migrations TO "+name)
	d, _ = examined(t, "--database-url", asRole)
	require.Equal(t, []string{"note: this role may not see the positions of consumers"}, d.about("outbox"))
}

// Other roles may create operators and functions in public.
func TestTheDoctorUsesNothingOfOtherRoles(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	healthy, _ := examined(t, "--database-url", address)
	pgtest.Trap(t, address, "queries/*.sql", "*.go", "../../postgres/queries/*.sql", "../../postgres/*.go")
	u := mustParse(t, pgtest.Direct(t, address))
	query := u.Query()
	query.Set("search_path", "public") // the default: pg_catalog comes first
	u.RawQuery = query.Encode()
	d, r := examined(t, "--database-url", u.String())
	require.Empty(t, r.errs)
	require.Len(t, d.Findings, len(healthy.Findings))
	for i, f := range d.Findings {
		require.Equal(t, healthy.Findings[i].Severity, f.Severity, f.Text)
	}
}

func TestZonesThatDiffer(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	dir := zoneDir(t, "2026b", "America/New_York", "EST5EDT,M3.3.0,M11.1.0")
	data, err := calendar.OpenZoneData(dir)
	require.NoError(t, err)
	zone, err := data.Timezone("America/New_York")
	require.NoError(t, err)
	rules, err := zone.Rules(2010)
	require.NoError(t, err)
	remember := func(zone string, fingerprint int64) {
		runSQL(t, address, `INSERT INTO almanac.zone_rules (zone, fingerprint, since, version) VALUES ($1, $2, 2010, '2025b')
			ON CONFLICT (zone) DO UPDATE SET fingerprint = excluded.fingerprint`, zone, fingerprint)
	}
	look := func() []string {
		r := almanacAt(t, past, "doctor", "--json", "--database-url", address, "--zoneinfo", dir)
		// The examination begins in the past, and takes seconds on a busy machine.
		out := regexp.MustCompile(`T00:00:[0-5]\dZ`).ReplaceAllString(r.out, "T00:00:00Z")
		var d diagnosis
		require.NoError(t, json.Unmarshal([]byte(out), &d))
		return d.about("zones")
	}
	const differs = "warning: the server has other zone data: America/New_York differs: at 2010-03-19T00:00:00Z clocks stand at -04:00 there, at -05:00 here"

	remember("America/New_York", rules.Fingerprint)
	require.Equal(t, []string{differs}, look())

	remember("America/New_York", rules.Fingerprint+1)
	require.Equal(t, []string{"warning: events follow other rules than this machine's: America/New_York (2025b there, 2026b here)", differs}, look())

	for _, zone := range []string{"Asia/Tokyo", "Europe/Berlin", "Europe/Paris", "Europe/Rome"} {
		remember(zone, 1)
	}
	lines := look()
	require.Len(t, lines, fewSuspects+2)
	require.Regexp(t, `^error: this machine cannot plan there: "Asia/Tokyo" is a time zone for which this machine has no data`, lines[0])
	require.True(t, strings.HasSuffix(lines[2], "; and 1 zone more"), lines[2])
}

// The doctor reports agreement too. All releases agree on rules of the past.
func TestZonesThatAgree(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	for _, name := range []string{"America/New_York", "Pacific/Apia"} {
		zone, err := calendar.LoadTimezone(name)
		require.NoError(t, err)
		rules, err := zone.Rules(2010)
		require.NoError(t, err)
		runSQL(t, address, `INSERT INTO almanac.zone_rules (zone, fingerprint, since, version) VALUES ($1, $2, 2010, '')`, name, rules.Fingerprint)
	}
	r := almanacAt(t, past, "doctor", "--json", "--database-url", address)
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(r.out), &d))
	require.Equal(t, []string{"ok: this machine, the server and the events agree on 2 zones for the next 10 years"}, d.about("zones"))
}

func TestTheDoctorExpectsNothingOfProgramsBeforeTheFirstRuns(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	look := func(about string) []string {
		d, _ := examined(t, "--database-url", address)
		return d.about(about)
	}
	runSQL(t, address, `INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, consulted)
		VALUES (now(), gen_random_uuid(), 1, 'RENT', 'XX@2026-01-01 2026-01-01 2026-02-01 provisional')`)
	require.Equal(t, []string{"ok: 1 event looked up XX, whose releases are stored when the first program runs"}, look("calendars"))
	require.Empty(t, look("programs"))
	runSQL(t, address, `INSERT INTO almanac.settings (name, value, program, since) VALUES
		('handler RENT', '2027-03-01T00:00:00Z', 'billing v2', '2027-03-01'), ('quiet hours', 'outside Mo-Su 08:00-22:00', 'billing v2', '2027-03-01')`)
	require.Equal(t, []string{"warning: 1 event looked up XX, which no program has named"}, look("calendars"))
	d, _ := examined(t, "--database-url", address)
	require.Equal(t, []string{
		"ok: a program with a handler of RENT ran at 2027-03-01T00:00:00Z: billing v2",
		"note: quiet hours: outside Mo-Su 08:00-22:00, stored by billing v2 at 2027-03-01T00:00:00Z",
	}, d.about("programs"))
}

func TestEventsThatLookedPastTheEndOfACalendar(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	look := func() []string {
		d, _ := examined(t, "--database-url", address)
		return d.about("calendars")
	}
	require.Empty(t, look(), "no calendar, no finding")
	day := func(days int) string { return time.Now().AddDate(0, 0, days).Format(time.DateOnly) }
	runSQL(t, address, `INSERT INTO almanac.calendars (name, release, until, since, hashes, changed, releases)
		VALUES ('DE-BY', '2026-01-01', $1::text::date, 2026, '{1}', '{2026-01-01}', '{2026-01-01}')`, day(30))
	require.Equal(t, []string{"ok: no event of the next 60 days looked past the end of one of 1 calendar"}, look())

	waits := func(days int, consulted string) {
		runSQL(t, address, `INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, consulted)
			VALUES (now() + $1 * interval '1 day', gen_random_uuid(), $1, 'RENT', $2)`, days, consulted)
	}
	waits(20, "DE-BY@2026-01-01 "+day(1)+" "+day(20))
	waits(61, "DE-BY@2026-01-01 "+day(1)+" "+day(61)+" provisional")
	require.Len(t, look(), 1)
	require.Contains(t, look()[0], "ok: ", "a yearly series always looks past the end")
	waits(50, "DE-BY@2026-01-01 "+day(1)+" "+day(50)+" provisional")
	waits(40, "DE-BY@2026-01-01,XX@2026-01-01 "+day(1)+" "+day(40)+" provisional")
	waits(30, "DE-BY@2026-01-01,YY@2026-01-01 "+day(1)+" "+day(45)) // it looked that far ahead in YY alone
	waits(30, "system:hebrew@2026-01-01 "+day(1)+" "+day(45))
	require.Len(t, look(), 4)
	require.Regexp(t, "^warning: 2 events looked past the end of DE-BY, "+day(30)+", in release 2026-01-01; the first is due at "+day(40), look()[0])
	require.Equal(t, "warning: 1 event looked up XX, which no program has named", look()[1], "it may have looked past its end")
	require.Equal(t, "note: 1 event looked up YY, which no program has named", look()[2])
	require.Equal(t, "note: 1 event looked up system:hebrew, which no program has registered", look()[3])
}

// An import plans events, but compares no rules: no finding may say that nothing is planned.
func TestReleasesThatWaitForAnOperator(t *testing.T) {
	t.Parallel()
	address := pgtest.Direct(t, pgtest.URL(t))
	look := func() []string { d, _ := examined(t, "--database-url", address); return d.about("releases") }
	require.Empty(t, look())
	runSQL(t, address, `INSERT INTO almanac.quarantine (name, calendar, release, changes, largest, first_local, first_utc, since, answered_at, accepted)
		VALUES ('Asia/Beirut', false, '2026b', 3, 3600000000, '2026-12-02 09:00', '2026-12-02 07:00Z', '2026-11-30 12:00Z', NULL, false),
			('Asia/Gaza', false, '2026b', 4, 3600000000, '2026-12-01 09:00', '2026-12-01 07:00Z', '2026-11-30 12:00Z', NULL, false),
			('LAND', true, '2026-12-01', 9, 0, '2026-12-05 09:00', '2026-12-05 08:00Z', '2026-11-30 12:00Z', now(), true)`)
	require.Equal(t, []string{"warning: release 2026b of zone rules waits for an operator since 2026-11-30T12:00:00Z: it would change 7 events, " +
		"of Asia/Beirut, Asia/Gaza; if it is right, the first starts at a wrong time at 2026-12-01T07:00:00Z"}, look())
}

func TestZonesAfterAnImport(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	file := fileOf(t, "people.csv", "id,firstName,lastName,dateOfBirth,timezone\n"+adaID+",Ada,Lovelace,1990-12-10,Europe/London\n")
	r := almanacAt(t, time.Now(), "users", "import", file, "--birthday", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	d, _ := examined(t, "--database-url", url)
	require.Equal(t, []string{"note: no zone rules are stored yet: the first scheduler that runs stores those that events follow"}, d.about("zones"))
}

// PostgreSQL knows CET, EET, MET and WET as abbreviations too, of clocks that never change.
func TestZonesNamedAsAbbreviationsAgree(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	names := []string{"CET", "EET", "EST5EDT", "MET", "WET"}
	for _, name := range names {
		zone, err := calendar.LoadTimezone(name)
		require.NoError(t, err)
		rules, err := zone.Rules(2010)
		require.NoError(t, err)
		runSQL(t, address, `INSERT INTO almanac.zone_rules (zone, fingerprint, since, version) VALUES ($1, $2, 2010, '')`, zone.String(), rules.Fingerprint)
	}
	r := almanacAt(t, past, "doctor", "--json", "--database-url", address)
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(r.out), &d))
	require.Equal(t, []string{"ok: this machine, the server and the events agree on 5 zones for the next 10 years"}, d.about("zones"))
}

func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	for apart, want := range map[time.Duration]string{0: "ok: ", time.Minute: "warning: ", -time.Minute: "warning: ", 10 * time.Minute: "error: ", -10 * time.Minute: "error: "} {
		r := almanacAt(t, time.Now().Add(apart), "doctor", "--json", "--database-url", address)
		var d diagnosis
		require.NoError(t, json.Unmarshal([]byte(r.out), &d))
		require.Len(t, d.about("clock"), 1)
		require.True(t, strings.HasPrefix(d.about("clock")[0], want), "%s: %s", apart, d.about("clock")[0])
	}
}

func TestATransactionThatHoldsBackVacuum(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	config, err := pgx.ParseConfig(pgtest.Direct(t, address))
	require.NoError(t, err)
	config.RuntimeParams["application_name"] = "report"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "SELECT count(*) FROM almanac.events")
	require.NoError(t, err)

	d, _ := examined(t, "--database-url", address)
	require.Regexp(t, "^ok: ", d.about("vacuum")[0], "it is young")
	d, r := examined(t, "--database-url", address, "--patience", "0s")
	require.Equal(t, exitFailed, r.code)
	require.Len(t, d.about("vacuum"), 1)
	require.Regexp(t, `^warning: session \d+ of \S+, report has kept vacuum from removing dead rows for \d+s$`, d.about("vacuum")[0])
	checkMisuse(t, almanacAt(t, today, "doctor", "--database-url", address, "--patience", "x"), `--patience: "x" is not a duration such as 10m`)
}

// Events of a dead process wait in their lease for a program that releases them.
func TestLeasesThatNobodyReleases(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), pgtest.Direct(t, address))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	for owner, expires := range map[string]string{"dead-1": "1 hour", "alive-2": "-1 minute"} {
		_, err = conn.Exec(t.Context(), `INSERT INTO almanac.leases (token, owner, claimed_at, expires_at, series_ids, event_ids, versions)
			VALUES (gen_random_uuid(), $1, now() - interval '3 hours', now() - $2::interval, '{1}', ARRAY[gen_random_uuid()], '{1}')`, owner, expires)
		require.NoError(t, err)
	}

	d, r := examined(t, "--database-url", address)
	require.Equal(t, exitFailed, r.code)
	require.Len(t, d.about("leases"), 1)
	require.Regexp(t, `^warning: 1 lease expired, and the events are not released: the oldest is of dead-1, 3h0m\d+s ago$`, d.about("leases")[0])
	d, _ = examined(t, "--database-url", address, "--patience", "4h")
	require.Empty(t, d.about("leases"))
}

func TestFindingsOfOtherServers(t *testing.T) {
	t.Parallel()
	require.Equal(t, broken, serverFacts{number: 120005, autovacuum: true}.findings()[0].Severity)
	require.Equal(t, fine, serverFacts{number: oldestServer, autovacuum: true}.findings()[0].Severity)
	for severity, servers := range map[severity][]serverFacts{
		warns:  {{number: 150000, isStandby: true, autovacuum: true}, {number: 150000}},
		notice: {{number: 150000, autovacuum: true, standbys: 1}},
	} {
		for _, s := range servers {
			require.Len(t, s.findings(), 2)
			require.Equal(t, severity, s.findings()[1].Severity)
		}
	}
	require.Len(t, serverFacts{number: 150000, autovacuum: true, standbys: 1, waits: true}.findings(), 1)
	require.Equal(t, "replication slot one has kept vacuum from removing dead rows for 2000000 transactions", vacuumFinding("replication slot", "one", nil, 2_000_000).Text)

	require.Equal(t, fine, connectionFindings(usage{"the server", 80, 100}, usage{"this role", 5, -1})[0].Severity)
	full := connectionFindings(usage{"the server", 81, 100}, usage{"this database", 1, 10}, usage{"this role", 9, 10})
	require.Len(t, full, 2)
	require.Equal(t, "9 of 10 connections of this role are in use", full[1].Text)

	require.Equal(t, fine, notificationFinding(0.24).Severity)
	crowded := notificationFinding(0.6)
	require.Equal(t, warns, crowded.Severity)
	require.Equal(t, "60 % of the queue of notifications is in use", crowded.Text)

	gap := differenceFinding(postgres.Difference{Kind: postgres.KindTrigger, Name: "leases.leases_audit", Expected: "x"}, postgres.SchemaVersion{})
	require.Equal(t, finding{Severity: warns, Text: "trigger leases.leases_audit is missing: x", Advice: "the trail has gaps: almanac audit off, then almanac audit on"}, gap)
	added := differenceFinding(postgres.Difference{Kind: postgres.KindIndex, Name: "users.mine", Found: "x"}, postgres.SchemaVersion{})
	require.Equal(t, notice, added.Severity)
}

func TestDoctorFindsLostEvents(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), pgtest.Direct(t, address))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	store, err := postgres.New(conn)
	require.NoError(t, err)
	now, err := store.Now(t.Context())
	require.NoError(t, err)
	for range 3 {
		u := almanactest.User()
		almanactest.Store(t, store, u, almanactest.Event(now, almanactest.For(u), almanactest.ReadyFor(time.Minute)))
	}
	_, err = store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	d, _ := examined(t, "--database-url", address)
	require.Empty(t, d.about("events"))

	_, err = conn.Exec(t.Context(), "DELETE FROM almanac.queue WHERE event_id = (SELECT min(event_id::text)::uuid FROM almanac.queue)")
	require.NoError(t, err)

	d, r := examined(t, "--database-url", address)
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, []string{"error: 1 event of 3 series in neither the queue nor a lease: no program claims them"}, d.about("events"))
}
