package postgres_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
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
		"DROP FUNCTION almanac.refuse_event_change()",
		"DELETE FROM almanac.migrations WHERE false",
		"SET ROLE " + c.prefix + "owner",
		"SET session_replication_role = replica",
		"CREATE ROLE " + c.prefix + "mine",
		"CREATE DATABASE " + c.prefix + "mine",
	}
	statements = append(statements, inserts("migrations", "version", "name", "applied_at")...)
	statements = append(statements, updates("migrations", "version", "name", "applied_at")...)
	for _, table := range []string{"almanac.users", "almanac.events", "almanac.leases", "almanac.zone_rules", "almanac.migrations"} {
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

// What an event is not born with, and what never changes.
var (
	outcomes = []string{"status", "lease_token", "executed_at", "failure_reason", "last_error", "retry_count", "claim_count", "crash_count"}
	births   = []string{"id", "user_id", "event_type", "idempotency_key", "created_at"}
	leases   = []string{"token", "owner", "event_ids", "claimed_at", "expires_at"}
	rules    = []string{"zone", "fingerprint", "since", "version", "recheck"}
	people   = []string{"id", "first_name", "last_name", "date_of_birth", "timezone", "attributes", "version", "deleted_at", "created_at", "updated_at"}
	targets  = []string{"occurrence_key", "target_timestamp_utc", "target_timestamp_local", "target_timezone", "policies",
		"delivery_payload", "user_version", "available_at", "version", "updated_at"}
)

func forbidden(c *cast) map[string][]string {
	later := []string{"version", "created_at", "updated_at"}
	return map[string][]string{
		"worker": slices.Concat(anyones(c),
			inserts("users", people...), updates("users", without(people, "updated_at")...),
			inserts("events", slices.Concat(outcomes, later)...), updates("events", births...),
			updates("leases", without(leases, "claimed_at", "expires_at")...),
			[]string{"DELETE FROM almanac.zone_rules WHERE false"}),
		"api": slices.Concat(anyones(c),
			inserts("users", "version", "deleted_at", "created_at", "updated_at"), updates("users", "id", "created_at"),
			inserts("events", slices.Concat(outcomes, later)...), updates("events", slices.Concat(outcomes, births)...),
			selects("leases", without(leases, "event_ids")...), inserts("leases", leases...), updates("leases", leases...),
			selects("zone_rules", rules...), inserts("zone_rules", rules...), updates("zone_rules", rules...),
			[]string{
				"DELETE FROM almanac.leases WHERE false", "DELETE FROM almanac.zone_rules WHERE false",
				"DO $$ BEGIN LOCK TABLE almanac.zone_rules IN SHARE ROW EXCLUSIVE MODE; END $$",
			}),
		"reader": slices.Concat(anyones(c),
			selects("users", "first_name", "last_name", "date_of_birth", "attributes", "*", "users", "to_jsonb(users)"),
			selects("events", "delivery_payload", "*", "events", "delivery_payload->>'message'"),
			inserts("users", people...), updates("users", people...),
			inserts("events", slices.Concat(births, targets, outcomes)...), updates("events", slices.Concat(births, targets, outcomes)...),
			inserts("leases", leases...), updates("leases", leases...),
			inserts("zone_rules", rules...), updates("zone_rules", rules...),
			[]string{
				"SELECT id FROM almanac.users WHERE first_name = 'Ada'", "SELECT id FROM almanac.users ORDER BY date_of_birth",
				"SELECT id FROM almanac.users FOR SHARE", "SELECT id FROM almanac.events FOR UPDATE SKIP LOCKED",
				"SELECT token FROM almanac.leases FOR UPDATE", "DO $$ BEGIN LOCK TABLE almanac.zone_rules IN SHARE ROW EXCLUSIVE MODE; END $$",
				"DELETE FROM almanac.users", "DELETE FROM almanac.events", "DELETE FROM almanac.leases", "DELETE FROM almanac.zone_rules",
			}),
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

func without(columns []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(column string) bool { return slices.Contains(some, column) })
}

func TestEachRoleIsRefusedWhatIsNotItsPart(t *testing.T) {
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
	overdue(t, c.pools[""], c.store(t, "api"))
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
		_, err := s.ReleaseExpired(ctx, 1)
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
		_, err := newScheduler(t, s).Reconcile(ctx, almanac.Reconcile{DryRun: true})
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
		_, err := s.DeleteUser(ctx, e.UserID, almanac.Delete{})
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
	type operations = map[string]func(context.Context, *postgres.Store) error
	for role, others := range map[string]operations{
		"worker": {"create": create, "edit": edit, "remove": remove},
		"api":    {"claim": claim, "renew": renew, "release": release, "sweep": sweep, "settle": settle, "update": update, "reconcile": reconcile},
		"reader": {
			"claim": claim, "renew": renew, "release": release, "sweep": sweep, "settle": settle, "update": update, "reconcile": reconcile,
			"create": create, "edit": edit, "remove": remove, "find": find, "user": user,
		},
	} {
		for name, do := range others {
			requireRefused(t, do(t.Context(), c.store(t, role)), role+": "+name)
		}
	}
	stored, err := c.store(t, "worker").Event(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, e, stored, "nobody did anything to it")
}

// Who may not execute the guard's function is stopped by it all the same.
func TestTheGuardStopsAWorkerToo(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	overdue(t, c.pools[""], c.store(t, "api"))

	_, err := c.pools["worker"].Exec(t.Context(), "UPDATE almanac.events SET last_error = 'x'")

	require.ErrorContains(t, err, "may not change")
}

func TestTheReaderRoleSeesHowThingsStand(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	store := c.store(t, "reader")
	overdue(t, c.pools[""], c.store(t, "api"))
	for _, statements := range [][]string{
		selects("users", "id", "timezone", "version", "deleted_at", "created_at", "updated_at"),
		selects("events", slices.Concat(births, outcomes, without(targets, "delivery_payload"))...),
		selects("leases", leases...), selects("zone_rules", rules...), selects("migrations", "*"),
	} {
		for _, sql := range statements {
			c.exec(t, "reader", sql)
		}
	}

	n, err := store.Count(t.Context(), almanac.InStatus(almanac.Pending))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	missed, err := store.Missed(t.Context(), []string{almanac.TypeBirthday}, time.Second)
	require.NoError(t, err)
	require.Equal(t, 1, missed.Count)
	_, waiting, err := store.Until(t.Context(), []string{almanac.TypeBirthday})
	require.NoError(t, err)
	require.True(t, waiting)
}
