package pgtest

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed traps.sql
var traps string

// Trap creates operators and functions in the schema public of a database, as before
// PostgreSQL 15 every role may, and puts public before pg_catalog in the search_path of the
// database. Each raises an exception. They have the names of operators of pg_catalog, and of
// those of its functions that the files call which the patterns match.
func Trap(t testing.TB, address string, patterns ...string) {
	t.Helper()
	conn := connectTo(t, address, nil)
	names := "'" + strings.Join(functionsIn(t, patterns), "', '") + "'"
	if _, err := conn.Exec(t.Context(), strings.ReplaceAll(traps, ":functions", "ARRAY["+names+"]")); err != nil {
		t.Fatalf("pgtest: set traps: %v", err)
	}
}

func connectTo(t testing.TB, address string, onNotice pgconn.NoticeHandler) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(Direct(t, address))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	config.OnNotice = onNotice
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

var call = regexp.MustCompile(`\b([a-z][a-z0-9_]*) ?\(`)

// functionsIn returns what looks like the names of functions in the files that the patterns match.
func functionsIn(t testing.TB, patterns []string) (names []string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("pgtest: no file matches %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("pgtest: %v", err)
			}
			for _, found := range call.FindAllStringSubmatch(string(text), -1) {
				names = append(names, found[1])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Parser shows which operators and functions the server takes for those of a statement.
type Parser struct {
	conn *pgx.Conn
	tree strings.Builder // of the statement that was parsed last
}

// NewParser returns a parser for a database. The search_path is the default one: pg_catalog
// comes before public.
func NewParser(t testing.TB, address string) *Parser {
	t.Helper()
	p := new(Parser)
	p.conn = connectTo(t, address, func(_ *pgconn.PgConn, n *pgconn.Notice) { p.tree.WriteString(n.Detail) })
	const settings = "SET search_path = public; SET client_min_messages = log; SET debug_pretty_print = off; SET debug_print_parse = on"
	if _, err := p.conn.Exec(t.Context(), settings); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return p
}

var (
	// objectIDs are the places in a parse tree that name an operator or a function.
	objectIDs = regexp.MustCompile(`:(?:opno|opfuncid|funcid|aggfnoid|winfnoid|eqop|sortop) (\d+)|:opnos \(o ([\d ]+)\)`)
)

// firstCreated is the least object id of what the server did not create itself.
const firstCreated = 16384

// CreatedIn returns the object ids of the operators and functions in a statement that are
// not the server's own. Parameters are named.
func (p *Parser) CreatedIn(ctx context.Context, statement string) (created []int, err error) {
	sql, _, err := pgx.NamedArgs{}.RewriteQuery(ctx, p.conn, statement, nil)
	if err != nil {
		return nil, err
	}
	p.tree.Reset()
	if _, err := p.conn.Prepare(ctx, "", sql); err != nil {
		return nil, err
	}
	if p.tree.Len() == 0 {
		return nil, fmt.Errorf("pgtest: the server shows no parse tree")
	}
	for _, found := range objectIDs.FindAllStringSubmatch(p.tree.String(), -1) {
		for id := range strings.FieldsSeq(found[1] + found[2]) {
			if n, err := strconv.Atoi(id); err != nil || n >= firstCreated {
				created = append(created, n)
			}
		}
	}
	return created, nil
}
