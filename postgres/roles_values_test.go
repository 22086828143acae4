package postgres_test

import (
	"errors"
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

// Each instant that some role may write is checked to be finite.
func TestInstantsThatRolesWriteAreFinite(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	require.Empty(t, c.lines(t, `
		SELECT format('%s.%s', c.relname, a.attname)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'almanac'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
			AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype)
			AND EXISTS (SELECT FROM unnest($1::text[]) r
				WHERE has_column_privilege(r, c.oid, a.attnum, 'INSERT') OR has_column_privilege(r, c.oid, a.attnum, 'UPDATE'))
			AND NOT EXISTS (SELECT FROM pg_constraint k
				WHERE k.conrelid = c.oid AND pg_get_constraintdef(k.oid) LIKE '%isfinite(' || a.attname || ')%')
			AND c.relname <> 'pruning' -- begins with -infinity, and is compared by the database alone
		ORDER BY 1`, c.roles("worker", "api", "operator", "relay", "reader")))
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
	worker := []string{"due_changes", "due_counts", "history", "keys", "leases", "queue", "unplanned", "users", "zone_marks", "zone_rules"}
	require.Equal(t, worker, lockable("worker"))
	require.Equal(t, []string{"keys", "queue", "users"}, lockable("api"))
	require.ElementsMatch(t, append(worker, "pauses"), lockable("operator"))
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
