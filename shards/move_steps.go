package shards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// quoted returns a name for a statement.
func quoted(names ...string) string { return pgx.Identifier(names).Sanitize() }

// literal returns a text for a statement.
func literal(text string) string {
	if strings.Contains(text, `\`) {
		return ` E'` + strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `'`, `''`) + `'`
	}
	return `'` + strings.ReplaceAll(text, `'`, `''`) + `'`
}

// catalogFirst keeps other schemas from replacing what the statements of a transaction call.
const catalogFirst = `SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)`

// tables returns the tables of the schema.
func tables(ctx context.Context, conn *pgx.Conn, schema string) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT c.relname::text FROM pg_catalog.pg_class c
		WHERE c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) AND c.relkind OPERATOR(pg_catalog.=) 'r' ORDER BY c.oid`, schema)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for i := range names {
		names[i] = quoted(schema, names[i])
	}
	return names, err
}

// prepare makes the schema at the target, in one transaction: empty, with the rights and triggers of the source, and asleep.
func (m *move) prepare(ctx context.Context) error {
	grants, err := m.grants(ctx)
	if err != nil {
		return err
	}
	triggers, err := m.triggers(ctx)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, m.to, func(tx pgx.Tx) error {
		// As the owner of the source, who owns what is made.
		create := "CREATE SCHEMA IF NOT EXISTS " + quoted(m.Schema)
		schema := strings.Replace(strings.ReplaceAll(almanac.Schema(), `:"schema"`, quoted(m.Schema)), create+";", "", 1)
		for _, sql := range []string{"CREATE SCHEMA " + quoted(m.Schema) + " AUTHORIZATION " + quoted(m.owner), "SET LOCAL ROLE " + quoted(m.owner), schema} {
			if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		if err := m.sameVersion(ctx, tx); err != nil {
			return err
		}
		names, err := tables(ctx, tx.Conn(), m.Schema)
		if err != nil {
			return err
		}
		statements := []string{catalogFirst, "TRUNCATE " + strings.Join(names, ", ")}
		statements = append(statements, triggers...)
		asleep := quoted(m.Schema, "asleep")
		statements = append(statements, "CREATE FUNCTION "+asleep+`() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE object_not_in_prerequisite_state USING MESSAGE = 'the schema is still moving to this server';
END
$$`)
		for _, name := range names {
			statements = append(statements, "CREATE TRIGGER asleep BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON "+name+" FOR EACH STATEMENT EXECUTE FUNCTION "+asleep+"()")
		}
		for _, g := range grants {
			statements = append(statements, g.statement)
		}
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
}

// sameVersion refuses a source of another version than the schema that was made at the target, which is that of this release.
func (m *move) sameVersion(ctx context.Context, tx pgx.Tx) error {
	var source, target int
	version := "SELECT coalesce(pg_catalog.max(version), 0) FROM " + quoted(m.Schema, "migrations")
	if err := m.from.QueryRow(ctx, version).Scan(&source); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, version).Scan(&target); err != nil {
		return err
	}
	if source != target {
		return fmt.Errorf("the schema is at version %d, and this program is of version %d: move it with its own release, or migrate it", source, target)
	}
	return nil
}

// triggers returns the statements that make the triggers of the source which the schema file does not make, such as those of the outbox.
func (m *move) triggers(ctx context.Context) ([]string, error) {
	tx, err := m.from.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()               // it only reads
	if _, err := tx.Exec(ctx, catalogFirst); err != nil { // so that names have their schema
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND c.relnamespace = to_regnamespace(quote_ident($1)) ORDER BY t.oid`, m.Schema)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for i, sql := range all {
		all[i] = strings.Replace(sql, "CREATE TRIGGER", "CREATE OR REPLACE TRIGGER", 1)
	}
	return all, err
}

// grant is a right on a part of the schema.
type grant struct {
	role      string // "" for PUBLIC
	statement string
}

