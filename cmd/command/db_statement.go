package command

import (
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

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
