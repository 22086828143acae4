package postgres_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// The statements need one privilege each, and touch no row.

func selects(table string, columns ...string) (statements []string) {
	for _, column := range columns {
		statements = append(statements, "SELECT "+column+" FROM almanac."+table+" WHERE false")
	}
	return statements
}

func inserts(table string, columns ...string) (statements []string) {
	for _, column := range columns {
		statements = append(statements, "INSERT INTO almanac."+table+" ("+column+") SELECT NULL WHERE false")
	}
	return statements
}

func updates(table string, columns ...string) (statements []string) {
	for _, column := range columns {
		statements = append(statements, "UPDATE almanac."+table+" SET "+column+" = DEFAULT WHERE false")
	}
	return statements
}

// anyones are statements for which one has to be the owner, or more than that.
func anyones(c *cast) []string {
	statements := []string{
		"CREATE TABLE almanac.mine ()",
		"CREATE FUNCTION almanac.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
		"DROP SCHEMA almanac CASCADE",
		"DROP FUNCTION almanac.refuse_change() CASCADE",
		"DROP FUNCTION almanac.forget_user() CASCADE",
		"CREATE OR REPLACE FUNCTION almanac.follow_user() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"DELETE FROM almanac.migrations WHERE false",
		"SET ROLE " + c.prefix + "owner",
		"SET session_replication_role = replica",
		"CREATE ROLE " + c.prefix + "mine",
		"CREATE DATABASE " + c.prefix + "mine",
	}
	statements = append(statements, inserts("migrations", "version", "name", "applied_at")...)
	statements = append(statements, updates("migrations", "version", "name", "applied_at")...)
	for _, view := range []string{"almanac.events", "almanac.pending_events", "almanac.processing_events", "almanac.ended_events"} {
		statements = append(statements, "DROP VIEW "+view+" CASCADE", "ALTER VIEW "+view+" OWNER TO CURRENT_USER")
	}
	for _, table := range []string{"almanac.users", "almanac.series", "almanac.queue", "almanac.history", "almanac.keys", "almanac.leases",
		"almanac.zone_rules", "almanac.zone_marks", "almanac.outbox", "almanac.outbox_consumers", "almanac.migrations"} {
		statements = append(statements,
			"TRUNCATE "+table,
			"DROP TABLE "+table+" CASCADE",
			"ALTER TABLE "+table+" ADD COLUMN mine integer",
			"ALTER TABLE "+table+" DISABLE TRIGGER USER",
			"ALTER TABLE "+table+" OWNER TO CURRENT_USER",
			"CREATE TRIGGER mine BEFORE UPDATE ON "+table+" FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
			"CREATE INDEX ON "+table+" ((true))")
	}
	return statements
}

// What a series is for, where it stands, what its event is, and what became of
// that.
var (
	names    = []string{"id", "user_id", "event_type", "name"}
	outcomes = []string{"last_error", "retry_count", "claim_count", "crash_count", "version", "created_at", "updated_at"}
	targets  = []string{"event_id", "occurrence_key", "key_unit", "target_timestamp_utc", "target_timestamp_local", "nominal_local", "target_timezone",
		"policies", "idempotency_key", "delivery_payload", "user_version"}
	used   = []string{"used_unit", "used_key", "used_nominal", "used_local", "used_others"}
	series = slices.Concat(names, outcomes, targets, used, []string{"current_user_version"})
	events = slices.Concat(without(targets, "event_id"), outcomes, []string{"id", "user_id", "event_type", "status", "available_at", "lease_token",
		"executed_at", "failure_reason"})
	history = without(events, "available_at")
	queue   = []string{"available_at", "event_id", "series_id", "event_type"}
	leases  = []string{"token", "owner", "series_ids", "event_ids", "versions", "claimed_at", "expires_at", "ahead_since", "program", "zone_data"}
	rules   = []string{"zone", "fingerprint", "since", "version", "recheck"}
	marks   = []string{"zone", "fingerprint", "since", "version"}
	people  = []string{"id", "first_name", "last_name", "date_of_birth", "birth_calendar", "birth_day", "timezone", "zone_source", "attributes", "version", "deleted_at", "created_at", "updated_at",
		"locale", "email", "external_id", "opt_outs", "folded_name", "folded_last_name", "folded_email"}
)

// unborn are the columns that no role may set in a new series, besides its id.
var unborn = slices.Concat(used, outcomes)

