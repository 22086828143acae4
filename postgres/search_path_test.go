package postgres_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// everySpec has each kind of specification.
var everySpec = almanac.And{
	almanac.OfType("BIRTHDAY"), almanac.ForUser{}, almanac.InStatus(almanac.Failed), almanac.InZone{"UTC"}, almanac.ForReason("busy"),
	almanac.DueBetween{From: time.Now(), Until: time.Now()}, almanac.Overdue{By: time.Hour}, almanac.Ready{},
	almanac.Or{almanac.Not{Spec: almanac.OfType("HEARTBEAT")}, almanac.DueBetween{Until: time.Now()}},
}

// All in one database, because it takes seconds to set traps.
func TestStatementsUseOperatorsAndFunctionsOfPgCatalog(t *testing.T) {
	t.Parallel()
	d := newTrapped(t)
	store := d.in(t, d.take(t))
	t.Run("where pg_catalog comes first", func(t *testing.T) { requireCatalogOnly(t, d, store) })
	_, err := d.clean.Exec(t.Context(), hostTables)
	require.NoError(t, err)
	t.Run("in a host's transaction", func(t *testing.T) { useHostsTransaction(t, d) })
	t.Run("in a transaction of database/sql", func(t *testing.T) { useTransactionOfDatabaseSQL(t, d) })
	t.Run("of migrations and switches", func(t *testing.T) { migrateAndSwitch(t, d) })
}

// requireCatalogOnly requires that no statement uses an operator or a function of another role, while pg_catalog comes first
// in the search_path.
func requireCatalogOnly(t *testing.T, d *trapped, store *postgres.Store) {
	t.Helper()
	parser := pgtest.NewParser(t, d.url)
	own := make(map[string]int) // the functions of the schema that statements call
	for name, function := range map[string]string{"PruneOutbox": "prune_outbox", "DeleteConsumer": "delete_consumer", "ClaimLanes": "claim_lanes", "PauseFailing": "pause_failing"} {
		var id int
		require.NoError(t, d.clean.QueryRow(t.Context(), "SELECT ($1::text)::regproc::oid::integer", "almanac1."+function).Scan(&id))
		own[name] = id
	}
	for name, statement := range store.Statements(everySpec) {
		created, err := parser.CreatedIn(t.Context(), statement)
		if assert.NoError(t, err, "%s", name) {
			created = slices.DeleteFunc(created, func(id int) bool { return id == own[name] })
			assert.Empty(t, created, "%s: ids of operators and functions", name)
		}
	}
	created, err := parser.CreatedIn(t.Context(), "SELECT e.event_type FROM almanac1.series e WHERE e.event_type = 'X'::varchar")
	require.NoError(t, err)
	require.NotEmpty(t, created, "varchar and text do not match")
}

// hostTables makes a schema of the host, whose search_path has it before pg_catalog. It has
// operators and a function that raise exceptions, and a trigger on a table of Almanac's that finds
// the host's table by the path.
const hostTables = `
	CREATE SCHEMA host;
	CREATE TABLE host.copies (id uuid);
	CREATE FUNCTION host.copy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO copies VALUES (NEW.id); RETURN NULL; END';
	CREATE TRIGGER copy AFTER INSERT ON almanac1.users FOR EACH ROW EXECUTE FUNCTION host.copy();
	CREATE FUNCTION host.now() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE ''trapped''; END';
	CREATE FUNCTION host.trap(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''trapped''; END';
	CREATE FUNCTION host.trap(uuid, uuid) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''trapped''; END';
	CREATE FUNCTION host.trap(integer, integer) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''trapped''; END';
	CREATE OPERATOR host.= (LEFTARG = text, RIGHTARG = text, FUNCTION = host.trap);
	CREATE OPERATOR host.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = host.trap);
	CREATE OPERATOR host.= (LEFTARG = integer, RIGHTARG = integer, FUNCTION = host.trap)`

const hostPath = "host, pg_catalog, public"

// hostTransaction is a transaction of a host.
type hostTransaction struct {
	*testing.T
	store *postgres.Store // in the transaction
	exec  func(sql string) error
	path  func() string
	d     *trapped
}

