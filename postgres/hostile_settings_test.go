package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// hostile are settings that administrators give roles and databases, as far as this release of PostgreSQL has them. Timeouts
// are as long as an operation may take.
var hostile = map[string]string{
	"DateStyle":                           "SQL, DMY",
	"IntervalStyle":                       "sql_standard",
	"TimeZone":                            "Asia/Kathmandu",
	"bytea_output":                        "escape",
	"extra_float_digits":                  "-15",
	"standard_conforming_strings":         "off",
	"escape_string_warning":               "off",
	"quote_all_identifiers":               "on",
	"array_nulls":                         "off",
	"transform_null_equals":               "on",
	"backslash_quote":                     "off",
	"search_path":                         "pg_catalog",
	"default_transaction_isolation":       "serializable",
	"default_transaction_deferrable":      "on",
	"row_security":                        "off",
	"check_function_bodies":               "off",
	"default_toast_compression":           "pglz",
	"default_table_access_method":         "heap",
	"plan_cache_mode":                     "force_generic_plan",
	"jit":                                 "off", // or it compiles every statement: a scan that is switched off counts as expensive
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"from_collapse_limit":                 "1",
	"join_collapse_limit":                 "1",
	"cursor_tuple_fraction":               "1",
	"work_mem":                            "64kB",
	"xmloption":                           "document",
	"lc_messages":                         "C",
	"lc_time":                             "C",
	"lc_numeric":                          "C",
	"lc_monetary":                         "C",
	"synchronize_seqscans":                "off",
	"statement_timeout":                   "5s",
	"lock_timeout":                        "5s",
	"transaction_timeout":                 "5s",
	"idle_in_transaction_session_timeout": "5s",
	"idle_session_timeout":                "5s",
}

// set gives a database settings. New connections have them.
func set(t *testing.T, pool *pgxpool.Pool, settings map[string]string) {
	t.Helper()
	for name, value := range settings {
		var known bool
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_settings WHERE lower(name) = lower($1))", name).Scan(&known))
		if known {
			_, err := pool.Exec(t.Context(), fmt.Sprintf("DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET %s = %s', current_database()); END $$", name, literal(name, value)))
			require.NoError(t, err, name)
		}
	}
	pool.Reset()
}

// literal quotes the value of a setting. A list is a list of values.
func literal(name, value string) string {
	if name == "DateStyle" || name == "search_path" {
		return value
	}
	return "''" + value + "''"
}

// Migrations make the same schema, and the store finds it so.
func TestMigrationsWorkUnderSettingsOfTheDatabase(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Direct(t, pgtest.EmptyURL(t)))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	set(t, pool, hostile)
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	differences, err := mustStore(t, pool).Examine(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.Following()))
	require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}, postgres.Following()))
	require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{LoseData: true}))
}

// A migration may take longer than any timeout of the database. Here an event trigger makes it take long.
func TestMigrationsHaveNoTimeout(t *testing.T) {
	t.Parallel()
	pool := pgtest.DirectPool(t)
	_, err := pool.Exec(t.Context(), `
		CREATE FUNCTION rest() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); END';
		CREATE EVENT TRIGGER rest ON ddl_command_start WHEN TAG IN ('CREATE TABLE', 'DROP TABLE') EXECUTE FUNCTION rest()`)
	require.NoError(t, err)
	set(t, pool, map[string]string{"statement_timeout": "700ms", "lock_timeout": "700ms", "transaction_timeout": "700ms", "idle_in_transaction_session_timeout": "700ms"})

	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.Following()))
	require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{LoseData: true}, postgres.Following()))
}

// A connection that the server ends because it was idle costs an operation nothing.
func TestTheServerEndsIdleSessions(t *testing.T) {
	t.Parallel()
	pool := pgtest.DirectPool(t) // a pooler has sessions of its own
	var major int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int / 10000").Scan(&major))
	set(t, pool, map[string]string{"idle_session_timeout": "1200ms"}) // from PostgreSQL 14 on
	store := mustStore(t, pool)
	_, err := store.Now(t.Context())
	require.NoError(t, err)
	if major >= 14 {
		outside, err := pgx.Connect(t.Context(), pool.Config().ConnString())
		require.NoError(t, err)
		defer func() { require.NoError(t, outside.Close(context.WithoutCancel(t.Context()))) }()
		_, err = outside.Exec(t.Context(), "SET idle_session_timeout = 0")
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			var others int
			err := outside.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").Scan(&others)
			return err == nil && others == 0
		}, 20*time.Second, 20*time.Millisecond)
	}
	overdue(t, store)
	claimOne(t, store)
}

// A role or a database whose transactions are read-only by default is meant to store nothing. The error says why.
func TestAReadOnlyDefaultIsAnError(t *testing.T) {
	t.Parallel()
	pool := pgtest.DirectPool(t)
	set(t, pool, map[string]string{"default_transaction_read_only": "on"})
	_, err := newScheduler(t, mustStore(t, pool)).CreateUser(t.Context(), ada)
	require.ErrorContains(t, err, "read-only transaction (SQLSTATE 25006)")
	_, err = mustStore(t, pool).Now(t.Context())
	require.NoError(t, err)
}

// encoded returns a pool on an empty database with an encoding.
func encoded(t *testing.T, encoding string) *pgxpool.Pool {
	t.Helper()
	address := pgtest.Direct(t, pgtest.EmptyURL(t))
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.Path += "_other"
	name := strings.TrimPrefix(u.Path, "/")
	admin, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
		require.NoError(t, admin.Close(ctx))
	})
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING '"+encoding+"' LC_COLLATE 'C' LC_CTYPE 'C'")
	require.NoError(t, err)
	pool, err := pgxpool.New(t.Context(), u.String())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func TestOtherEncodingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"LATIN1", "SQL_ASCII", "EUC_JP"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			pool := encoded(t, encoding)
			conn, err := pgx.Connect(t.Context(), pool.Config().ConnString())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(t.Context())) }()
			_, create := newScheduler(t, mustStore(t, pool)).CreateUser(t.Context(), ada)
			for what, err := range map[string]error{
				"migrate":                 postgres.Migrate(t.Context(), pool),
				"migrate on a connection": postgres.Migrate(t.Context(), conn),
				"verify":                  mustStore(t, pool).Verify(t.Context()),
				"verify on a connection":  mustStore(t, conn).Verify(t.Context()),
				"create":                  create,
			} {
				var refused *postgres.EncodingError
				require.ErrorAs(t, err, &refused, what)
				require.Equal(t, encoding, refused.Database, what)
				require.ErrorContains(t, err, "postgres: the encoding of this database is "+encoding+", and Almanac needs UTF8", what)
			}
			var schemas int
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = 'almanac'").Scan(&schemas))
			require.Zero(t, schemas)
		})
	}
}

// A session with another encoding would store texts that other programs cannot read.
func TestSessionsOfOtherEncodingsAreRefused(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, create := newScheduler(t, mustStore(t, pool)).CreateUser(t.Context(), ada)
	for what, err := range map[string]error{"migrate": postgres.Migrate(t.Context(), pool), "verify": mustStore(t, pool).Verify(t.Context()), "create": create} {
		var refused *postgres.EncodingError
		require.ErrorAs(t, err, &refused, what)
		require.Equal(t, postgres.EncodingError{Database: "UTF8", Session: "LATIN1"}, *refused, what)
	}
}
