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

// Kind is what kind of thing a [Difference] is about.
type Kind string

// The kinds, in the order in which differences are told.
const (
	KindTable      Kind = "table"
	KindColumn     Kind = "column"     // type, collation, nullability, default or how it is generated, storage
	KindConstraint Kind = "constraint" // keys and checks, with the indexes that they rest on
	KindIndex      Kind = "index"
	KindView       Kind = "view"
	KindFunction   Kind = "function"
	KindTrigger    Kind = "trigger"
	KindSettings   Kind = "settings" // storage parameters of a table, such as fillfactor
)

var kinds = []Kind{KindTable, KindColumn, KindConstraint, KindIndex, KindView, KindFunction, KindTrigger, KindSettings}

// Difference is something that is not as the migrations of this release make it.
// Definitions are those of PostgreSQL, without the name of the PostgreSQL schema.
type Difference struct {
	Kind     Kind
	Name     string // what belongs to a table comes after it: "series.user_id"
	Expected string // its definition; "" where this release knows no such thing
	Found    string // its definition; "" where it is missing
}

// String says it in one line.
func (d Difference) String() string {
	switch {
	case d.Found == "":
		return fmt.Sprintf("%s %s is missing: %s", d.Kind, d.Name, d.Expected)
	case d.Expected == "":
		return fmt.Sprintf("%s %s is not Almanac's: %s", d.Kind, d.Name, d.Found)
	}
	return fmt.Sprintf("%s %s is %s, not %s", d.Kind, d.Name, d.Found, d.Expected)
}

// thing is what a definition is of.
type thing struct {
	kind Kind
	name string
}

// catalog is what a schema is made of: the definition of each thing.
type catalog map[thing]string

//go:embed catalog.txt
var migrated string // what the migrations make; a test keeps it so

// expected reads what a schema should be made of: lines of kind, name and definition.
func expected() catalog {
	c := catalog{}
	for line := range strings.Lines(migrated) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		name, definition, _ := strings.Cut(rest, "\t")
		c[thing{Kind(kind), name}] = definition
	}
	return c
}

// trail are the triggers that [EnableAudit] makes.
var trail = catalog{
	{KindTrigger, "series.series_audit"}:   "CREATE TRIGGER series_audit AFTER INSERT OR UPDATE ON series FOR EACH ROW EXECUTE FUNCTION audit_series()",
	{KindTrigger, "history.history_audit"}: "CREATE TRIGGER history_audit AFTER INSERT ON history FOR EACH ROW EXECUTE FUNCTION audit_history()",
	{KindTrigger, "leases.leases_audit"}:   "CREATE TRIGGER leases_audit AFTER INSERT ON leases FOR EACH ROW EXECUTE FUNCTION audit_lease()",
}

// outbox are the triggers that [EnableOutbox] makes.
var outbox = catalog{
	{KindTrigger, "users.users_outbox"}: "CREATE TRIGGER users_outbox AFTER INSERT OR DELETE ON users FOR EACH ROW EXECUTE FUNCTION outbox_user()",
	{KindTrigger, "users.users_outbox_changed"}: "CREATE TRIGGER users_outbox_changed AFTER UPDATE ON users FOR EACH ROW " +
		"WHEN (old.timezone <> new.timezone OR old.date_of_birth IS DISTINCT FROM new.date_of_birth OR old.deleted_at IS NULL AND new.deleted_at IS NOT NULL) " +
		"EXECUTE FUNCTION outbox_user()",
	{KindTrigger, "series.series_outbox"}: "CREATE TRIGGER series_outbox AFTER INSERT ON series FOR EACH ROW WHEN (new.event_id IS NOT NULL) EXECUTE FUNCTION outbox_series()",
	{KindTrigger, "series.series_outbox_changed"}: "CREATE TRIGGER series_outbox_changed AFTER UPDATE ON series FOR EACH ROW " +
		"WHEN (new.event_id IS NOT NULL AND new.event_id IS DISTINCT FROM old.event_id AND (old.event_id IS NULL OR new.used_key = old.used_key)) " +
		"EXECUTE FUNCTION outbox_series()",
	{KindTrigger, "history.history_outbox"}: "CREATE TRIGGER history_outbox AFTER INSERT ON history FOR EACH ROW EXECUTE FUNCTION outbox_history()",
}

// withSwitched expects the triggers of the trail too where at least one was found, and
// those of the outbox: one that is missing would leave gaps.
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

// Examine compares the database with what the migrations of this release make, and
// returns every difference, by kind and name: none where all is as it should be. The
// triggers of [EnableAudit] and [EnableOutbox] are no difference; some of them without the
// others are. What
// a missing table would have had is not told apart from it. What the host has added
// is told, too, with nothing expected; it need not be a fault, and where a newer
// release has migrated it is none: see [Store.SchemaVersion].
//
// It reads PostgreSQL's catalog alone, in one statement, and writes nothing, so it
// needs no more than USAGE on the schema, works on a standby, and takes no locks but
// those of a SELECT. Owners, rights and comments are not compared.
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

// catalog reads what the schema is made of.
func (s *Store) catalog(ctx context.Context, db DB) (catalog, error) {
	found := catalog{}
	schema := pgx.StrictNamedArgs{"schema": s.schema}
	err := s.look(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		usable, err := one(ctx, tx, s.statements["catalog_session"], schema, pgx.RowTo[bool])
		if err != nil {
			return err
		}
		if !usable {
			return errNoUsage
		}
		rows, err := query(ctx, tx, s.statements["catalog"], schema)
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

// differences returns how what was found differs from c.
func (c catalog) differences(found catalog) []Difference {
	all := maps.Clone(found)
	maps.Copy(all, c)
	var differences []Difference
	for t := range all {
		d := Difference{t.kind, t.name, c[t], found[t]}
		table, _, part := strings.Cut(t.name, ".")
		if t.kind == KindSettings {
			part = true
		}
		of := thing{KindTable, table}
		whole := part && (c[of] == "" || found[of] == "") // the table itself is missing, or foreign
		if d.even(d.Expected) != d.even(d.Found) && !whole {
			differences = append(differences, d)
		}
	}
	slices.SortFunc(differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	return differences
}

var spelling = regexp.MustCompile(`[()]|::(character varying|double precision|time(stamp)?(\(\d\))? with(out)? time zone|[a-z_]+)(\(\d+\))?(\[\])*`)

// even takes the parentheses and the casts out of what PostgreSQL has written of an
// expression. It writes others when it has read what it wrote, as from a dump that is
// restored, and would have to be understood to know that they mean the same. The text
// of a function is as it was given.
func (d Difference) even(definition string) string {
	if d.Kind == KindFunction {
		return definition
	}
	return spelling.ReplaceAllString(definition, "")
}

// String writes a catalog as the embedded one is.
func (c catalog) String() string {
	lines := make([]string, 0, len(c))
	for t, definition := range c {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\n", t.kind, t.name, definition))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