func forbidden(c *cast) map[string][]string {
	return map[string][]string{
		"worker": slices.Concat(anyones(c),
			inserts("users", people...), updates("users", without(people, "updated_at")...),
			inserts("series", without(unborn, "last_error", "claim_count")...), updates("series", names...), updates("queue", without(queue, "available_at")...),
			updates("history", without(history, "updated_at")...), updates("keys", "idempotency_key"),
			updates("leases", "token", "owner", "program", "zone_data"),
			updates("zone_marks", marks...),
			[]string{"DELETE FROM almanac.series WHERE false", "DELETE FROM almanac.zone_rules WHERE false"}),
		"api": slices.Concat(anyones(c),
			inserts("users", "version", "deleted_at", "created_at", "updated_at"), updates("users", "id", "created_at"),
			inserts("series", unborn...), updates("series", names...),
			updates("queue", without(queue, "available_at")...),
			selects("history", history...), inserts("history", "executed_at", "lease_token"), updates("history", history...), updates("keys", "idempotency_key"),
			selects("leases", without(leases, "series_ids", "event_ids", "versions", "ahead_since")...), inserts("leases", leases...), updates("leases", leases...),
			inserts("zone_rules", rules...), updates("zone_rules", rules...), updates("zone_marks", marks...),
			[]string{
				"DELETE FROM almanac.zone_marks WHERE false",
				"DELETE FROM almanac.series WHERE false", "DELETE FROM almanac.history WHERE false",
				"DELETE FROM almanac.leases WHERE false", "DELETE FROM almanac.zone_rules WHERE false",
				"DO $$ BEGIN LOCK TABLE almanac.zone_rules IN SHARE ROW EXCLUSIVE MODE; END $$",
			}),
		"reader": slices.Concat(anyones(c), unreadable(),
			inserts("users", people...), updates("users", people...), inserts("series", without(series, "id")...), updates("series", series...),
			inserts("queue", queue...), updates("queue", queue...), inserts("history", history...), updates("history", history...),
			inserts("keys", "idempotency_key"), updates("keys", "idempotency_key"), inserts("leases", leases...), updates("leases", leases...),
			inserts("zone_rules", rules...), updates("zone_rules", rules...), inserts("zone_marks", marks...), updates("zone_marks", marks...),
			[]string{
				"DELETE FROM almanac.zone_marks", "SELECT timezone FROM almanac.users FOR SHARE", "SELECT event_id FROM almanac.queue FOR UPDATE SKIP LOCKED",
				"SELECT id FROM almanac.series FOR SHARE", "SELECT token FROM almanac.leases FOR UPDATE",
				"DO $$ BEGIN LOCK TABLE almanac.zone_rules IN SHARE ROW EXCLUSIVE MODE; END $$",
				"DELETE FROM almanac.users", "DELETE FROM almanac.series", "DELETE FROM almanac.queue", "DELETE FROM almanac.history",
				"DELETE FROM almanac.keys", "DELETE FROM almanac.leases", "DELETE FROM almanac.zone_rules",
			}),
		"relay": slices.Concat(anyones(c), selects("users", people...), selects("series", series...), selects("history", history...), selects("keys", "idempotency_key"),
			selects("leases", leases...), selects("queue", queue...), selects("audit", "*"), selects("events", events...),
			inserts("outbox", "kind"), updates("outbox", "kind", "sequence"), updates("outbox_consumers", "name"),
			[]string{"DELETE FROM almanac.users", "DELETE FROM almanac.series", "DELETE FROM almanac.queue", "DELETE FROM almanac.history", "DELETE FROM almanac.keys", "DELETE FROM almanac.leases"}),
		"owner": {
			"CREATE ROLE " + c.prefix + "mine",
			"CREATE DATABASE " + c.prefix + "mine",
			"SELECT FROM public.hosts",
			"DROP TABLE public.hosts",
			"ALTER TABLE public.hosts DISABLE TRIGGER USER",
			"GRANT " + c.prefix + "worker TO " + c.prefix + "reader",
			"SET session_replication_role = replica",
			"COPY almanac.users TO PROGRAM 'true'",
		},
	}
}

// unread are the columns of an event that the reader does not see: whose it is, and
// what others write.
var unread = []string{"user_id", "occurrence_key", "key_unit", "nominal_local", "idempotency_key", "delivery_payload", "user_version", "failure_reason", "last_error"}

