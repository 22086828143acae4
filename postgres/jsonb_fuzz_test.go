package postgres_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/internal/jsonb"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// FuzzCheckedJSON has PostgreSQL store any JSON text: what Check accepts is stored, and is as long
// as Check says. What PostgreSQL writes is accepted again.
func FuzzCheckedJSON(f *testing.F) {
	pool := pgtest.Pool(f)
	for _, text := range []string{
		`{"a":[1,-2.5e3,"é \ud83c\udf82\n\"\\/",null,true,false],"b":{"a":{},"aa":[]}}`, ` [ ] `, `""`, `"\u0008\u0001\u001f\u007f\u2028"`,
		`-0`, `-0.0`, `0e-3`, `0e5`, `0.00e1`, `0.0e-400`, `0e-999999`, `1e308`, `-1.5E-300`, `1e-5`, `100e-1`, `0.001e3`, `1.50e1`, `4.9e-324`,
		`123456789012345678901234567890.1234567890123456789012345678901234567890`, `0.000000000000000000000000000000000000000000000000000000000001e350`,
		strings.Repeat("[", 32) + strings.Repeat("]", 32), `{"":"","b":1,"a":2,"ab":3,"é":4}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkAsPostgreSQL(t, pool, text) })
}

// fatal is a test of either kind.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkAsPostgreSQL(t fatal, pool *pgxpool.Pool, text []byte) {
	t.Helper()
	if !json.Valid(text) || !utf8.Valid(text) {
		return
	}
	length, problem := jsonb.Check(text)
	if problem != "" {
		return
	}
	var stored int
	var written string
	err := pool.QueryRow(context.Background(), "SELECT octet_length(j::text), j::text FROM (SELECT $1::text::jsonb AS j) AS stored", string(text)).Scan(&stored, &written)
	if err != nil || stored != length {
		t.Fatalf("%q: Check says %d bytes, PostgreSQL writes %d, %v: %s", text, length, stored, err, written)
	}
	if again, problem := jsonb.Check([]byte(written)); again != stored || problem != "" {
		t.Fatalf("%q: of what PostgreSQL writes, Check says %d bytes, %q", written, again, problem)
	}
}

// The same for texts of values that are drawn: deep, with odd names, escapes and numbers.
func TestCheckedJSONIsAsLongAsPostgreSQLWritesIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	rapid.Check(t, func(t *rapid.T) { checkAsPostgreSQL(t, pool, []byte(drawJSON(t, 3))) })
}

// drawJSON draws a JSON text, some of which jsonb refuses.
func drawJSON(t *rapid.T, depth int) string {
	blank := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r"}).Draw(t, "blank") }
	str := func() string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", "ab", "é", "🎂", " ", "/", "\x7f", "\u2028", "$$", "''", `\\`, `\"`, `\/`, `\b`, `\t`, `\n`, `\f`, `\r`,
			`\u0001`, `\u000b`, `\u001F`, `\u0041`, `\u00e9`, `\u2028`, `\ud83c\udf82`, `\uFFFF`, `\u0000`,
		}), 0, 6).Draw(t, "string")
		return `"` + strings.Join(parts, "") + `"`
	}
	kinds := []string{"string", "number", "number", "word"}
	if depth > 0 {
		kinds = append(kinds, "list", "object", "object")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "string":
		return str()
	case "number":
		return rapid.StringMatching(`-?(0|0|[1-9][0-9]{0,30})(\.(0{0,12}[0-9]{1,12}))?([eE][+-]?(0?[0-9]{1,2}|[12][0-9]{2}|30[0-9]|[34][0-9]{2}))?`).Draw(t, "number")
	case "word":
		return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
	default:
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			member := blank() + drawJSON(t, depth-1) + blank()
			if kind == "object" {
				member = blank() + str() + blank() + ":" + member
			}
			members = append(members, member)
		}
		open, end := "[", "]"
		if kind == "object" {
			open, end = "{", "}"
		}
		return open + strings.Join(members, ",") + blank() + end
	}
}
