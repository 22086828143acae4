package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// No statement uses an operator or a function that another role has created.
func TestStatementsUseOperatorsAndFunctionsOfPgCatalog(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	pgtest.Trap(t, address, "queries/*.sql", "*.go")
	parser := pgtest.NewParser(t, address)
	files, err := filepath.Glob("queries/*.sql")
	require.NoError(t, err)
	for _, file := range files {
		created, err := parser.CreatedIn(t.Context(), statement(strings.TrimSuffix(filepath.Base(file), ".sql"), "almanac"))
		if assert.NoError(t, err, "%s", file) {
			assert.Empty(t, created, "%s: ids of operators and functions", file)
		}
	}
}
