package postgres

import (
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql migrations/down/*.sql
var migrationFiles embed.FS

// migration is one step from a version to the next. It can be undone if it has a down script.
type migration struct {
	version int
	name    string // the name of its file: 0001_tables
	sql     string
	down    string // "" if the migration cannot be undone
	losses  []loss // rows that undoing deletes and that cannot be restored
}

// loss describes rows that are lost for good when a migration is undone.
type loss struct {
	table     string
	condition string // on the rows of the table; "" for all rows
}

// lossMark begins a line at the head of a down script. The line names a table and, after WHERE, a
// condition on the rows that would be lost.
const lossMark = "-- Loses "

// migrations returns the embedded migrations for a PostgreSQL schema, in order. The name of a file
// is a version and a word: 0001_tables.sql. The down script has the same name, under down.
func migrations(schema string) ([]migration, error) {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("postgres: read migrations: %w", err)
	}
	steps := make([]migration, len(files))
	for i, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "migrations/"), ".sql")
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("postgres: migration %q is not number %d", name, i+1)
		}
		up, errUp := migrationFiles.ReadFile(file)
		down, errDown := migrationFiles.ReadFile("migrations/down/" + name + ".sql")
		if errors.Is(errDown, fs.ErrNotExist) {
			errDown = nil
		}
		if err := errors.Join(errUp, errDown); err != nil {
			return nil, fmt.Errorf("postgres: read migrations: %w", err)
		}
		within := func(text []byte) string { return strings.ReplaceAll(string(text), `:"schema"`, quoted(schema)) }
		steps[i] = migration{version, name, within(up), within(down), lossesOf(within(down))}
	}
	return steps, nil
}

func lossesOf(down string) []loss {
	var losses []loss
	for line := range strings.Lines(down) {
		if what, ok := strings.CutPrefix(strings.TrimSpace(line), lossMark); ok {
			table, condition, _ := strings.Cut(what, " WHERE ")
			losses = append(losses, loss{table, condition})
		}
	}
	return losses
}

// lock returns a statement that locks the tables with rows that would be lost, so that no rows are
// added after the check. The migration must have losses.
func (m migration) lock(schema string) string {
	tables := column(m.losses, func(l loss) string { return quoted(schema) + "." + l.table })
	return "LOCK TABLE " + strings.Join(tables, ", ") + " IN ACCESS EXCLUSIVE MODE"
}

// occurs returns the condition that the table has rows that would be lost.
func (l loss) occurs(schema string) string {
	rows := "SELECT FROM " + quoted(schema) + "." + l.table
	if l.condition != "" {
		rows += " WHERE " + l.condition
	}
	return "EXISTS (" + rows + ")"
}

// preparation returns the SQL that creates the schema and the list of applied migrations. CREATE
// SCHEMA IF NOT EXISTS would need the right to create schemas even if the schema exists.
func preparation(schema string) string {
	return fmt.Sprintf(`DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '%s') THEN
        CREATE SCHEMA %s;
    END IF;
END
$$;

CREATE TABLE IF NOT EXISTS %s (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
`, schema, quoted(schema), migrationsTable(schema))
}

func migrationsTable(schema string) string { return quoted(schema) + ".migrations" }

// unlisted returns the SQL that removes a migration from the list of applied migrations. For the
// first migration it drops the list. The PostgreSQL schema stays, because it may be older than
// Almanac.
func (m migration) unlisted(schema string) string {
	if m.version == 1 {
		return "DROP TABLE " + migrationsTable(schema)
	}
	return fmt.Sprintf("DELETE FROM %s WHERE version = %d", migrationsTable(schema), m.version)
}

// lockKey returns the key of the advisory lock on the migrations of a schema.
func lockKey(schema string) int64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte("almanac migrations of " + schema))
	return int64(hash.Sum64())
}