// grants returns the rights of other roles than the owner, and notes the owner.
func (m *move) grants(ctx context.Context) ([]grant, error) {
	const of = `WITH schema AS (SELECT n.oid, n.nspname, n.nspacl, n.nspowner FROM pg_catalog.pg_namespace n WHERE n.oid = pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)))
		SELECT coalesce(r.rolname, ''), pg_catalog.format('GRANT %s ON %s TO %s', p.privilege_type, p.what, CASE WHEN p.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(r.rolname) END)
		FROM (
			SELECT pg_catalog.format('SCHEMA %I', n.nspname) AS what, n.nspowner AS owner, a.grantee, a.privilege_type
			FROM schema n CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) a
			UNION ALL
			SELECT pg_catalog.format('%s %I.%I', CASE WHEN c.relkind = 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, n.nspname, c.relname), c.relowner, a.grantee, a.privilege_type
			FROM schema n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) a
			UNION ALL
			SELECT pg_catalog.format('TABLE %I.%I', n.nspname, c.relname), c.relowner, x.grantee, pg_catalog.format('%s (%I)', x.privilege_type, a.attname)
			FROM schema n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
			CROSS JOIN LATERAL pg_catalog.aclexplode(a.attacl) x
			UNION ALL
			SELECT pg_catalog.format('FUNCTION %I.%I(%s)', n.nspname, f.proname, pg_catalog.pg_get_function_identity_arguments(f.oid)), f.proowner, a.grantee, a.privilege_type
			FROM schema n JOIN pg_catalog.pg_proc f ON f.pronamespace = n.oid CROSS JOIN LATERAL pg_catalog.aclexplode(f.proacl) a
		) p
		LEFT JOIN pg_catalog.pg_roles r ON r.oid = p.grantee
		WHERE p.grantee <> p.owner
		ORDER BY 2`
	tx, err := m.from.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // it only reads
	if _, err := tx.Exec(ctx, catalogFirst); err != nil {
		return nil, err
	}
	if err := tx.QueryRow(ctx, `SELECT r.rolname FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.oid = to_regnamespace(quote_ident($1))`, m.Schema).Scan(&m.owner); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, of, m.Schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (g grant, err error) { return g, row.Scan(&g.role, &g.statement) })
}

// copy begins the replication, and waits until all tables are copied.
func (m *move) copy(ctx context.Context) error {
	if err := m.subscribe(ctx); err != nil {
		return err
	}
	if err := m.await(ctx, func() (bool, error) { return m.copied(ctx) }); err != nil {
		return err
	}
	names, err := tables(ctx, m.to, m.Schema)
	if err != nil {
		return err
	}
	_, err = m.to.Exec(ctx, "ANALYZE "+strings.Join(names, ", ")) // or the first statements would have no statistics
	return err
}

// subscribe makes the publication, the slot and the subscription, as far as they do not exist.
func (m *move) subscribe(ctx context.Context) error {
	names, err := tables(ctx, m.to, m.Schema) // and not those that a host has added
	if err != nil {
		return err
	}
	publication := "CREATE PUBLICATION " + quoted(m.name) + " FOR TABLE " + strings.Join(names, ", ")
	if err := m.unless(ctx, m.from, `SELECT EXISTS (SELECT FROM pg_catalog.pg_publication p WHERE p.pubname OPERATOR(pg_catalog.=) $1::text::name)`, publication); err != nil {
		return err
	}
	slot := "SELECT pg_catalog.pg_create_logical_replication_slot(" + literal(m.name) + ", 'pgoutput')"
	if err := m.unless(ctx, m.from, `SELECT EXISTS (SELECT FROM pg_catalog.pg_replication_slots s WHERE s.slot_name OPERATOR(pg_catalog.=) $1::text::name)`, slot); err != nil {
		return err
	}
	subscription := "CREATE SUBSCRIPTION " + quoted(m.name) + " CONNECTION " + literal(m.Source) + " PUBLICATION " + quoted(m.name) + " WITH (create_slot = false, slot_name = " + literal(m.name) + ")"
	return m.unless(ctx, m.to, `SELECT EXISTS (SELECT FROM pg_catalog.pg_subscription s WHERE s.subname OPERATOR(pg_catalog.=) $1::text::name)`, subscription)
}

// unless runs a statement unless what it makes exists.
func (m *move) unless(ctx context.Context, conn *pgx.Conn, exists, sql string) error {
	var there bool
	if err := conn.QueryRow(ctx, exists, m.name).Scan(&there); err != nil || there {
		return err
	}
	_, err := conn.Exec(ctx, sql)
	return err
}

// nearly is how far behind the target may be when the source is closed: the rest of the log takes less than the programs notice.
const nearly = 1 << 20

// copied reports whether the target has all tables, and nearly all changes.
func (m *move) copied(ctx context.Context) (bool, error) {
	var of, ready int
	const state = `SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE r.srsubstate OPERATOR(pg_catalog.=) 'r') FROM pg_catalog.pg_subscription_rel r
		JOIN pg_catalog.pg_subscription s ON s.oid OPERATOR(pg_catalog.=) r.srsubid WHERE s.subname OPERATOR(pg_catalog.=) $1::text::name`
	if err := m.to.QueryRow(ctx, state, m.name).Scan(&of, &ready); err != nil {
		return false, err
	}
	behind, err := m.behind(ctx, "")
	m.progress(MoveProgress{Step: Copy, Tables: ready, Of: of, Behind: behind})
	return of > 0 && ready == of && behind < nearly, err
}

