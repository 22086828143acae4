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

// migration is one step from a version to the next, and back.
type migration struct {
	version int
	name    string // of its file: 0001_tables
	sql     string
	down    string // "" where there is no way back
	losses  []loss // what of the way back nothing brings back
}

// loss is what a migration's way back loses.
type loss struct {
	table     string
	condition string // on its rows; "" for all of them
}

// lossMark begins a line at the head of a way back that names a table and, after
// WHERE, which of its rows hold what would be lost.
const lossMark = "-- Loses "

// migrations reads the embedded steps for a PostgreSQL schema, in order. Their files
// are named by a version and a word: 0001_tables.sql, and so is the way back of each,
// under down.
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

// lock keeps everybody else from what would be lost, so that nothing comes after the
// look at it. There must be losses.
func (m migration) lock(schema string) string {
	tables := column(m.losses, func(l loss) string { return quoted(schema) + "." + l.table })
	return "LOCK TABLE " + strings.Join(tables, ", ") + " IN ACCESS EXCLUSIVE MODE"
}

// occurs is a condition: there is something to lose.
func (l loss) occurs(schema string) string {
	rows := "SELECT FROM " + quoted(schema) + "." + l.table
	if l.condition != "" {
		rows += " WHERE " + l.condition
	}
	return "EXISTS (" + rows + ")"
}

// preparation is the SQL that creates what the migrations stand on. CREATE SCHEMA IF
// NOT EXISTS would ask for the right to create one also where it exists.
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

// forgotten is the SQL that takes a migration off the list of those that were
// applied. With the first, the list goes too; the PostgreSQL schema stays, which may
// have been there before.
func (m migration) forgotten(schema string) string {
	if m.version == 1 {
		return "DROP TABLE " + migrationsTable(schema)
	}
	return fmt.Sprintf("DELETE FROM %s WHERE version = %d", migrationsTable(schema), m.version)
}

// lockKey is the advisory lock of a schema's migrations.
func lockKey(schema string) int64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte("almanac migrations of " + schema))
	return int64(hash.Sum64())
}