// unreadable is what the reader does not see: what is personal, and all tables of
// events but what waits.
func unreadable() []string {
	statements := slices.Concat(
		selects("users", without(people, "timezone", "deleted_at")...), selects("users", "*", "users", "to_jsonb(users)"),
		selects("series", without(series, "id", "event_id", "version", "target_timestamp_utc")...), selects("series", "*", "series", "to_jsonb(series)"),
		selects("history", history...), selects("keys", "idempotency_key"), selects("leases", "series_ids", "versions", "ahead_since", "*"),
		selects("audit", "user_id", "detail", "*", "audit"), selects("outbox", "user_id", "*", "outbox"),
		[]string{"SELECT count(*) FROM almanac.users WHERE first_name = 'Ada'", "SELECT timezone FROM almanac.users ORDER BY date_of_birth"})
	for _, view := range []string{"events", "pending_events", "processing_events", "ended_events"} {
		statements = append(statements, selects(view, unread...)...)
		statements = append(statements, selects(view, "*", view, "delivery_payload->>'message'")...)
	}
	return statements
}

func without(columns []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(column string) bool { return slices.Contains(some, column) })
}

func TestEachRoleIsRefusedOtherStatements(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	c.exec(t, "", "CREATE TABLE public.hosts (id integer)")
	for role, statements := range forbidden(c) {
		for _, sql := range statements {
			_, err := c.pools[role].Exec(t.Context(), sql)
			requireRefused(t, err, "the "+role+": "+sql)
		}
	}
}

func TestEachRoleIsRefusedTheOperationsOfOthers(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	overdue(t, c.store(t, "api"))
	e := claimOne(t, c.store(t, "worker"))
	claim := func(ctx context.Context, s *postgres.Store) error {
		_, err := s.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{e.Type}, Limit: 1, Lease: time.Minute})
		return err
	}
	renew := func(ctx context.Context, s *postgres.Store) error {
		_, err := s.Renew(ctx, []uuid.UUID{e.LeaseToken}, time.Minute)
		return err
	}
	release := func(ctx context.Context, s *postgres.Store) error {
		_, err := s.Release(ctx, e.LeaseToken)
		return err
	}
	sweep := func(ctx context.Context, s *postgres.Store) error {
		_, err := s.ReleaseExpired(ctx, 1, 1000)
		return err
	}
	settle := func(ctx context.Context, s *postgres.Store) error {
		_, err := s.Settle(ctx, []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(e.UpdatedAt)}})
		return err
	}
	update := func(ctx context.Context, s *postgres.Store) error {
		done, err := e.Complete(e.UpdatedAt)
		require.NoError(t, err)
		_, err = s.Update(ctx, done, e.Version)
		return err
	}
	reconcile := func(ctx context.Context, s *postgres.Store) error {
		_, err := newScheduler(t, s).Reconcile(ctx, almanac.ReconcileOptions{DryRun: true})
		return err
	}
	create := func(ctx context.Context, s *postgres.Store) error {
		_, err := newScheduler(t, s).CreateUser(ctx, ada)
		return err
	}
	edit := func(ctx context.Context, s *postgres.Store) error {
		name := "Augusta"
		_, err := newScheduler(t, s).UpdateUser(ctx, e.UserID, almanac.ProfileChange{FirstName: &name})
		return err
	}
	remove := func(ctx context.Context, s *postgres.Store) error { // hides them, for something is in flight
		_, err := s.DeleteUser(ctx, e.UserID, almanac.DeleteOptions{})
		return err
	}
	find := func(ctx context.Context, s *postgres.Store) error {
		_, err := s.Find(ctx, nil, almanac.Page{})
		return err
	}
	user := func(ctx context.Context, s *postgres.Store) error {
		_, err := s.User(ctx, e.UserID)
		return err
	}
	put := func(ctx context.Context, s *postgres.Store) error {
		return s.PutSetting(ctx, almanac.Setting{Name: "quiet hours"})
	}
	type operations = map[string]func(context.Context, *postgres.Store) error
	for role, others := range map[string]operations{
		"worker": {"create": create, "edit": edit, "remove": remove},
		"api":    {"claim": claim, "renew": renew, "release": release, "sweep": sweep, "settle": settle, "update": update, "reconcile": reconcile, "put a setting": put},
		"reader": {
			"claim": claim, "renew": renew, "release": release, "sweep": sweep, "settle": settle, "update": update, "reconcile": reconcile, "put a setting": put,
			"create": create, "edit": edit, "remove": remove, "find": find, "user": user,
		},
	} {
		for name, do := range others {
			requireRefused(t, do(t.Context(), c.store(t, role)), role+": "+name)
		}
	}
	stored, err := c.store(t, "worker").Event(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, e, stored, "nothing has changed it")
}

