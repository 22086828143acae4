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

// move changes the version of a schema and reports it.
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

// Run undoes.
func (c *migrateDown) Run(ctx context.Context, env *environment) error {
	if err := misused(c.validate(env)); err != nil {
		return err
	}
	moved, err := c.move(ctx, env, func(conn *pgx.Conn) error {
		return postgres.MigrateDown(ctx, conn, postgres.MigrateDownOptions{LoseData: c.LoseData}, postgres.WithSchema(c.Schema))
	})
	if _, ok := errors.AsType[*postgres.DataLossError](err); ok {
		return fmt.Errorf("%w; --lose-data does it all the same", err)
	}
	if err != nil {
		return err
	}
	return moved.write(env.out, c.JSON)
}

// migrateVersion prints the version of a database.
type migrateVersion struct {
	tables
	JSON bool `help:"Write JSON." name:"json"`
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
	report := map[string]any{"schema": v.Schema, "found": v.Found, "known": v.Known}
	return env.report(c.JSON, report, func() error { return writeText(env, versionText(v)+"\n") })
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
