package postgres_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

var update = flag.Bool("update", false, "write catalog.txt anew, after a change of the schema")

// What Examine expects is what the migrations make.
func TestTheCatalogMatchesTheSchema(t *testing.T) {
	t.Parallel()
	got, err := newStore(t).Catalog(t.Context())
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("catalog.txt", []byte(got), 0o644))
	}

	want, err := os.ReadFile("catalog.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./postgres -run TestTheCatalogMatchesTheSchema -update writes it anew")
}

// emptyPool is a pool on a database without a schema, of one connection, so that what
// is set for the session stays.
func emptyPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.EmptyURL(t))
	require.NoError(t, err)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// examine returns what differs in a schema, in words.
func examine(t *testing.T, db postgres.DB, schema string) []string {
	t.Helper()
	store := mustStore(t, db, postgres.WithSchema(schema))
	differences, err := store.Examine(t.Context())
	require.NoError(t, err)
	said := []string{}
	for _, d := range differences {
		said = append(said, d.String())
	}
	return said
}

// A schema may be called what must be quoted, or what occurs in its own definitions.
func TestNothingDiffersInASchemaOfAnyName(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	for _, schema := range []string{"almanac", "user", "old", "new", "s", "events", "_1", "pgx_", strings.Repeat("x", 63)} {
		require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.WithSchema(schema)), schema)
		require.Empty(t, examine(t, pool, schema), schema)
	}
}

// How the session writes dates and names, and where it looks for tables, is the
// host's to choose, and is as it was afterwards.
func TestSettingsOfTheSessionMakeNoDifference(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(pgtest.Direct(t, pgtest.URL(t)))
	require.NoError(t, err)
	config.RuntimeParams["datestyle"] = "SQL, DMY"
	config.RuntimeParams["quote_all_identifiers"] = "on"
	config.RuntimeParams["search_path"] = "somewhere"
	config.RuntimeParams["default_transaction_isolation"] = "serializable"
	config.RuntimeParams["default_transaction_read_only"] = "on"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()

	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	require.Empty(t, examine(t, tx, "almanac"))
	var path string
	require.NoError(t, tx.QueryRow(t.Context(), "SHOW search_path").Scan(&path))
	require.Equal(t, "somewhere", path, "in the host's transaction, after it")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, examine(t, conn, "almanac"))
}

func TestAReaderMayExamine(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	require.Empty(t, examine(t, c.pools["reader"], "almanac"))

	c.exec(t, "owner", "REVOKE USAGE ON SCHEMA almanac FROM "+c.prefix+"reader")
	_, err := c.store(t, "reader").Examine(t.Context())
	require.EqualError(t, err, "postgres: examine schema almanac: this role has no USAGE on the schema")
}

// The triggers of the trail are Almanac's, all of them or none.
func TestTheTriggersOfTheTrailAreExpected(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	require.Empty(t, examine(t, pool, "almanac"))

	_, err := pool.Exec(t.Context(), "DROP TRIGGER leases_audit ON almanac.leases; ALTER TABLE almanac.series DISABLE TRIGGER series_audit")
	require.NoError(t, err)
	said := examine(t, pool, "almanac")
	require.Len(t, said, 2)
	require.Contains(t, said[0], "trigger leases.leases_audit is missing: CREATE TRIGGER leases_audit AFTER INSERT ON leases ")
	require.Contains(t, said[1], "EXECUTE FUNCTION write_audit() DISABLED, not CREATE TRIGGER series_audit ")

	require.NoError(t, postgres.DisableAudit(t.Context(), pool))
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	require.Empty(t, examine(t, pool, "almanac"), "switching it off and on mends it")
}

func TestAMissingSchemaLacksEveryTable(t *testing.T) {
	t.Parallel()
	said := examine(t, emptyPool(t), "almanac")
	require.Len(t, said, 28+4+12, "tables, views, functions")
	require.Equal(t, "table audit is missing: ordinary", said[0])
}

