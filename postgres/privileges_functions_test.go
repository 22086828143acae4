package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// generous gives PUBLIC everything that is made from now on.
const generous = `
	ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO PUBLIC;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO PUBLIC`

// public returns what PUBLIC may do in a schema besides reading.
func public(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	found := []string{}
	rows, err := pool.Query(t.Context(), `
		SELECT format('%s: %s', p.proname, a.privilege_type)
		FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
		WHERE p.pronamespace = $1::text::regnamespace AND a.grantee = 0
		UNION ALL
		SELECT format('%s: %s', c.relname, a.privilege_type)
		FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))) a
		WHERE c.relnamespace = $1::text::regnamespace AND a.grantee = 0 AND a.privilege_type NOT IN ('SELECT', 'MAINTAIN')
		UNION ALL
		SELECT format('%s.%s: %s', c.relname, t.attname, a.privilege_type)
		FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
		WHERE c.relnamespace = $1::text::regnamespace AND a.grantee = 0 AND a.privilege_type <> 'SELECT'
		UNION ALL
		SELECT 'schema: ' || a.privilege_type
		FROM pg_namespace n, aclexplode(n.nspacl) a
		WHERE n.nspname = $1 AND a.grantee = 0
		ORDER BY 1`, schema)
	require.NoError(t, err)
	var line string
	for rows.Next() {
		require.NoError(t, rows.Scan(&line))
		found = append(found, line)
	}
	require.NoError(t, rows.Err())
	return found
}

// Whatever migrates, and whatever default privileges the host has: PUBLIC executes and
// writes nothing. A migration that makes something has to see to it.
func TestMigrationsGrantNothingToPublic(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, pool *pgxpool.Pool){
		"Migrate": func(t *testing.T, pool *pgxpool.Pool) {
			t.Helper()
			require.NoError(t, postgres.Migrate(t.Context(), pool))
		},
		"schema.sql": func(t *testing.T, pool *pgxpool.Pool) {
			t.Helper()
			written(t, pool, "almanac")
		},
		"down and up again": func(t *testing.T, pool *pgxpool.Pool) {
			t.Helper()
			require.NoError(t, postgres.Migrate(t.Context(), pool))
			require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}))
			require.NoError(t, postgres.Migrate(t.Context(), pool))
		},
	}
	for _, layout := range postgres.Layouts() {
		ways["export for "+string(layout)] = func(t *testing.T, pool *pgxpool.Pool) {
			t.Helper()
			require.NoError(t, apply(t, pool, exported(t, postgres.Export{Layout: layout}).up))
		}
	}
	for name, migrate := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := emptyPool(t)
			_, err := pool.Exec(t.Context(), generous)
			require.NoError(t, err)

			migrate(t, pool)

			require.Empty(t, public(t, pool, "almanac"))
			require.NoError(t, postgres.EnableAudit(t.Context(), pool))
			require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
			require.Empty(t, public(t, pool, "almanac"), "with a trail and an outbox")
		})
	}
}