// behind returns how many bytes of the log up to a position the target has not confirmed. "" is the present position.
func (m *move) behind(ctx context.Context, position string) (bytes int64, err error) {
	const lag = `SELECT pg_catalog.pg_wal_lsn_diff(coalesce(nullif($2, '')::pg_lsn, pg_catalog.pg_current_wal_flush_lsn()), s.confirmed_flush_lsn)::bigint,
			s.wal_status OPERATOR(pg_catalog.=) 'lost'
		FROM pg_catalog.pg_replication_slots s WHERE s.slot_name OPERATOR(pg_catalog.=) $1::text::name`
	var lost bool
	err = m.from.QueryRow(ctx, lag, m.name, position).Scan(&bytes, &lost)
	if errors.Is(err, pgx.ErrNoRows) || lost {
		err = errors.New("the source has lost the replication slot of the move: abandon it, and begin again")
	}
	return bytes, err
}

// failing is from how many errors of the subscription on a step fails: one may be of a moment.
const failing = 3

// failures returns how often the subscription has failed.
func (m *move) failures(ctx context.Context) (n int64, err error) {
	const count = `SELECT coalesce(pg_catalog.sum(s.apply_error_count OPERATOR(pg_catalog.+) s.sync_error_count), 0)::bigint FROM pg_catalog.pg_stat_subscription_stats s
		WHERE s.subname OPERATOR(pg_catalog.=) $1::text::name`
	return n, m.to.QueryRow(ctx, count, m.name).Scan(&n)
}

// await waits until something is so, unless the subscription fails. It asks twenty times a second.
func (m *move) await(ctx context.Context, so func() (bool, error)) error {
	before, err := m.failures(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if is, err := so(); is || err != nil {
			return err
		}
		if now, err := m.failures(ctx); err != nil {
			return err
		} else if now-before >= failing {
			return errors.New("the subscription of the target fails: its server log says why")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// close renames the schema of the source, when no transaction writes to it. A transaction that does not end in time makes it let all go on,
// and try again.
func (m *move) close(ctx context.Context) error {
	names, err := tables(ctx, m.from, m.Schema)
	if err != nil {
		return err
	}
	for {
		m.result.Tries++
		since := time.Now()
		err := pgx.BeginFunc(ctx, m.from, func(tx pgx.Tx) error {
			for _, sql := range []string{
				catalogFirst,
				"SET LOCAL synchronous_commit = on", // or a crash could undo it when the target is awake
				fmt.Sprintf("SET LOCAL statement_timeout = %d", m.Wait.Milliseconds()),
				"LOCK TABLE " + strings.Join(names, ", ") + " IN EXCLUSIVE MODE",
				"ALTER SCHEMA " + quoted(m.Schema) + " RENAME TO " + quoted(m.closed),
				"COMMENT ON PUBLICATION " + quoted(m.name) + " IS " + literal(m.target), // no other target may wake
			} {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			m.since, m.result.Kept = since, m.closed
			return nil
		}
		if !isBusy(err) {
			return err
		}
		m.progress(MoveProgress{Step: Close, Tries: m.result.Tries})
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(m.Wait):
		}
	}
}

// wake waits until the target has everything, and lets it take writes.
func (m *move) wake(ctx context.Context) error {
	var end string
	if err := m.from.QueryRow(ctx, `SELECT pg_catalog.pg_current_wal_flush_lsn()::text`).Scan(&end); err != nil {
		return err
	}
	err := m.await(ctx, func() (bool, error) {
		behind, err := m.behind(ctx, end)
		m.progress(MoveProgress{Step: Wake, Behind: max(behind, 0)})
		return behind <= 0, err
	})
	if err != nil {
		return err
	}
	numbers, err := m.sequences(ctx)
	if err != nil {
		return err
	}
	var server int64
	if err := m.from.QueryRow(ctx, `SELECT s.system_identifier FROM pg_catalog.pg_control_system() s`).Scan(&server); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, m.to, func(tx pgx.Tx) error {
		statements := append([]string{catalogFirst, "DROP FUNCTION " + quoted(m.Schema, "asleep") + " CASCADE"}, numbers...)
		// Nobody could renew a lease meanwhile, and programs have to learn the address first.
		statements = append(statements, "UPDATE "+quoted(m.Schema, "leases")+" SET expires_at = greatest(expires_at, clock_timestamp() + interval '30 seconds')")
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return m.renumber(ctx, tx, server)
	})
}

// sequences returns the statements that set the sequences of the target.
func (m *move) sequences(ctx context.Context) ([]string, error) {
	there, err := m.to.Query(ctx, `SELECT s.sequencename::text FROM pg_catalog.pg_sequences s WHERE s.schemaname OPERATOR(pg_catalog.=) $1::text::name`, m.Schema)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(there, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	rows, err := m.from.Query(ctx, `SELECT s.sequencename::text, coalesce(s.last_value, 0) FROM pg_catalog.pg_sequences s
		WHERE s.schemaname OPERATOR(pg_catalog.=) $1::text::name AND s.sequencename OPERATOR(pg_catalog.=) ANY ($2::text[]::name[])`, m.closed, names)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var name string
		var last int64
		err := row.Scan(&name, &last)
		return fmt.Sprintf("SELECT pg_catalog.setval(%s, %d)", literal(quoted(m.Schema, name)), last+1), err
	})
}