// The API ends events as CANCELLED. It cannot store that an event was delivered.
func TestTheAPIRoleStoresNoDelivery(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	end := func(status string) error {
		_, err := c.pools["api"].Exec(t.Context(), `INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc,
			target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, failure_reason, retry_count, claim_count,
			crash_count, version, created_at, updated_at)
			VALUES (gen_random_uuid(), gen_random_uuid(), 'BIRTHDAY', '2027', $1::text, now(), now(), 'UTC', 'x', 'x', '{}', 1, nullif($1::text, 'COMPLETED'), 0, 1, 0, 3, now(), now())`, status)
		return err
	}
	require.NoError(t, end("CANCELLED"))
	require.ErrorContains(t, end("COMPLETED"), "history_executed_check")
}

// Who may not execute the guard's function is stopped by it all the same.
func TestTheGuardStopsAWorkerToo(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	overdue(t, c.store(t, "api"))

	for table, column := range map[string]string{"series": "version = version - 1", "queue": "available_at = now()"} {
		_, err := c.pools["worker"].Exec(t.Context(), "UPDATE almanac."+table+" SET "+column)

		require.ErrorContains(t, err, "may not change", table)
	}
}

// Whatever columns the reader may select, now or after a later migration: no value in
// them is personal, and neither is what the statistics say of them.
func TestTheReaderRoleReadsNothingPersonal(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	require.NoError(t, postgres.EnableAudit(t.Context(), c.pools["owner"]))
	api, worker := c.store(t, "api"), c.store(t, "worker")
	secret := ada
	secret.FirstName, secret.LastName, secret.DateOfBirth = "Secretfirst", "Secretlast", "1977-03-09"
	secret.Attributes, secret.Locale, secret.Email = []byte(`{"note": "secretattribute"}`), "x-secret", "secret@example.com"
	var secrets []string
	for _, outcome := range []almanac.Outcome{almanac.Released(almanac.AfterFailure, "secreterror", time.Hour), almanac.GaveUp("secretreason"), almanac.Delivered(time.Now()), {}} {
		secret.ExternalID = fmt.Sprint("secret ", len(secrets))
		e := overdueFor(t, api, secret)
		secrets = append(secrets, e.UserID.String(), e.IdempotencyKey.String())
		c.exec(t, "owner", "UPDATE almanac.series SET occurrence_key = 'secretkey', version = version + 1 WHERE event_id = $1", e.ID)
		if outcome == (almanac.Outcome{}) {
			claimOne(t, worker)
			break
		}
		settled, err := worker.Settle(t.Context(), []almanac.Settlement{{Event: claimOne(t, worker), Outcome: outcome}})
		require.NoError(t, err)
		require.NoError(t, settled[0].Err)
	}
	c.exec(t, "", "ANALYZE")

	columns := c.lines(t, `
		SELECT format('SELECT concat(%L, string_agg(%I::text, %L)) FROM almanac.%I', c.relname || '.' || a.attname || ': ', a.attname, ' ', c.relname)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'almanac'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'S') AND has_column_privilege($1, c.oid, a.attnum, 'SELECT')
		UNION ALL SELECT 'SELECT concat(string_agg(to_jsonb(s)::text, '' '')) FROM pg_stats s WHERE s.schemaname = ''almanac'''`, c.prefix+"reader")
	require.Greater(t, len(columns), 60)
	personal := regexp.MustCompile("(?i)secret|[^0-9a-f]1977-|" + strings.Join(secrets, "|"))
	for _, sql := range columns {
		var text string
		require.NoError(t, c.pools["reader"].QueryRow(t.Context(), sql).Scan(&text), sql)
		require.NotRegexp(t, personal, text)
	}
	require.Regexp(t, personal, c.lines(t, "SELECT string_agg(to_jsonb(e)::text, ' ') FROM almanac.events e")[0])
}