// Even who owns everything cannot make a function the trigger of another table, or of
// another command: by mistake as little as on purpose.
func TestFunctionsServeTheirOwnTriggersOnly(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	_, err := pool.Exec(t.Context(), insertUser+`; CREATE SCHEMA other; CREATE TABLE other.users AS SELECT * FROM almanac.users;
		CREATE TABLE other.queue (LIKE almanac.queue); CREATE TABLE other.series (LIKE almanac.series); CREATE TABLE other.history (LIKE almanac.history); CREATE TABLE other.leases (LIKE almanac.leases)`)
	require.NoError(t, err)

	for _, tt := range []struct{ trigger, cause, want string }{
		{"AFTER UPDATE ON other.users FOR EACH ROW EXECUTE FUNCTION almanac.follow_user()", "UPDATE other.users SET version = 2", "follow_user is for updates of users alone"},
		{"AFTER DELETE ON almanac.users FOR EACH ROW EXECUTE FUNCTION almanac.follow_user()", "DELETE FROM almanac.users", "follow_user is for updates of users alone"},
		{"AFTER UPDATE ON almanac.users EXECUTE FUNCTION almanac.follow_user()", "CREATE TEMP TABLE changed AS SELECT id, 9 AS version FROM almanac.users; UPDATE almanac.users SET last_name = 'King'", "follow_user is for updates of users alone"},
		{"BEFORE DELETE ON other.users FOR EACH ROW EXECUTE FUNCTION almanac.forget_user()", "DELETE FROM other.users", "forget_user is for deletions of users alone"},
		{"BEFORE UPDATE ON almanac.users FOR EACH ROW EXECUTE FUNCTION almanac.forget_user()", "UPDATE almanac.users SET last_name = 'King'", "forget_user is for deletions of users alone"},
		{"AFTER INSERT ON other.queue FOR EACH ROW EXECUTE FUNCTION almanac.visit_lane()", "INSERT INTO other.queue (available_at, event_id, series_id, event_type, lane) VALUES (now(), gen_random_uuid(), 1, 'A', 'crm')", "visit_lane is for the trigger of the queue alone"},
		{"AFTER INSERT ON almanac.queue EXECUTE FUNCTION almanac.visit_lane()", "CREATE TEMP TABLE added AS SELECT now() AS available_at, 'A'::text AS event_type, 'crm'::text AS lane; INSERT INTO almanac.queue (available_at, event_id, series_id, event_type) VALUES (now(), gen_random_uuid(), 1, 'A')", "visit_lane is for the trigger of the queue alone"},
		{"AFTER TRUNCATE ON almanac.queue EXECUTE FUNCTION almanac.visit_lane()", "TRUNCATE almanac.queue", "visit_lane is for the trigger of the queue alone"},
		{"AFTER DELETE ON other.leases EXECUTE FUNCTION almanac.write_audit()", "DELETE FROM other.leases", "write_audit is for the triggers of the trail alone"},
		{"AFTER DELETE ON almanac.series EXECUTE FUNCTION almanac.write_audit()", "DELETE FROM almanac.series", "write_audit is for the triggers of the trail alone"},
		{"AFTER INSERT ON other.history EXECUTE FUNCTION almanac.write_audit()", "INSERT INTO other.history SELECT * FROM almanac.history", "write_audit is for the triggers of the trail alone"},
		{"AFTER UPDATE ON almanac.history EXECUTE FUNCTION almanac.write_audit()", "UPDATE almanac.history SET version = 1", "write_audit is for the triggers of the trail alone"},
		{"AFTER INSERT ON other.leases EXECUTE FUNCTION almanac.write_audit()", "INSERT INTO other.leases SELECT * FROM almanac.leases", "write_audit is for the triggers of the trail alone"},
		{"AFTER UPDATE ON almanac.leases EXECUTE FUNCTION almanac.write_audit()", "UPDATE almanac.leases SET owner = ''", "write_audit is for the triggers of the trail alone"},
		{"AFTER INSERT ON other.users FOR EACH ROW EXECUTE FUNCTION almanac.write_audit()", "INSERT INTO other.users SELECT * FROM almanac.users", "write_audit is for the triggers of the trail alone"},
		{"AFTER DELETE ON almanac.users FOR EACH ROW EXECUTE FUNCTION almanac.write_audit()", "DELETE FROM almanac.users", "write_audit is for the triggers of the trail alone"},
		{"AFTER INSERT ON other.users FOR EACH ROW EXECUTE FUNCTION almanac.write_outbox()", "INSERT INTO other.users SELECT * FROM almanac.users", "write_outbox is for the triggers of the outbox alone"},
		{"BEFORE TRUNCATE ON almanac.users EXECUTE FUNCTION almanac.write_outbox()", "TRUNCATE almanac.users CASCADE", "write_outbox is for the triggers of the outbox alone"},
		{"AFTER DELETE ON other.leases EXECUTE FUNCTION almanac.write_outbox()", "DELETE FROM other.leases", "write_outbox is for the triggers of the outbox alone"},
		{"AFTER DELETE ON almanac.series EXECUTE FUNCTION almanac.write_outbox()", "DELETE FROM almanac.series", "write_outbox is for the triggers of the outbox alone"},
		{"AFTER INSERT ON other.history EXECUTE FUNCTION almanac.write_outbox()", "INSERT INTO other.history SELECT * FROM almanac.history", "write_outbox is for the triggers of the outbox alone"},
		{"AFTER UPDATE ON almanac.history EXECUTE FUNCTION almanac.write_outbox()", "UPDATE almanac.history SET version = 1", "write_outbox is for the triggers of the outbox alone"},
	} {
		_, err := pool.Exec(t.Context(), "CREATE TRIGGER borrowed "+tt.trigger+"; "+tt.cause)

		requireRefused(t, err, tt.trigger)
		require.ErrorContains(t, err, tt.want)
	}
}

