package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Kind is the kind of the database object that a [Difference] is about.
type Kind string

// The kinds, in the order in which [Store.Examine] returns differences.
const (
	KindTable      Kind = "table"
	KindColumn     Kind = "column"     // type, collation, nullability, default or generation expression, storage
	KindConstraint Kind = "constraint" // keys and checks, with the indexes of the keys
	KindIndex      Kind = "index"
	KindView       Kind = "view"
	KindFunction   Kind = "function"
	KindTrigger    Kind = "trigger"
	KindSettings   Kind = "settings" // storage parameters of a table, such as fillfactor
)

var kinds = []Kind{KindTable, KindColumn, KindConstraint, KindIndex, KindView, KindFunction, KindTrigger, KindSettings}

// Difference is a database object that is not as the migrations of this release create it.
// Definitions are written as PostgreSQL writes them, without the name of the PostgreSQL schema.
type Difference struct {
	Kind     Kind
	Name     string // with the table first if the object belongs to a table: "series.user_id"
	Expected string // the definition; "" if this release does not create the object
	Found    string // the definition; "" if the object is missing
}

// String describes the difference in one line.
func (d Difference) String() string {
	switch {
	case d.Found == "":
		return fmt.Sprintf("%s %s is missing: %s", d.Kind, d.Name, d.Expected)
	case d.Expected == "":
		return fmt.Sprintf("%s %s is not Almanac's: %s", d.Kind, d.Name, d.Found)
	}
	return fmt.Sprintf("%s %s is %s, not %s", d.Kind, d.Name, d.Found, d.Expected)
}

// thing identifies a database object.
type thing struct {
	kind Kind
	name string
}

// catalog has the definition of each object in a schema.
type catalog map[thing]string

// migrated is the catalog that the migrations create; a test compares the two. To compare with a
// schema that is made for the purpose would need rights and locks, and is not possible on a standby.
//
//go:embed catalog.txt
var migrated string

// expected returns the catalog that the migrations create. Each line of the file has a kind,
// a name and a definition.
func expected() catalog {
	c := catalog{}
	for line := range strings.Lines(migrated) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		name, definition, _ := strings.Cut(rest, "\t")
		c[thing{Kind(kind), name}] = definition
	}
	return c
}

// trail has the triggers that [EnableAudit] creates, as PostgreSQL writes them.
var trail = catalog{
	{KindTrigger, "series.series_audit"}:   "CREATE TRIGGER series_audit AFTER INSERT OR UPDATE ON series FOR EACH ROW EXECUTE FUNCTION write_audit()",
	{KindTrigger, "history.history_audit"}: "CREATE TRIGGER history_audit AFTER INSERT ON history FOR EACH ROW EXECUTE FUNCTION write_audit()",
	{KindTrigger, "leases.leases_audit"}:   "CREATE TRIGGER leases_audit AFTER INSERT ON leases FOR EACH ROW EXECUTE FUNCTION write_audit()",
	{KindTrigger, "users.users_audit"}:     "CREATE TRIGGER users_audit AFTER INSERT ON users FOR EACH ROW WHEN (new.opt_outs IS NOT NULL) EXECUTE FUNCTION write_audit()",
	{KindTrigger, "users.users_audit_changed"}: "CREATE TRIGGER users_audit_changed AFTER UPDATE ON users FOR EACH ROW " +
		"WHEN (new.opt_outs IS DISTINCT FROM old.opt_outs) EXECUTE FUNCTION write_audit()",
}

// outbox has the triggers that [EnableOutbox] creates. A successor that takes the place of an event that ends
// is written after the end, by history_outbox, and not by series_outbox_changed.
var outbox = catalog{
	{KindTrigger, "users.users_outbox"}: "CREATE TRIGGER users_outbox AFTER INSERT OR DELETE ON users FOR EACH ROW EXECUTE FUNCTION write_outbox()",
	{KindTrigger, "users.users_outbox_changed"}: "CREATE TRIGGER users_outbox_changed AFTER UPDATE ON users FOR EACH ROW " +
		"WHEN (old.timezone <> new.timezone OR old.date_of_birth IS DISTINCT FROM new.date_of_birth OR old.birth_calendar IS DISTINCT FROM new.birth_calendar " +
		"OR old.birth_day IS DISTINCT FROM new.birth_day OR old.deleted_at IS NULL AND new.deleted_at IS NOT NULL) " +
		"EXECUTE FUNCTION write_outbox()",
	{KindTrigger, "series.series_outbox"}: "CREATE TRIGGER series_outbox AFTER INSERT ON series FOR EACH ROW WHEN (new.event_id IS NOT NULL) EXECUTE FUNCTION write_outbox()",
	{KindTrigger, "series.series_outbox_changed"}: "CREATE TRIGGER series_outbox_changed AFTER UPDATE ON series FOR EACH ROW " +
		"WHEN (new.event_id IS NOT NULL AND new.event_id IS DISTINCT FROM old.event_id AND (old.event_id IS NULL OR new.used_key = old.used_key AND new.used_unit = old.used_unit)) " +
		"EXECUTE FUNCTION write_outbox()",
	{KindTrigger, "history.history_outbox"}: "CREATE TRIGGER history_outbox AFTER INSERT ON history FOR EACH ROW EXECUTE FUNCTION write_outbox()",
}