func TestTheReaderRoleReadsStatistics(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	store := c.store(t, "reader")
	overdue(t, c.store(t, "api"))
	for _, statements := range [][]string{
		selects("users", "timezone", "deleted_at", "count(*)"),
		selects("events", without(events, unread...)...), selects("pending_events", without(events, unread...)...),
		selects("processing_events", without(events, unread...)...), selects("ended_events", without(events, unread...)...),
		selects("audit", "id", "at", "kind", "event_id", "event_type", "version", "actor"),
		selects("outbox", "sequence", "id", "transaction_id", "at", "kind", "event_id", "event_type", "version"), selects("outbox_consumers", "*"),
		selects("leases", without(leases, "series_ids", "versions", "ahead_since")...), selects("zone_rules", rules...), selects("zone_marks", marks...), selects("migrations", "*"),
	} {
		for _, sql := range statements {
			c.exec(t, "reader", sql)
		}
	}

	n, err := store.Count(t.Context(), almanac.InStatus(almanac.Pending))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	missed, err := store.Missed(t.Context(), []string{almanac.TypeBirthday}, 0)
	require.NoError(t, err)
	require.Equal(t, 1, missed.Count)
	_, waiting, err := store.Until(t.Context(), []string{almanac.TypeBirthday}, time.Time{})
	require.NoError(t, err)
	require.True(t, waiting)
}

// Every role but the relay reads the same statistics, also through a store that only reads.
func TestRolesReadTheSameStatistics(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	for range 3 {
		overdue(t, c.store(t, "api"))
	}
	worker := c.store(t, "worker")
	for _, outcome := range []almanac.Outcome{almanac.GaveUp("HTTP 404"), almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour)} {
		settled, err := worker.Settle(t.Context(), []almanac.Settlement{{Event: claimOne(t, worker), Outcome: outcome}})
		require.NoError(t, err)
		require.NoError(t, settled[0].Err)
	}
	claimOne(t, worker)
	count := ops.Count{N: 1}
	want := []ops.TypeCount{
		{Type: almanac.TypeBirthday, Status: almanac.Pending, Count: count},
		{Type: almanac.TypeBirthday, Status: almanac.Processing, Count: count},
		{Type: almanac.TypeBirthday, Status: almanac.Failed, Count: count},
	}
	for _, role := range []string{"reader", "worker", "api", "operator", "owner"} {
		for _, options := range [][]postgres.Option{nil, {postgres.ReadOnly(0)}} {
			store, err := postgres.New(c.pools[role], options...)
			require.NoError(t, err)
			stats, err := store.Stats(t.Context())
			require.NoError(t, err, role)
			require.Equal(t, want, stats.Events, role)
			require.Equal(t, ops.Count{N: 3}, stats.Users, role)
			leases, err := store.Leases(t.Context(), 0)
			retries, refused := store.Retries(t.Context())
			if role == "reader" {
				requireRefused(t, refused, "the reader reads errors")
			} else {
				require.NoError(t, refused, role)
				require.Equal(t, "HTTP 503", retries.Events[0].Error, role)
			}
			if role == "api" {
				requireRefused(t, err, "the API lists leases")
				continue
			}
			require.NoError(t, err, role)
			require.Len(t, leases, 1, role)
		}
	}
	_, err := c.store(t, "relay").Stats(t.Context())
	requireRefused(t, err, "the relay reads statistics")
}

// A role that may not read the history sees the latest ended events through the view, and their shares of a long history.
func TestTheReaderRoleEstimatesALongHistory(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	c.exec(t, "", `INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local, target_timezone,
			policies, idempotency_key, delivery_payload, user_version, executed_at, failure_reason, retry_count, claim_count, crash_count, version, created_at, updated_at)
		SELECT md5(n::text)::uuid, md5(n::text)::uuid, 'BIRTHDAY', '2027', CASE WHEN n % 10 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, now(), now(), 'UTC', 'x', n::text,
			'{}', 1, CASE WHEN n % 10 > 0 THEN now() END, CASE WHEN n % 10 = 0 THEN 'HTTP 404' END, 0, 1, 0, 3, now(), now()
		FROM generate_series(1, 40000) n`)
	read := func() (completed, failed ops.Count, analyzed time.Time) {
		stats, err := c.store(t, "reader").Stats(t.Context())
		require.NoError(t, err)
		return countOf(stats, almanac.TypeBirthday, almanac.Completed), countOf(stats, almanac.TypeBirthday, almanac.Failed), stats.Analyzed
	}
	completed, failed, analyzed := read()
	require.Equal(t, ops.AtLeast, completed.Kind, "not analyzed yet")
	require.EqualValues(t, 5000, completed.N+failed.N)
	require.Zero(t, analyzed)

	c.exec(t, "", "ANALYZE almanac.history")
	require.Eventually(t, func() bool { // statistics of the server arrive a moment later
		completed, failed, analyzed = read()
		return completed.Kind == ops.Estimated
	}, 20*time.Second, 10*time.Millisecond)
	near(t, 36_000, completed, "completed")
	near(t, 4000, failed, "failed")
	require.WithinDuration(t, time.Now(), analyzed, time.Minute)
}
