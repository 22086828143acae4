package postgres_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
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
		FROM information_schema.columns WHERE table_schema = $1 AND table_name <> 'migrations'`,
	"constraints": `
		SELECT format('%s on %s: %s', conname, conrelid::regclass, pg_get_constraintdef(oid))
		FROM pg_constraint WHERE connamespace = $1::text::regnamespace AND conrelid::regclass::text NOT LIKE '%migrations'`,
	"indexes": `
		SELECT indexdef FROM pg_indexes WHERE schemaname = $1 AND tablename <> 'migrations'`,
	"storage": `
		SELECT format('%s: %s', relname, reloptions) FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' AND relname <> 'migrations'`,
	"triggers": `
		SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE c.relnamespace = $1::text::regnamespace AND NOT t.tgisinternal`,
	"functions": `
		SELECT replace(pg_get_functiondef(oid), '"' || $1 || '".', $1 || '.') FROM pg_proc WHERE pronamespace = $1::text::regnamespace`,
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
			lines[i] = strings.ReplaceAll(line, schema+".", "")
		}
		described[part] = lines
	}
	return described
}

func TestMigrationsAddUpToTheSchemaFile(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.EmptyURL(t))
	require.NoError(t, err)
	defer pool.Close()

	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.WithSchema("migrated")))
	_, err = pool.Exec(t.Context(), `CREATE SCHEMA "written"`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), strings.ReplaceAll(almanac.Schema(), `:"schema"`, `"written"`))
	require.NoError(t, err)

	migrated, written := describe(t, pool, "migrated"), describe(t, pool, "written")
	for part := range catalog {
		require.ElementsMatch(t, written[part], migrated[part], part)
	}
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

// A program of the release before goes on when it is started anew.
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

func TestMigrateLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.EmptyURL(t))
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `CREATE SCHEMA almanac; CREATE TABLE almanac.events (mine text)`)
	require.NoError(t, err)

	require.Error(t, postgres.Migrate(t.Context(), pool), "somebody else's table is in the way")

	var exists bool
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT to_regclass('almanac.users') IS NOT NULL OR to_regclass('almanac.migrations') IS NOT NULL`).Scan(&exists))
	require.False(t, exists, "the tables before it are gone again")
}

func TestNewRefusesSchemaNamesThatNeedCare(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Almanac", "1st", "a b", `a"b`, "pg_toast", strings.Repeat("a", 64), "a;drop"} {
		_, err := postgres.New(pgtest.Pool(t), postgres.WithSchema(name))
		require.Error(t, err, "%q", name)
	}
}
