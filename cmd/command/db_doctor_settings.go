package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// operationLimit is how long an operation of a store may take by default (postgres.WithTimeout).
const operationLimit = 5 * time.Second

// setting is a setting under which programs do not work, or not always.
type setting struct {
	bad      func(value string) bool
	severity severity
	text     string
}

// dangerous are the settings to look at, by name. A role, a database or the server may have them.
var dangerous = map[string]setting{
	"server_encoding":                {isNot("UTF8"), broken, "the database cannot hold every text, and programs refuse it: make one with ENCODING 'UTF8'"},
	"client_encoding":                {isNot("UTF8"), broken, "programs refuse to work, since they send and read UTF8"},
	"default_transaction_read_only":  {isNot("off"), broken, "programs can store nothing"},
	"session_replication_role":       {isNot("origin"), broken, "triggers do not run, so edits of users are missed, and so are the trail and the outbox"},
	"statement_timeout":              {isShort, warns, "an operation may take 5 s, and one that never ends in time is never done"},
	"transaction_timeout":            {isShort, warns, "an operation may take 5 s, and one that never ends in time is never done"},
	"default_transaction_deferrable": {isNot("off"), notice, "a read-only transaction that is serializable may wait for long"},
}

func isNot(value string) func(string) bool { return func(is string) bool { return is != value } }

// isShort reports whether a timeout is shorter than an operation may be. Zero means that there is none.
func isShort(value string) bool {
	ms, err := strconv.Atoi(value)
	return err == nil && ms > 0 && time.Duration(ms)*time.Millisecond < operationLimit
}

// settings looks for settings of this role in this database under which programs do not work.
func (p *patient) settings(ctx context.Context) ([]finding, error) {
	names := make([]string, 0, len(dangerous))
	for name := range dangerous {
		names = append(names, name)
	}
	rows, err := p.conn.Query(ctx, statement("settings", p.tables.Schema), pgx.StrictNamedArgs{"names": names})
	if err != nil {
		return nil, err
	}
	var findings []finding
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		if s := dangerous[name]; s.bad(value) {
			findings = append(findings, finding{Severity: s.severity, Text: fmt.Sprintf("%s is %s: %s", name, value, s.text), Advice: adviceFor(name)})
		}
		return nil
	})
	if err == nil && len(findings) == 0 {
		findings = []finding{{Severity: fine, Text: "no setting of this role in this database keeps programs from working"}}
	}
	return findings, err
}

func adviceFor(name string) string {
	if name == "server_encoding" {
		return "move the data to a database of UTF8: pg_dump, CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, psql"
	}
	return fmt.Sprintf("ALTER ROLE … RESET %[1]s, or ALTER DATABASE … RESET %[1]s, for the roles of programs", name)
}

// publications looks for tables in which a publication stops all writes.
func (p *patient) publications(ctx context.Context) ([]finding, error) {
	rows, err := p.conn.Query(ctx, statement("publications", p.tables.Schema), pgx.StrictNamedArgs{"schema": p.tables.Schema})
	if err != nil {
		return nil, err
	}
	var findings []finding
	var publication, table string
	_, err = pgx.ForEachRow(rows, []any{&publication, &table}, func() error {
		findings = append(findings, finding{
			Severity: broken,
			Text:     fmt.Sprintf("publication %s stops updates and deletions in %s, which has neither a primary key nor a replica identity", publication, table),
			Advice:   fmt.Sprintf("ALTER TABLE %s.%s REPLICA IDENTITY DEFAULT, if the primary key is there", p.tables.Schema, table),
		})
		return nil
	})
	return findings, err
}

const insufficientPrivilege = "42501" // see appendix A of the PostgreSQL manual

// outbox looks for consumers that read nothing, because their positions are of another server.
func (p *patient) outbox(ctx context.Context) ([]finding, error) {
	if err := p.store.Verify(ctx); errors.Is(err, almanac.ErrOutdated) {
		return nil, nil // which the schema's finding says
	}
	rows, err := p.conn.Query(ctx, statement("moved_consumers", p.tables.Schema))
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if isRefused(err) {
		return []finding{{Severity: notice, Text: "this role may not see the positions of consumers"}}, nil
	}
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return []finding{{
		Severity: broken,
		Text:     "positions of another server, so that these consumers read nothing: " + strings.Join(names, ", "),
		Advice:   "have the owner of the tables call postgres.EnableOutbox: all consumers then read every stored row once more",
	}}, nil
}
