package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Layout is the form in which migrations are written to files.
type Layout string

// The layouts.
const (
	// Plain is one script that applies all migrations in one transaction. Run it with psql,
	// or any client that sends several statements at once.
	Plain Layout = "plain"
	// Goose is one file per migration, up and down, for pressly/goose.
	Goose Layout = "goose"
	// Tern is one file per migration, up and down, for jackc/tern.
	Tern Layout = "tern"
	// GolangMigrate is two files per migration, up and down, for golang-migrate/migrate.
	GolangMigrate Layout = "golang-migrate"
)

// Layouts returns every layout.
func Layouts() []Layout { return []Layout{Plain, Goose, Tern, GolangMigrate} }

// Export selects the migrations to write as SQL, and their form. The zero value is all
// migrations as a plain script, for the default schema.
//
// The files do what [Migrate] and [MigrateDown] do. They also keep the list of applied
// migrations that Migrate uses, besides the list that the tool keeps. So programs, and
// Migrate too, find the database migrated, and a host can change between Migrate and a
// tool. Still, decide which of them migrates: an exported migration fails when the database
// is not at the version before it, for example because Migrate has already applied it.
//
// A down migration that would delete irreplaceable rows fails if there are any such rows,
// unless the session's setting almanac.lose_data is yes.
//
// Put the files into a directory of their own. Have the tool keep its list for them in a
// table of its own, outside the PostgreSQL schema, because the first migration creates that
// schema: goose -table public.almanac_goose, tern's version_table = public.almanac_tern,
// and golang-migrate's x-migrations-table=almanac_migrate.
type Export struct {
	// Layout is the form of the files. Empty means Plain.
	Layout Layout
	// Schema is the PostgreSQL schema, as for [WithSchema]. Empty means [DefaultSchema].
	Schema string
	// After is the version that the database has already: migrations up to it are left out.
	// Zero, the default, leaves out none. Only Plain allows another value, because tools
	// find out by themselves which migrations are missing.
	After int
}

// File is an exported file.
type File struct {
	Name string // without a directory
	SQL  string
}

// Files returns the files in the order of their names. The error lists every field of e that is not valid.
func (e Export) Files() ([]File, error) { return e.filesOf(migrationFiles) }

func (e Export) filesOf(release fs.FS) ([]File, error) {
	e.Layout = cmp.Or(e.Layout, Plain)
	e.Schema = cmp.Or(e.Schema, DefaultSchema)
	steps, err := migrations(release, e.Schema)
	if err != nil {
		return nil, err
	}
	if err := e.check(len(steps)); err != nil {
		return nil, err
	}
	if e.Layout == Plain {
		return []File{e.plain(steps)}, nil
	}
	var files []File
	for _, step := range steps {
		files = append(files, e.laidOut(step)...)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

func (e Export) check(known int) error {
	errs := []error{checkSchemaName(e.Schema)}
	if !slices.Contains(Layouts(), e.Layout) {
		errs = append(errs, fmt.Errorf("postgres: %q is no layout of migrations: use one of %q", e.Layout, Layouts()))
	}
	if e.After < 0 || e.After >= known {
		errs = append(errs, fmt.Errorf("postgres: there is no migration after %d: the last is %d", e.After, known))
	} else if e.After > 0 && e.Layout != Plain {
		errs = append(errs, errors.New("postgres: only a plain script can begin after a version"))
	}
	return errors.Join(errs...)
}

func (e Export) plain(steps []migration) File {
	name := fmt.Sprintf("almanac_%04d.sql", len(steps))
	if e.After > 0 {
		name = fmt.Sprintf("almanac_%04d_%04d.sql", e.After, len(steps))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- Takes the PostgreSQL schema %s of Almanac from version %d to %d, or changes nothing.\n", e.Schema, e.After, len(steps))
	b.WriteString("BEGIN;\n\n")
	for _, step := range steps[e.After:] {
		fmt.Fprintf(&b, "%s\n", e.up(step))
	}
	b.WriteString("COMMIT;\n")
	return File{name, b.String()}
}

// laidOut returns the files of one migration in the layout of a tool.
func (e Export) laidOut(step migration) []File {
	up, down := e.up(step), e.down(step)
	_, word, _ := strings.Cut(step.name, "_")
	switch e.Layout {
	case Goose:
		// One block for up and one for down: outside of blocks, goose splits at semicolons.
		const block = "-- +goose %s\n-- +goose StatementBegin\n%s-- +goose StatementEnd\n"
		return []File{{fmt.Sprintf("%05d_%s.sql", step.version, word), fmt.Sprintf(block, "Up", up) + "\n" + fmt.Sprintf(block, "Down", down)}}
	case Tern:
		return []File{{fmt.Sprintf("%03d_%s.sql", step.version, word), up + "\n---- create above / drop below ----\n\n" + down}}
	}
	name := fmt.Sprintf("%06d_%s", step.version, word)
	return []File{{name + ".up.sql", up}, {name + ".down.sql", down}}
}

// up returns the SQL of a migration, after the check that Migrate makes.
func (e Export) up(step migration) string {
	return withCatalogFirst(fmt.Sprintf("%s\n%s", e.at(step.version-1), trimmed(step.sql)))
}

// down returns the SQL that undoes a migration, after the checks that MigrateDown makes.
func (e Export) down(step migration) string {
	return withCatalogFirst(fmt.Sprintf("%s\n%s%s", e.at(step.version), e.guard(step), trimmed(step.down)))
}

func withCatalogFirst(script string) string {
	return catalogFirst + ";\n\n" + script + "\n" + restorePath + ";\n"
}

// at returns SQL that fails unless the database is at a version. The SQL also keeps other
// processes from migrating until the transaction ends.
func (e Export) at(version int) string {
	differs := fmt.Sprintf("(SELECT coalesce(max(version), 0) FROM %s) <> %d", migrationsTable(e.Schema), version)
	if version == 0 {
		differs = fmt.Sprintf("EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = '%s' AND tablename = 'migrations')", e.Schema)
	}
	return fmt.Sprintf(`DO $$
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(%d);
    IF %s THEN
        RAISE EXCEPTION 'schema %s of Almanac is not at version %d';
    END IF;
END
$$;
`, lockKey(e.Schema), differs, e.Schema, version)
}

// guard returns SQL that fails if undoing a migration would delete irreplaceable rows,
// unless the session allows it.
func (e Export) guard(step migration) string {
	if len(step.losses) == 0 {
		return ""
	}
	occurs := column(step.losses, func(l loss) string { return l.occurs(e.Schema) })
	tables := column(step.losses, func(l loss) string { return l.table })
	return fmt.Sprintf(`DO $$
BEGIN
    IF coalesce(current_setting('almanac.lose_data', true), '') <> 'yes' THEN
        %s;
        IF %s THEN
            RAISE EXCEPTION 'undoing migration %d of Almanac would lose for good what is in %s'
                USING HINT = 'To lose it, set almanac.lose_data to yes, in the options of the connection or by ALTER ROLE.';
        END IF;
    END IF;
END
$$;

`, step.lock(e.Schema), strings.Join(occurs, "\n            OR "), step.version, strings.Join(tables, ", "))
}

// trimmed returns sql with exactly one line break at its end.
func trimmed(sql string) string { return strings.TrimSpace(sql) + "\n" }