func TestDifferencesFromTheMigrationsAreFound(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		sql  string
		want []postgres.Difference
	}{
		"a table that is gone": {`DROP TABLE zone_rules`, []postgres.Difference{{postgres.KindTable, "zone_rules", "ordinary", ""}}},
		"a table more":         {`CREATE TABLE mine (id integer PRIMARY KEY) WITH (fillfactor = 90)`, []postgres.Difference{{postgres.KindTable, "mine", "", "ordinary"}}},
		"no write-ahead log":   {`ALTER TABLE keys SET UNLOGGED`, []postgres.Difference{{postgres.KindTable, "keys", "ordinary", "ordinary, unlogged"}}},
		"row security":         {`ALTER TABLE keys ENABLE ROW LEVEL SECURITY`, []postgres.Difference{{postgres.KindTable, "keys", "ordinary", "ordinary, row security"}}},
		"a column that is gone": {`ALTER TABLE zone_rules DROP COLUMN recheck`, []postgres.Difference{
			{postgres.KindColumn, "zone_rules.recheck", "timestamp with time zone", ""},
			{postgres.KindConstraint, "zone_rules.zone_rules_recheck_check", "CHECK (((recheck >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (recheck < '10000-01-01 00:00:00+00'::timestamp with time zone)))", ""},
		}},
		"a column more": {`ALTER TABLE users ADD COLUMN mine text GENERATED ALWAYS AS (first_name || 'x') STORED`, []postgres.Difference{
			{postgres.KindColumn, "users.mine", "", "text GENERATED S AS (first_name || 'x'::text)"},
		}},
		"another type": {`ALTER TABLE zone_rules ALTER COLUMN version TYPE varchar(50)`, []postgres.Difference{
			{postgres.KindColumn, "zone_rules.version", "text NOT NULL", "character varying(50) NOT NULL"},
		}},
		"another nullability": {`ALTER TABLE zone_rules ALTER COLUMN version DROP NOT NULL`, []postgres.Difference{
			{postgres.KindColumn, "zone_rules.version", "text NOT NULL", "text"},
		}},
		"another default": {`ALTER TABLE zone_rules ALTER COLUMN since SET DEFAULT 7`, []postgres.Difference{
			{postgres.KindColumn, "zone_rules.since", "integer NOT NULL", "integer NOT NULL DEFAULT 7"},
		}},
		"another identity": {`ALTER TABLE series ALTER COLUMN id SET GENERATED BY DEFAULT`, []postgres.Difference{
			{postgres.KindColumn, "series.id", "bigint NOT NULL GENERATED ALWAYS AS IDENTITY", "bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY"},
		}},
		"another collation": {`ALTER TABLE keys ALTER COLUMN idempotency_key TYPE text COLLATE "POSIX"`, []postgres.Difference{
			{postgres.KindColumn, "keys.idempotency_key", `text COLLATE "C" NOT NULL`, `text COLLATE "POSIX" NOT NULL`},
		}},
		"another storage": {`ALTER TABLE leases ALTER COLUMN versions SET STORAGE EXTENDED`, []postgres.Difference{
			{postgres.KindColumn, "leases.versions", "integer[] NOT NULL STORAGE EXTERNAL", "integer[] NOT NULL"},
		}},
		"a constraint that is gone": {`ALTER TABLE series DROP CONSTRAINT series_user_id_fkey`, []postgres.Difference{
			{postgres.KindConstraint, "series.series_user_id_fkey", "FOREIGN KEY (user_id) REFERENCES users(id)", ""},
		}},
		"a constraint that was not checked": {`ALTER TABLE users ADD CONSTRAINT mine CHECK (version > 0) NOT VALID`, []postgres.Difference{
			{postgres.KindConstraint, "users.mine", "", "CHECK ((version > 0)) NOT VALID"},
		}},
		"an index that is gone": {`DROP INDEX queue_due`, []postgres.Difference{
			{postgres.KindIndex, "queue.queue_due", "CREATE INDEX queue_due ON queue USING btree (event_type, lane, available_at, event_id)", ""},
		}},
		"another order of its columns": {`DROP INDEX queue_due; CREATE INDEX queue_due ON queue (event_id, available_at)`, []postgres.Difference{
			{postgres.KindIndex, "queue.queue_due", "CREATE INDEX queue_due ON queue USING btree (event_type, lane, available_at, event_id)", "CREATE INDEX queue_due ON queue USING btree (event_id, available_at)"},
		}},
		"another condition": {`DROP INDEX users_deleted; CREATE INDEX users_deleted ON users (id)`, []postgres.Difference{
			{postgres.KindIndex, "users.users_deleted", "CREATE INDEX users_deleted ON users USING btree (id) WHERE (deleted_at IS NOT NULL)", "CREATE INDEX users_deleted ON users USING btree (id)"},
		}},
		"an index that was not finished": {`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'history_user'::regclass`, []postgres.Difference{
			{postgres.KindIndex, "history.history_user", "CREATE INDEX history_user ON history USING btree (user_id)", "CREATE INDEX history_user ON history USING btree (user_id) INVALID"},
		}},
		"a trigger that is off": {`ALTER TABLE queue DISABLE TRIGGER queue_guard`, []postgres.Difference{
			{postgres.KindTrigger, "queue.queue_guard", "CREATE TRIGGER queue_guard AFTER UPDATE ON queue FOR EACH ROW EXECUTE FUNCTION refuse_change()", "CREATE TRIGGER queue_guard AFTER UPDATE ON queue FOR EACH ROW EXECUTE FUNCTION refuse_change() DISABLED"},
		}},
		"settings": {`ALTER TABLE series SET (fillfactor = 90); ALTER TABLE keys SET (autovacuum_enabled = off)`, []postgres.Difference{
			{postgres.KindSettings, "keys", "", "autovacuum_enabled=off"},
			{postgres.KindSettings, "series", "autovacuum_vacuum_scale_factor=0.05, fillfactor=50", "autovacuum_vacuum_scale_factor=0.05, fillfactor=90"},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			_, err := pool.Exec(t.Context(), `SET LOCAL search_path TO almanac; `+tt.sql)
			require.NoError(t, err)
			store := mustStore(t, pool)

			differences, err := store.Examine(t.Context())

			require.NoError(t, err)
			require.Equal(t, tt.want, differences)
		})
	}
}

