package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/postgres"
)

type migrate struct {
	Up      migrateUp      `cmd:"" help:"Bring a database to the schema of this release."`
	Down    migrateDown    `cmd:"" help:"Undo the last migration of a database."`
	Version migrateVersion `cmd:"" help:"Print which migrations a database has."`
	Export  migrateExport  `cmd:"" help:"Write the migrations as SQL, for readers and for other tools."`
}

// movement is what became of a schema's version.
type movement struct {
	Schema string `json:"schema"`
	Before int    `json:"before"`
	After  int    `json:"after"`
	Known  int    `json:"known"` // the newest that this program knows
}

// move changes the version of a schema and tells of it.
func (t *tables) move(ctx context.Context, env *environment, change func(*pgx.Conn) error) (movement, error) {
	conn, store, err := t.dial(ctx, env, reconcileLimit)
	if err != nil {
		return movement{}, err
	}
	defer disconnect(ctx, conn)
	before, err := store.SchemaVersion(ctx)
	if err != nil {
		return movement{}, err
	}
	if err := change(conn); err != nil {
		return movement{}, err
	}
	after, err := store.SchemaVersion(ctx)
	return movement{t.Schema, before.Found, after.Found, after.Known}, err
}

func (m movement) write(out io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(out, m)
	}
	var err error
	switch {
	case m.Before == m.After && m.After > m.Known:
		_, err = fmt.Fprintf(out, "schema %s is at version %d, of a newer release: left as it is\n", m.Schema, m.After)
	case m.Before == m.After:
		_, err = fmt.Fprintf(out, "schema %s is at version %d already\n", m.Schema, m.After)
	default:
		_, err = fmt.Fprintf(out, "schema %s went from version %d to %d\n", m.Schema, m.Before, m.After)
	}
	return err
}

// migrateUp applies what is missing.
type migrateUp struct {
	tables
	JSON bool `help:"Write JSON." name:"json"`
}

// Help is shown below the command's line.
func (c *migrateUp) Help() string {
	return `The PostgreSQL schema is created if necessary. The missing migrations are applied in order, each in a transaction of its own; workers may run meanwhile. Several processes may migrate at once. If no migration is missing, also because a newer release has migrated, nothing is changed.

    almanac migrate up
    almanac migrate up --database-url postgres://localhost/app --schema greetings

It exits with 0 when nothing is missing any more, and 1 otherwise.`
}

// Run migrates.
func (c *migrateUp) Run(ctx context.Context, env *environment) error {
	if err := misused(c.validate(env)); err != nil {
		return err
	}
	moved, err := c.move(ctx, env, func(conn *pgx.Conn) error { return postgres.Migrate(ctx, conn, postgres.WithSchema(c.Schema)) })
	if err != nil {
		return err
	}
	return moved.write(env.out, c.JSON)
}

// migrateDown takes one migration back.
type migrateDown struct {
	tables
	LoseData bool `help:"Undo the migration even if it deletes rows that cannot be restored."`
	JSON     bool `help:"Write JSON." name:"json"`
}

// Help is shown below the command's line.
func (c *migrateDown) Help() string {
	return `To go back to the release before, no migration needs to be undone: that release works on the schema of this one. Stop the programs of this release first; they do not work on the older schema. The PostgreSQL schema itself stays.

    almanac migrate down
    almanac migrate down --lose-data --json

It exits with 0 when a migration was undone, and with 1 when nothing was changed: nothing is left to undo, a newer release has migrated, or rows would be lost for good.`
}

// Run undoes.
func (c *migrateDown) Run(ctx context.Context, env *environment) error {
	if err := misused(c.validate(env)); err != nil {
		return err
	}
	moved, err := c.move(ctx, env, func(conn *pgx.Conn) error {
		return postgres.MigrateDown(ctx, conn, postgres.MigrateDownOptions{LoseData: c.LoseData}, postgres.WithSchema(c.Schema))
	})
	if lossy := (*postgres.DataLossError)(nil); errors.As(err, &lossy) {
		return fmt.Errorf("%w; --lose-data does it all the same", err)
	}
	if err != nil {
		return err
	}
	return moved.write(env.out, c.JSON)
}

// migrateVersion tells what a database has.
type migrateVersion struct {
	tables
	JSON bool `help:"Write JSON." name:"json"`
}

// Help is shown below the command's line.
func (c *migrateVersion) Help() string {
	return `It prints the version of the database, and the newest version that this program knows. "almanac doctor" says whether they fit together.

    almanac migrate version
    almanac migrate version --schema greetings --json

It exits with 0 when the database could be asked, and 1 otherwise.`
}

// Run asks.
func (c *migrateVersion) Run(ctx context.Context, env *environment) error {
	if err := misused(c.validate(env)); err != nil {
		return err
	}
	conn, store, err := c.dial(ctx, env, reconcileLimit)
	if err != nil {
		return err
	}
	defer disconnect(ctx, conn)
	v, err := store.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.out, map[string]any{"schema": v.Schema, "found": v.Found, "known": v.Known})
	}
	_, err = fmt.Fprintln(env.out, versionText(v))
	return err
}

// versionText says how a schema and this program stand to each other.
func versionText(v postgres.SchemaVersion) string {
	switch {
	case v.Found == 0:
		return fmt.Sprintf("schema %s was never migrated; this program is of version %d", v.Schema, v.Known)
	case v.Found < v.Known:
		return fmt.Sprintf("schema %s is at version %d; this program is of version %d", v.Schema, v.Found, v.Known)
	case v.Found > v.Known:
		return fmt.Sprintf("schema %s is at version %d, of a newer release; this program is of version %d", v.Schema, v.Found, v.Known)
	}
	return fmt.Sprintf("schema %s is at version %d, as this program", v.Schema, v.Found)
}
