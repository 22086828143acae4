package docs_test

import (
	"testing"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// Every block of SQL runs, after those before it in its document, in a database with
// Almanac's tables.
func TestStatementsOfTheDocumentsRun(t *testing.T) {
	t.Parallel()
	for name, all := range blocks(t) {
		statements := in("sql", all)
		if len(statements) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := pgtest.Pool(t).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			for _, b := range statements {
				if _, err := conn.Conn().PgConn().Exec(t.Context(), b.text).ReadAll(); err != nil {
					t.Errorf("%s:%d: %v", b.document, b.line, err)
				}
			}
		})
	}
}
