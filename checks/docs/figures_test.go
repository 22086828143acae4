package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var namedMigration = regexp.MustCompile(`\b[Mm]igrations? (\d{4})\b`)

// TestNamedMigrationsExist checks that documents name no migration that is gone.
func TestNamedMigrationsExist(t *testing.T) {
	t.Parallel()
	for name, text := range allDocuments(t) {
		for _, found := range namedMigration.FindAllStringSubmatch(text, -1) {
			files, err := filepath.Glob("../postgres/migrations/" + found[1] + "_*.sql")
			require.NoError(t, err)
			if len(files) == 0 {
				t.Errorf("%s names migration %s, which does not exist", name, found[1])
			}
		}
	}
}

// TestTheTableOfBenchFlagsIsComplete checks that bench/README.md has a row for each flag of the
// program, and for no other.
func TestTheTableOfBenchFlagsIsComplete(t *testing.T) {
	t.Parallel()
	names := func(file, pattern string) (found []string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, match[1])
		}
		return found
	}
	defined := names("../bench/main.go", `flags\.\w+\("([a-z]+)"`)
	require.NotEmpty(t, defined)
	require.ElementsMatch(t, defined, names("../bench/README.md", "(?m)^\\| `-([a-z]+)` \\|"))
}