// use changes and reads users in the transaction, and requires after each step that the path is the
// host's.
func (h *hostTransaction) use(path string) {
	h.Helper()
	require.NoError(h, h.exec("SET LOCAL search_path = "+path))
	path = h.path()
	scheduler := newScheduler(h.T, h.d.in(h.T, "almanac1")).With(h.store)
	p := ada
	p.ID = uuid.New()
	created, err := scheduler.CreateUser(h.Context(), p)
	require.NoError(h, err)
	require.Equal(h, path, h.path(), "after a change")
	_, err = h.store.User(h.Context(), p.ID)
	require.NoError(h, err)
	require.Equal(h, path, h.path(), "after a query")
	found, err := h.store.Find(h.Context(), almanac.ForUser(p.ID), almanac.Page{})
	require.NoError(h, err)
	require.Len(h, found.Items, len(created.Events))
	require.Equal(h, path, h.path(), "after a list")
	_, err = scheduler.CreateUser(h.Context(), p)
	require.Error(h, err)
	require.Equal(h, path, h.path(), "after an error")
	_, err = scheduler.DeleteUser(h.Context(), p.ID, almanac.DeleteOptions{})
	require.NoError(h, err)
	require.Equal(h, path, h.path(), "after a deletion")
}

// useHostsTransaction requires that the statements of a store use none of the operators and functions in the
// host's path. The host's own statements do, before and after.
func useHostsTransaction(t *testing.T, d *trapped) {
	t.Helper()
	tx, err := d.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	store := mustStore(t, tx, postgres.WithSchema("almanac1"))
	h := &hostTransaction{t, store,
		func(sql string) error { _, err := tx.Exec(t.Context(), sql); return err },
		func() (path string) {
			require.NoError(t, tx.QueryRow(t.Context(), "SHOW search_path").Scan(&path))
			return path
		}, d}

	h.use("public, host")
	h.use(hostPath)
	h.use(`host, "PG_catalog", PG_CATALOG`)
	var copies int
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT count(*) FROM host.copies").Scan(&copies))
	require.Equal(t, 3, copies, "rows that the host's trigger has written")
	require.ErrorContains(t, h.exec("SELECT 'a'::text = 'a'::text"), "trapped")
}

func useTransactionOfDatabaseSQL(t *testing.T, d *trapped) {
	t.Helper()
	db := stdlib.OpenDBFromPool(d.pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	store, err := postgres.NewSQL(tx, postgres.WithSchema("almanac1"))
	require.NoError(t, err)
	h := &hostTransaction{t, store,
		func(sql string) error { _, err := tx.ExecContext(t.Context(), sql); return err },
		func() (path string) {
			require.NoError(t, tx.QueryRowContext(t.Context(), "SHOW search_path").Scan(&path))
			return path
		}, d}

	h.use("public, host")
	h.use(hostPath)
}

// migrateAndSwitch requires that whatever creates or changes the schema, and the triggers that it switches
// on, use nothing that another role has created.
func migrateAndSwitch(t *testing.T, d *trapped) {
	t.Helper()
	within := postgres.WithSchema("exported")
	files, err := postgres.Export{Schema: "exported"}.Files()
	require.NoError(t, err)
	_, err = d.pool.Exec(t.Context(), files[0].SQL)
	require.NoError(t, err)
	byPsql(t, pgtest.Direct(t, d.url), "written")
	for _, schema := range []string{"exported", "written"} {
		differences, err := d.in(t, schema).Examine(t.Context())
		require.NoError(t, err)
		require.Empty(t, differences)
	}

	store := d.in(t, "exported")
	for range 2 { // the second time they are there already
		require.NoError(t, postgres.EnableAudit(t.Context(), d.pool, within))
		require.NoError(t, postgres.EnableOutbox(t.Context(), d.pool, within))
	}
	require.NoError(t, store.CreateConsumer(t.Context(), "relay"))
	overdue(t, store)
	e := claimOne(t, store)
	settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.Released(almanac.AfterFailure, "busy", 0)}})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	e = claimOne(t, store)
	settled, err = store.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(time.Now())}})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	require.Equal(t, []string{"created", "rescheduled", "claimed", "released", "claimed", "completed"}, kinds(t, store, e.ID))
	_, err = d.pool.Exec(t.Context(), "UPDATE exported.history SET version = 7")
	require.ErrorContains(t, err, "may not change so")
	_, err = newScheduler(t, store).DeleteUser(t.Context(), e.UserID, almanac.DeleteOptions{AtOnce: true})
	require.NoError(t, err)
	_, err = store.PruneAudit(t.Context(), time.Now(), 100)
	require.NoError(t, err)
	require.NoError(t, postgres.DisableAudit(t.Context(), d.pool, within))
	require.NoError(t, postgres.DisableOutbox(t.Context(), d.pool, within))
	require.NoError(t, postgres.MigrateDown(t.Context(), d.pool, postgres.MigrateDownOptions{LoseData: true}, within))
}