// sorted returns what c defines, in the order of kinds and names.
func (c catalog) sorted() []thing {
	return slices.SortedFunc(maps.Keys(c), func(a, b thing) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.kind), slices.Index(kinds, b.kind)), cmp.Compare(a.name, b.name))
	})
}

// withSwitched adds all triggers of the audit trail to c if at least one of them was found, and likewise
// those of the outbox. If only some of the triggers exist, the trail or the outbox has gaps.
func (c catalog) withSwitched(found catalog) catalog {
	for _, switched := range []catalog{trail, outbox} {
		for t := range switched {
			if found[t] != "" {
				maps.Copy(c, switched)
				break
			}
		}
	}
	return c
}

// Examine compares the database with the objects that the migrations of this release create. It returns every
// difference, ordered by kind and name, or none if the database is as it should be.
//
// The triggers of [EnableAudit] are a difference only if some of them exist without the others, and so are
// those of [EnableOutbox]. The columns and other parts of a missing table are not reported separately. An
// object that the host has added is a difference with an empty Expected. It need not be a fault. If a newer
// release has migrated the database, it is not a fault: see [Store.SchemaVersion].
//
// Examine only reads PostgreSQL's catalog, in one transaction that is rolled back. So it only
// needs USAGE on the schema, works on a standby, and takes no locks but those of a SELECT. It
// does not compare owners, rights and comments.
func (s *Store) Examine(ctx context.Context) (differences []Difference, err error) {
	err = s.do(ctx, "examine schema "+s.schema, func(ctx context.Context, db DB) error {
		found, err := s.catalog(ctx, db)
		differences = expected().withSwitched(found).differences(found)
		return err
	})
	if err != nil {
		return nil, err
	}
	return differences, nil
}

var errNoUsage = errors.New("this role has no USAGE on the schema")

// catalog reads the definitions of the objects in the schema.
func (s *Store) catalog(ctx context.Context, db DB) (catalog, error) {
	found := catalog{}
	schema := pgx.StrictNamedArgs{"schema": s.schema}
	err := s.discard(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		usable, err := one(ctx, tx, s.statements.CatalogSession, schema, pgx.RowTo[bool])
		if err != nil {
			return err
		}
		if !usable {
			return errNoUsage
		}
		rows, err := query(ctx, tx, s.statements.Catalog, schema)
		if err != nil {
			return err
		}
		var t thing
		var definition string
		_, err = pgx.ForEachRow(rows, []any{&t.kind, &t.name, &definition}, func() error {
			found[t] = definition
			return nil
		})
		return err
	})
	return found, err
}

// differences returns the differences between c, which is expected, and found.
func (c catalog) differences(found catalog) []Difference {
	all := maps.Clone(found)
	maps.Copy(all, c)
	var differences []Difference
	for _, t := range all.sorted() {
		d := Difference{t.kind, t.name, c[t], found[t]}
		table, _, part := strings.Cut(t.name, ".")
		if t.kind == KindSettings {
			part = true
		}
		of := thing{KindTable, table}
		whole := part && (c[of] == "" || found[of] == "") // the table itself is missing, or was added by the host
		if d.even(d.Expected) != d.even(d.Found) && !whole {
			differences = append(differences, d)
		}
	}
	return differences
}

var spelling = regexp.MustCompile(`[()]|::(character varying|double precision|time(stamp)?(\(\d\))? with(out)? time zone|[a-z_]+)(\(\d+\))?(\[\])*`)

// even removes the parentheses and the casts that PostgreSQL writes into expressions.
// PostgreSQL may write them differently after it has read its own output, as when a dump is
// restored. Only the meaning of the expression shows that both are the same. The text of a function is returned unchanged.
func (d Difference) even(definition string) string {
	if d.Kind == KindFunction {
		return definition
	}
	return spelling.ReplaceAllString(definition, "")
}

// String writes a catalog in the form of the embedded file.
func (c catalog) String() string {
	lines := make([]string, 0, len(c))
	for t, definition := range c {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\n", t.kind, t.name, definition))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