// Long definitions are compared too, whole.
func TestChangedFunctionsAreFound(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ sql, kind, found string }{
		"a condition in a view":              {`CREATE OR REPLACE VIEW pending_events AS ` + strings.Replace(pendingEvents, "BETWEEN s.event_id AND s.event_id", "= s.event_id", 1), "view pending_events is ", " AND (event_id = event_id)))"},
		"rights of a view":                   {`ALTER VIEW events SET (security_barrier)`, "view events is ", "WITH (security_barrier=true) "},
		"a view that is gone":                {`DROP VIEW events`, "view events is missing: ", " UNION ALL "},
		"the body of a function":             {`CREATE OR REPLACE FUNCTION follow_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS 'BEGIN RETURN NULL; END'`, "function follow_user() is ", " AS BEGIN RETURN NULL; END, not "},
		"SECURITY INVOKER":                   {`ALTER FUNCTION follow_user() SECURITY INVOKER`, "function follow_user() is ", "RETURNS trigger LANGUAGE plpgsql SET search_path=SCHEMA, pg_temp, enable_seqscan=off"},
		"its search_path":                    {`ALTER FUNCTION follow_user() RESET search_path`, "function follow_user() is ", "LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan=off"},
		"a function more":                    {`CREATE FUNCTION mine(a integer) RETURNS integer LANGUAGE sql STABLE STRICT AS 'SELECT 1'`, "function mine(a integer) is not Almanac's: ", "RETURNS integer LANGUAGE sql STABLE STRICT AS SELECT 1"},
		"a trigger's condition":              {`DROP TRIGGER users_followed ON users; CREATE TRIGGER users_followed AFTER UPDATE OF version ON users FOR EACH ROW EXECUTE FUNCTION follow_user()`, "trigger users.users_followed is ", "not CREATE TRIGGER users_followed AFTER UPDATE ON users REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE"},
		"a trigger more":                     {`CREATE TRIGGER mine BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION refuse_change()`, "trigger users.mine is not Almanac's: ", "CREATE TRIGGER mine BEFORE INSERT"},
		"a search_path that leads elsewhere": {`ALTER FUNCTION follow_user() SET search_path TO elsewhere, pg_temp`, "function follow_user() is ", "SET search_path=elsewhere, pg_temp, enable_seqscan=off"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			_, err := pool.Exec(t.Context(), `SET LOCAL search_path TO almanac; `+tt.sql)
			require.NoError(t, err)

			said := examine(t, pool, "almanac")

			require.Len(t, said, 1, "%s", strings.Join(said, "\n"))
			require.True(t, strings.HasPrefix(said[0], tt.kind), said[0])
			require.Contains(t, said[0], tt.found)
		})
	}
}

// A dump writes what PostgreSQL says that things are, and the restored things are said
// to be something else: a NOT BETWEEN has lost its own parentheses then.
func TestADumpThatWasRestoredDoesNotDiffer(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), `
		SET LOCAL search_path TO almanac;
		DO $$
		DECLARE
			x record;
		BEGIN
			FOR x IN SELECT * FROM (VALUES ('pending_events'), ('processing_events'), ('ended_events'), ('events')) v (name) LOOP
				EXECUTE format('CREATE OR REPLACE VIEW %I AS %s', x.name, pg_get_viewdef(x.name::regclass));
			END LOOP;
			FOR x IN SELECT conname, conrelid::regclass AS relation, pg_get_constraintdef(oid) AS definition FROM pg_constraint
				WHERE connamespace = 'almanac'::regnamespace AND contype = 'c' LOOP
				EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %2$I %3$s', x.relation, x.conname, x.definition);
			END LOOP;
			FOR x IN SELECT tgname, tgrelid::regclass AS relation, pg_get_triggerdef(oid) AS definition FROM pg_trigger WHERE NOT tgisinternal LOOP
				EXECUTE format('DROP TRIGGER %I ON %s; %s', x.tgname, x.relation, x.definition);
			END LOOP;
			FOR x IN SELECT indexrelid::regclass AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index
				WHERE indpred IS NOT NULL AND indrelid IN ('users'::regclass, 'history'::regclass) LOOP
				EXECUTE format('DROP INDEX %s; %s', x.name, x.definition);
			END LOOP;
		END
		$$`)
	require.NoError(t, err)
	store := mustStore(t, pool)
	restored, err := store.Catalog(t.Context())
	require.NoError(t, err)
	require.Contains(t, restored, "AND ((new.version < old.version) OR ", "or this test would say nothing")

	require.Empty(t, examine(t, pool, "almanac"))
}

// pendingEvents is the query of the view of that name, from the schema file.
var pendingEvents = func() string {
	_, query, _ := strings.Cut(almanac.Schema(), `CREATE VIEW :"schema".pending_events AS`)
	query, _, _ = strings.Cut(query, ";")
	return strings.ReplaceAll(query, `:"schema".`, "")
}()
