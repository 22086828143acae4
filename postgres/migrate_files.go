package postgres

import (
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/almanac-go/almanac"
)

// migrationFiles has the migrations after the first, migrations/0002_word.sql and so on, and for each
// migration the script that undoes it, under migrations/down. The first migration is schema.sql.
//
//go:embed migrations
var migrationFiles embed.FS

const firstMigration = "0001_schema"

// migration is one step from a version to the next. It can be undone if it has a down script. Both
// scripts keep the list of applied migrations: the last statement of a migration adds its version, and
// the down script removes it.
type migration struct {
	version int
	name    string // the name of its file: 0001_schema
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

// migrations returns the migrations for a PostgreSQL schema, in order. The name of a file is a version
// and a word. The down script has the same name, under down.
func migrations(files fs.FS, schema string) ([]migration, error) {
	later, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("postgres: read migrations: %w", err)
	}
	steps := make([]migration, 1+len(later))
	steps[0] = migration{version: 1, name: firstMigration, sql: strings.Replace(almanac.Schema(), createSchema, createSchemaIfMissing(schema), 1)}
	for i, file := range later {
		name := strings.TrimSuffix(path.Base(file), ".sql")
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+2 {
			return nil, fmt.Errorf("postgres: migration %q is not number %d", name, i+2)
		}
		up, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, fmt.Errorf("postgres: read migrations: %w", err)
		}
		steps[i+1] = migration{version: version, name: name, sql: string(up)}
	}
	for i := range steps {
		down, err := fs.ReadFile(files, "migrations/down/"+steps[i].name+".sql")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("postgres: read migrations: %w", err)
		}
		steps[i].sql, steps[i].down = inSchema(schema, steps[i].sql), inSchema(schema, string(down))
		steps[i].losses = lossesOf(steps[i].down)
	}
	return steps, nil
}

// inSchema fills the name of the PostgreSQL schema into a script, as psql does.
func inSchema(schema, script string) string {
	return strings.ReplaceAll(script, `:"schema"`, quoted(schema))
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

// createSchema is the statement of schema.sql that creates the PostgreSQL schema. It needs the right to
// create schemas even if the schema exists, and psql fills in no names between dollar quotes. So a
// migration replaces it by [createSchemaIfMissing].
const createSchema = `CREATE SCHEMA IF NOT EXISTS :"schema";`

func createSchemaIfMissing(schema string) string {
	return fmt.Sprintf(`DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '%s') THEN
        CREATE SCHEMA %s;
    END IF;
END
$$;`, schema, quoted(schema))
}

func migrationsTable(schema string) string { return quoted(schema) + ".migrations" }

// lockKey returns the key of the advisory lock on the migrations of a schema.
func lockKey(schema string) int64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte("almanac migrations of " + schema))
	return int64(hash.Sum64())
}
