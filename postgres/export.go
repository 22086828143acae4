package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Layout is a way to lay out migrations in files.
type Layout string

// The layouts.
const (
	// Plain is one script that psql, or any client that runs several statements at
	// once, takes a database up by, in one transaction.
	Plain Layout = "plain"
	// Goose is one file per migration, with the way down, for pressly/goose.
	Goose Layout = "goose"
	// Tern is one file per migration, with the way down, for jackc/tern.
	Tern Layout = "tern"
	// GolangMigrate is two files per migration, up and down, for golang-migrate/migrate.
	GolangMigrate Layout = "golang-migrate"
)

// Layouts returns every layout.
func Layouts() []Layout { return []Layout{Plain, Goose, Tern, GolangMigrate} }

// Export is what of the migrations is written out as SQL, and how. The zero value is
// all of them as a plain script, for the default schema.
//
// What is exported does what [Migrate] and [MigrateDown] do, and keeps their list of
// what was applied, besides the one that a tool has: programs find the database
// migrated, Migrate included, and either can take over from the other. Who migrates
// is to be settled all the same. A migration of a database that is not at the version
// before it fails, and so does the tool's that Migrate has already done.
//
// A way down that loses rows for good fails where there are any, unless the setting
// almanac.lose_data of the session is yes.
//
// Give the files a directory of their own, and the tool a table of its own for them,
// outside the PostgreSQL schema, which the first migration makes: goose -table
// public.almanac_goose, tern's version_table = public.almanac_tern, and golang-migrate's
// x-migrations-table=almanac_migrate.
type Export struct {
	// Layout is Plain if it is empty.
	Layout Layout
	// Schema is the PostgreSQL schema, as for [WithSchema]; [DefaultSchema] if it is empty.
	Schema string
	// After leaves out the migrations up to that version, which the database has. It is
	// for Plain alone: tools know by themselves what is missing.
	After int
}

// File is an exported file.
type File struct {
	Name string // without a directory
	SQL  string
}

// Files returns the files in the order of their names. The error names everything
// that is wrong with e.
func (e Export) Files() ([]File, error) {
	if e.Layout == "" {
		e.Layout = Plain
	}
	if e.Schema == "" {
		e.Schema = DefaultSchema
	}
	steps, err := migrations(e.Schema)
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

// laidOut writes a migration for the tool.
func (e Export) laidOut(step migration) []File {
	up, down := e.up(step), e.down(step)
	_, word, _ := strings.Cut(step.name, "_")
	switch e.Layout {
	case Goose:
		// One block each way: goose would cut what is outside of blocks at semicolons.
		const block = "-- +goose %s\n-- +goose StatementBegin\n%s-- +goose StatementEnd\n"
		return []File{{fmt.Sprintf("%05d_%s.sql", step.version, word), fmt.Sprintf(block, "Up", up) + "\n" + fmt.Sprintf(block, "Down", down)}}
	case Tern:
		return []File{{fmt.Sprintf("%03d_%s.sql", step.version, word), up + "\n---- create above / drop below ----\n\n" + down}}
	}
	name := fmt.Sprintf("%06d_%s", step.version, word)
	return []File{{name + ".up.sql", up}, {name + ".down.sql", down}}
}

// up is a migration with what Migrate does around it.
func (e Export) up(step migration) string {
	prepare := ""
	if step.version == 1 {
		prepare = preparation(e.Schema) + "\n"
	}
	return fmt.Sprintf("%s%s\n%s\nINSERT INTO %s (version, name) VALUES (%d, '%s');\n",
		prepare, e.at(step.version-1), trimmed(step.sql), migrationsTable(e.Schema), step.version, step.name)
}

// down is a migration's way back with what MigrateDown does around it.
func (e Export) down(step migration) string {
	return fmt.Sprintf("%s\n%s%s\n%s;\n", e.at(step.version), e.guard(step), trimmed(step.down), step.forgotten(e.Schema))
}

// at fails unless the database is at a version, and keeps it there until the
// transaction ends.
func (e Export) at(version int) string {
	return fmt.Sprintf(`DO $$
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(%d);
    IF (SELECT coalesce(max(version), 0) FROM %s) <> %d THEN
        RAISE EXCEPTION 'schema %s of Almanac is not at version %d';
    END IF;
END
$$;
`, lockKey(e.Schema), migrationsTable(e.Schema), version, e.Schema, version)
}

// guard fails where rows would be lost for good that may not be.
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

// trimmed has a text end with one line break.
func trimmed(sql string) string { return strings.TrimSpace(sql) + "\n" }
