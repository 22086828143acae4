package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// A row that Go cannot read would fail each statement that returns it, and so stop others.
func TestRolesStoreNoRowThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	overdue(t, c.store(t, "api"))
	for _, sql := range []string{
		`UPDATE almanac.users SET updated_at = 'infinity'`,
		`UPDATE almanac.users SET deleted_at = '-infinity'`,
		`UPDATE almanac.users SET opt_outs = '["BIRTHDAY"]'`,
		`UPDATE almanac.users SET opt_outs = '[[{}]]'`,
		`UPDATE almanac.users SET opt_outs = '[{"type": 1}]'`,
		`UPDATE almanac.users SET opt_outs = '[{"type": "X"}, {"Channel": null}]'`,
		`UPDATE almanac.series SET created_at = 'infinity', version = version + 1`,
		`UPDATE almanac.series SET target_timestamp_utc = '-infinity', version = version + 1`,
		`UPDATE almanac.series SET target_timestamp_local = 'infinity', version = version + 1`,
		`INSERT INTO almanac.queue (available_at, event_id, series_id, event_type) VALUES ('infinity', gen_random_uuid(), 1, 'X')`,
		`UPDATE almanac.series SET used_unit = 'x', used_key = 'a', used_local = '2000-01-01', used_nominal = '294276-01-01'`,
		`UPDATE almanac.series SET used_unit = 'x', used_key = 'a', used_local = '2000-01-01', used_nominal = '0044-03-15 BC'`,
		`UPDATE almanac.series SET used_unit = 'x', used_key = 'a', used_local = '2000-01-01', used_nominal = '2000-01-01', used_others = '{"day": 5}'`,
		`UPDATE almanac.series SET claim_count = 2147483647`,
		`UPDATE almanac.series SET crash_count = 2147483647`,
		`UPDATE almanac.series SET retry_count = 2147483647`,
		`UPDATE almanac.users SET version = 2147483647`,
		`INSERT INTO almanac.due_changes SELECT repeat('x', 101), 1, 'X', 1`,
		`INSERT INTO almanac.due_changes SELECT 'UTC', 1, repeat('x', 51), 1`,
	} {
		_, err := c.pools["api"].Exec(t.Context(), sql)
		var pg *pgconn.PgError
		require.True(t, errors.As(err, &pg), "%s: %v", sql, err)
		require.Equal(t, "23514", pg.Code, "%s: %v", sql, err)
	}
	for _, sql := range []string{
		`UPDATE almanac.users SET opt_outs = '[]'`,
		`UPDATE almanac.users SET opt_outs = '[{}, {"type": "BIRTHDAY", "channel": "email"}]'`,
		`UPDATE almanac.users SET opt_outs = NULL`,
	} {
		c.exec(t, "api", sql)
	}
}

// Each time that some role may write is in the years that Go reads and writes as JSON.
func TestTimesThatRolesWriteAreInYearsThatGoReads(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	columns := c.lines(t, `
		SELECT format('%s.%s', c.relname, a.attname)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'almanac'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
			AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype)
			AND EXISTS (SELECT FROM unnest($1::text[]) r
				WHERE has_column_privilege(r, c.oid, a.attnum, 'INSERT') OR has_column_privilege(r, c.oid, a.attnum, 'UPDATE'))
			AND c.relname NOT IN ('pruning', 'lane_states', 'lane_clock', 'visits') -- have -infinity, and are compared by the database alone
		ORDER BY 1`, c.roles("worker", "api", "operator", "relay", "reader"))
	require.NotEmpty(t, columns)
	tx, err := c.pools[""].Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	store := func(column, value string) error {
		point, err := tx.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, point.Rollback(t.Context())) }()
		table, name, _ := strings.Cut(column, ".")
		// A table with the same checks, each of whose other columns may be NULL.
		_, err = point.Exec(t.Context(), `
			SET LOCAL TimeZone = 'UTC';
			CREATE TEMPORARY TABLE probe (LIKE almanac.`+table+` INCLUDING CONSTRAINTS);
			DO $$ DECLARE c text; BEGIN
				FOR c IN SELECT attname FROM pg_attribute WHERE attrelid = 'pg_temp.probe'::regclass AND attnum > 0 AND attnotnull LOOP
					EXECUTE format('ALTER TABLE pg_temp.probe ALTER %I DROP NOT NULL', c);
				END LOOP;
			END $$`)
		require.NoError(t, err)
		_, err = point.Exec(t.Context(), "INSERT INTO pg_temp.probe ("+name+") VALUES ('"+value+"')")
		return err
	}
	for _, column := range columns {
		for _, value := range []string{"-infinity", "0001-12-31 23:59:59.999999 BC", "10000-01-01", "294276-12-31", "infinity"} {
			var pg *pgconn.PgError
			require.ErrorAs(t, store(column, value), &pg, "%s: %s", column, value)
			require.Equal(t, "23514", pg.Code, "%s: %s", column, value)
		}
		for _, value := range []string{"0001-01-01", "9999-12-31 23:59:59.999999"} {
			require.NoError(t, store(column, value), "%s: %s", column, value)
		}
	}
}

func (c *cast) roles(names ...string) (roles []string) {
	for _, name := range names {
		roles = append(roles, c.prefix+name)
	}
	return roles
}

// Which roles may lock which tables, as the comment of roles.sql says.
func TestFewRolesMayLockTables(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	lockable := func(role string) []string {
		return c.lines(t, `SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'almanac'::regnamespace AND c.relkind = 'r'
			AND has_table_privilege($1::text, c.oid, 'UPDATE, DELETE, TRUNCATE') ORDER BY 1`, c.prefix+role)
	}
	worker := []string{"due_changes", "due_counts", "history", "keys", "leases", "queue", "unplanned", "users", "visits", "zone_marks", "zone_rules"}
	require.Equal(t, worker, lockable("worker"))
	require.Equal(t, []string{"keys", "queue", "users"}, lockable("api"))
	require.ElementsMatch(t, append(worker, "lane_states", "broadcasts", "broadcast_zones", "broadcast_users", "broadcast_removed", "broadcast_steps"), lockable("operator"))
	require.Empty(t, lockable("relay"))
	require.Empty(t, lockable("reader"))
}

func TestTheRelayCannotStopWriters(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	require.NoError(t, postgres.EnableOutbox(t.Context(), c.pools["owner"]))
	for _, table := range []string{"outbox", "outbox_consumers"} {
		for _, mode := range []string{"SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"} {
			tx, err := c.pools["relay"].Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "LOCK TABLE almanac."+table+" IN "+mode+" MODE")
			require.NoError(t, tx.Rollback(t.Context()))
			requireRefused(t, err, table+" "+mode)
		}
	}
	p := ada
	p.ID = uuid.New()
	_, err := newScheduler(t, c.store(t, "api")).CreateUser(t.Context(), p)
	require.NoError(t, err)
	for _, role := range []string{"worker", "api", "operator", "reader"} {
		_, err := c.store(t, role).PruneOutbox(t.Context(), 1)
		requireRefused(t, err, role)
		requireRefused(t, c.store(t, role).DeleteConsumer(t.Context(), "billing"), role)
	}
	require.ErrorIs(t, c.store(t, "relay").DeleteConsumer(t.Context(), "billing"), almanac.ErrNotFound)
}
