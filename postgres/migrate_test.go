package postgres_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// The catalog queries describe everything that schema.sql can say about a schema.
// Names are left unqualified, so that two schemas can be compared.
var catalog = map[string]string{
	"columns": `
		SELECT format('%s.%s %s null=%s default=%s collation=%s at %s', table_name, column_name,
			coalesce(nullif(udt_name, ''), data_type) || coalesce('(' || character_maximum_length || ')', ''),
			is_nullable, column_default, collation_name, ordinal_position)
		FROM information_schema.columns WHERE table_schema = $1`,
	"constraints": `
		SELECT format('%s on %s: %s', conname, conrelid::regclass, replace(pg_get_constraintdef(oid), ' NOT VALID', ''))
		FROM pg_constraint WHERE connamespace = $1::text::regnamespace`,
	"indexes": `
		SELECT indexdef FROM pg_indexes WHERE schemaname = $1`,
	"storage": `
		SELECT format('%s: %s', relname, reloptions) FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'`,
	"triggers": `
		SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE c.relnamespace = $1::text::regnamespace AND NOT t.tgisinternal`,
	"functions": `
		SELECT replace(pg_get_functiondef(oid), 'search_path TO ' || quote_literal($1), 'search_path TO SCHEMA') FROM pg_proc WHERE pronamespace = $1::text::regnamespace`,
	"rights": `
		SELECT format('%s: %s %s', relname, relacl, (SELECT array_agg(attacl) FROM pg_attribute WHERE attrelid = c.oid AND attacl IS NOT NULL))
		FROM pg_class c WHERE relnamespace = $1::text::regnamespace AND relkind <> 'i'
		UNION ALL
		SELECT format('%s: %s', proname, proacl) FROM pg_proc WHERE pronamespace = $1::text::regnamespace
		UNION ALL
		SELECT format('schema: %s', nspacl) FROM pg_namespace WHERE nspname = $1`,
	"views": `
		SELECT pg_get_viewdef(oid) FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'v'`,
	"comments": `
		SELECT format('%s.%s: %s', c.relname, d.objsubid, d.description) FROM pg_description d JOIN pg_class c ON c.oid = d.objoid
		WHERE c.relnamespace = $1::text::regnamespace AND d.classoid = 'pg_class'::regclass`,
}

func describe(t *testing.T, pool *pgxpool.Pool, schema string) map[string][]string {
	t.Helper()
	described := make(map[string][]string)
	for part, sql := range catalog {
		rows, err := pool.Query(t.Context(), sql, schema)
		require.NoError(t, err, part)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err, part)
		require.NotEmpty(t, lines, part)
		for i, line := range lines {
			lines[i] = strings.NewReplacer(`"`+schema+`".`, "", schema+".", "").Replace(line)
		}
		described[part] = lines
	}
	return described
}

// psql and other clients create by the schema file what Migrate creates, and programs find
// the database migrated.
func TestTheSchemaFileCreatesWhatMigrateCreates(t *testing.T) {
	t.Parallel()
	url := pgtest.Direct(t, pgtest.EmptyURL(t))
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.WithSchema("migrated")))

	written(t, pool, "written")
	byPsql(t, url, "select") // a name that must be quoted

	for _, schema := range []string{"written", "select"} {
		want, got := describe(t, pool, "migrated"), describe(t, pool, schema)
		for part := range catalog {
			require.ElementsMatch(t, want[part], got[part], "%s in %s", part, schema)
		}
		require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.WithSchema(schema)))
		found, known := versionOf(t, pool, postgres.WithSchema(schema))
		require.Equal(t, known, found)
		require.Equal(t, listed(t, pool, "migrated"), listed(t, pool, schema))
		require.Empty(t, examine(t, pool, schema))
		store := mustStore(t, pool, postgres.WithSchema(schema))
		e := overdue(t, store)
		require.NoError(t, postgres.EnableAudit(t.Context(), pool, postgres.WithSchema(schema)))
		require.NoError(t, postgres.EnableOutbox(t.Context(), pool, postgres.WithSchema(schema)))
		require.Equal(t, e.ID, claimOne(t, store).ID)
		_, err = newScheduler(t, store).DeleteUser(t.Context(), e.UserID, almanac.DeleteOptions{AtOnce: true})
		require.NoError(t, err, "the functions find the tables")
	}
}

// written applies the schema file without psql.
func written(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), asPsql(almanac.Schema(), pgx.Identifier{schema}.Sanitize()))
	require.NoError(t, err)
}

