package postgres

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// schemaInText finds what stands before the tables' names.
var schemaInText = regexp.MustCompile(`(\S+)\.(?:events|users|series|queue|history|keys|leases|zone_rules|zone_marks|calendars|quarantine|lanes|lane_states|lane_clock|visits|settings|broadcasts|broadcast_zones|broadcast_users|broadcast_removed|broadcast_steps|audit|outbox|outbox_consumers|claim_lanes)\b`)

// FuzzSchema gives any name for a schema: it is refused, or it stands in quotes in
// every statement, and nothing of it outside of them.
func FuzzSchema(f *testing.F) {
	for _, seed := range []string{
		"almanac", "a", "_", "select", "user", "public", "pg_catalog", "pg_", "pga", "Almanac", "9lives", "", strings.Repeat("x", 63), strings.Repeat("x", 64),
		`a"b`, `a"; DROP SCHEMA public CASCADE; --`, "a.b", "a b", "ａ", "a\x00b", "a\n", "événements", ":event", "$1", "@types", `\`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s, err := New((*pgxpool.Pool)(nil), WithSchema(name))
		if err != nil {
			if s != nil || !strings.HasPrefix(err.Error(), "postgres: ") {
				t.Errorf("schema %q: %v, %v", name, s, err)
			}
			return
		}
		for _, r := range name {
			if r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
				t.Fatalf("schema %q is accepted", name)
			}
		}
		if name == "" || len(name) > 63 || name[0] >= '0' && name[0] <= '9' || strings.HasPrefix(name, "pg_") {
			t.Fatalf("schema %q is accepted", name)
		}
		each(&s.statements, func(field, statement string) string {
			for _, found := range schemaInText.FindAllStringSubmatch(statement, -1) {
				if !strings.HasSuffix(found[1], `"`+name+`"`) {
					t.Errorf("schema %q in %s: %s", name, field, found[0])
				}
			}
			if strings.Contains(statement, `:"`) {
				t.Errorf("%s is not filled in: %s", field, statement)
			}
			return statement
		})
	})
}

// quotedName reads a quoted identifier as PostgreSQL does (section 4.1.1 of its
// manual): two quotes within are one, and nothing follows the last.
var quotedName = regexp.MustCompile(`^"((?:[^"]|"")*)"$`)

// FuzzQuoted quotes any name, though only good ones are ever accepted.
func FuzzQuoted(f *testing.F) {
	for _, seed := range []string{"almanac", `"`, `""`, `a"b`, `"; DROP SCHEMA public; --`, "\\\"", "a\x00b", "\xff", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		read := quotedName.FindStringSubmatch(quoted(name))
		if read == nil || strings.ReplaceAll(read[1], `""`, `"`) != strings.ReplaceAll(name, "\x00", "") {
			t.Errorf("%q is quoted as %s", name, quoted(name))
		}
	})
}