// traps are operators and functions that PostgreSQL would prefer to its own where
// types fit better, for every pair of types that it has none for exactly.
const traps = `
	DO $$
	DECLARE
		types text[] := ARRAY['varchar', 'text', 'name', 'uuid', 'integer', 'bigint', 'oid', 'regclass', 'timestamptz', 'date', 'xid8', 'pg_snapshot', 'bigint[]', 'uuid[]', 'integer[]'];
		l text; r text; o text;
	BEGIN
		FOREACH l IN ARRAY types LOOP
			EXECUTE format('CREATE FUNCTION almanac.lower(%s) RETURNS text LANGUAGE plpgsql AS ''BEGIN RAISE ''''trapped''''; END''', l);
			EXECUTE format('CREATE FUNCTION almanac.unnest(%s) RETURNS SETOF bigint LANGUAGE plpgsql AS ''BEGIN RAISE ''''trapped''''; END''', l);
			FOREACH r IN ARRAY types LOOP
				EXECUTE format('CREATE FUNCTION almanac.trap(%s, %s) RETURNS boolean LANGUAGE plpgsql AS ''BEGIN RAISE ''''trapped''''; END''', l, r);
				FOREACH o IN ARRAY ARRAY['=', '<>', '<', '>', '<=', '>=', '~', '+', '||'] LOOP
					EXECUTE format('CREATE OPERATOR almanac.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = almanac.trap)', o, l, r);
				END LOOP;
			END LOOP;
		END LOOP;
	END
	$$`

// Who may create in the schema, as everybody may in public before PostgreSQL 15, puts
// nothing of theirs into functions that act as their owner.
func TestFunctionsUseNothingThatWasAddedToTheSchema(t *testing.T) {
	t.Parallel()
	s := newStranger(t, "GRANT CREATE ON SCHEMA almanac TO {role}")
	require.NoError(t, s.try(t, traps))
	scheduler := newScheduler(t, s.store)

	settle := func(e almanac.Event, o almanac.Outcome) {
		settled, err := s.store.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: o}})
		require.NoError(t, err)
		require.NoError(t, settled[0].Err)
	}
	e := claimOne(t, s.store)
	settle(e, almanac.Released(almanac.AfterFailure, "busy", 0))
	name := "Augusta"
	_, err := scheduler.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{FirstName: &name})
	require.NoError(t, err)
	settle(claimOne(t, s.store), almanac.Delivered(time.Now()))
	require.Equal(t, []string{"created", "rescheduled", "claimed", "released", "claimed", "completed"}, kinds(t, s.store, e.ID))
	_, err = scheduler.DeleteUser(t.Context(), e.UserID, almanac.DeleteOptions{AtOnce: true})
	require.NoError(t, err)
	require.Empty(t, kinds(t, s.store, e.ID))
}