// unfilled is what psql looks for variables in, and before that what it fills in none
// of: dollar quotes, literals and comments.
var unfilled = regexp.MustCompile(`(?s)\$\$.*?\$\$|'[^']*'|--[^\n]*|:"schema"`)

// asPsql fills a schema's name into a script as psql does.
func asPsql(script, name string) string {
	return unfilled.ReplaceAllStringFunc(script, func(part string) string {
		if part == `:"schema"` {
			return name
		}
		return part
	})
}

// byPsql applies the schema file with psql, or as psql would on a machine without.
func byPsql(t *testing.T, url, schema string) {
	t.Helper()
	psql, err := exec.LookPath("psql")
	if err != nil {
		found, errFind := pgserver.Find()
		if errFind == nil {
			psql, err = exec.LookPath(filepath.Join(found.Dir, "psql"))
		}
	}
	if err != nil {
		pool, err := pgxpool.New(t.Context(), url)
		require.NoError(t, err)
		defer pool.Close()
		written(t, pool, schema)
		return
	}
	out, err := exec.CommandContext(t.Context(), psql, "-Xq", "--single-transaction", "-v", "schema="+schema, "-f", "../schema.sql", url).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "ERROR", "psql goes on after an error")
}

func TestMigrateTwiceChangesNothingAndNeedsOnlyToRead(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.EmptyURL(t))
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, postgres.Migrate(t.Context(), pool))

	err = pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return postgres.Migrate(t.Context(), tx)
	})

	require.NoError(t, err, "a second run is a read")
}

func TestMigrateFromTenProcessesAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	var starting sync.WaitGroup
	errs := make(chan error, 10)
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	for i := range 10 {
		config := config.Copy()
		if i%2 == 0 { // as a cautious administrator may have set for the role
			config.RuntimeParams["default_transaction_isolation"] = "serializable"
		}
		starting.Go(func() { // a connection of its own each, as a process would have
			conn, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				errs <- err
				return
			}
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			errs <- postgres.Migrate(t.Context(), conn, postgres.WithSchema("crowded"))
		})
	}
	starting.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// A program of this release can be restarted after the next one has migrated.
func TestMigrateLeavesANewerSchemaAsItIs(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO almanac.migrations (version, name) VALUES (999, '0999_future')`)
	require.NoError(t, err)
	before := describe(t, pool, "almanac")

	require.NoError(t, postgres.Migrate(t.Context(), pool))

	require.Equal(t, before, describe(t, pool, "almanac"))
	var version int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT max(version) FROM almanac.migrations").Scan(&version))
	require.Equal(t, 999, version)
}

func TestMigrateStoresAllOfAMigrationOrNothing(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.EmptyURL(t))
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `CREATE SCHEMA almanac; CREATE TABLE almanac.events (mine text)`)
	require.NoError(t, err)

	require.Error(t, postgres.Migrate(t.Context(), pool), "a table of another program is in the way")

	var exists bool
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT to_regclass('almanac.users') IS NOT NULL OR to_regclass('almanac.migrations') IS NOT NULL`).Scan(&exists))
	require.False(t, exists, "the tables before it are gone again")
}

func TestNewRefusesUnsafeSchemaNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Almanac", "1st", "a b", `a"b`, "pg_toast", strings.Repeat("a", 64), "a;drop"} {
		_, err := postgres.New(pgtest.Pool(t), postgres.WithSchema(name))
		require.Error(t, err, "%q", name)
	}
}

// psql shows the comments (\d+).
func TestEveryTableAndViewHasAComment(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	rows, err := pool.Query(t.Context(), `
		SELECT relname::text FROM pg_class
		WHERE relnamespace = 'almanac'::regnamespace AND relkind IN ('r', 'v') AND obj_description(oid, 'pg_class') IS NULL`)
	require.NoError(t, err)
	silent, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, silent, "COMMENT ON is missing")
}

// A program that still has the old address of a moved schema does not make an empty one there.
func TestMigrateRefusesASchemaThatHasMoved(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("ALTER SCHEMA almanac RENAME TO almanac_moved")
	err := postgres.Migrate(t.Context(), pool)
	require.ErrorIs(t, err, postgres.ErrMoved)
	require.ErrorContains(t, err, "almanac_moved has the rows it had here")
	var made bool
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT to_regnamespace('almanac') IS NOT NULL").Scan(&made))
	require.False(t, made)

	exec("CREATE SCHEMA almanac") // which its owner wants here
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	require.NoError(t, postgres.Migrate(t.Context(), pool), "both exist")
}
