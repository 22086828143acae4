package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/postgres"
)

// target is the database that a command is about.
type target struct {
	DatabaseURL string `help:"The PostgreSQL database; required." placeholder:"URL" env:"DATABASE_URL" required:"" default:""`
	Schema      string `help:"The schema of the tables (default ${default})." placeholder:"NAME" default:"almanac"`
}

// check returns everything that is wrong with it, without asking the database.
func (t *target) check() error {
	var errURL error
	if t.DatabaseURL == "" {
		errURL = errors.New("--database-url or DATABASE_URL is required")
	} else if _, err := pgx.ParseConfig(t.DatabaseURL); err != nil {
		errURL = about("--database-url", err)
	}
	return errors.Join(errURL, checkSchema(t.Schema))
}

func checkSchema(name string) error {
	_, err := postgres.New(new(pgx.Conn), postgres.WithSchema(name)) // which does not connect
	return about("--schema", err)
}

// open connects, with some patience for each operation.
func (t *target) open(ctx context.Context, patience time.Duration) (*pgx.Conn, *postgres.Store, error) {
	conn, err := connect(ctx, t.DatabaseURL)
	if err != nil {
		return nil, nil, err
	}
	store, err := postgres.New(conn, postgres.WithSchema(t.Schema), postgres.WithTimeout(patience))
	if err != nil {
		disconnect(ctx, conn)
		return nil, nil, err
	}
	return conn, store, nil
}

//go:embed queries/*.sql
var queries embed.FS

// statement returns one of the files under queries, for a schema. Each begins with
// what it takes, what it returns and what it costs.
func statement(name, schema string) string {
	text, err := queries.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("almanac: no statement %s: %v", name, err)) // it was embedded
	}
	return strings.ReplaceAll(string(text), `:"schema"`, pgx.Identifier{schema}.Sanitize())
}
