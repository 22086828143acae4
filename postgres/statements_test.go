package postgres

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A field without a file fails in New, and the compiler finds a use without a field. This
// finds a file without a field, and a field without a use.
func TestEveryStatementHasAFileAndAUse(t *testing.T) {
	t.Parallel()
	use := regexp.MustCompile(`\.statements\.(\w+)`)
	used := make(map[string]bool)
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range sources {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, found := range use.FindAllStringSubmatch(string(text), -1) {
			used[found[1]] = used[found[1]] || !strings.HasSuffix(name, "_test.go")
		}
	}
	var files []string
	each(new(statements), func(field, _ string) string {
		files = append(files, fileOf(field))
		require.True(t, used[field], "nothing runs statements.%s", field)
		return ""
	})
	stored, err := filepath.Glob("queries/*")
	require.NoError(t, err)
	require.ElementsMatch(t, stored, files, "the files under queries, and those of the fields of statements")
}

func TestStatementsBeginWithTheirName(t *testing.T) {
	t.Parallel()
	s, err := load("almanac")
	require.NoError(t, err)
	each(&s, func(field, text string) string {
		require.Regexp(t, `^/\* almanac [a-z_]+ \*/ [A-Z]`, text, field)
		return text
	})
	require.Contains(t, s.SettleEnded, "/* almanac settle_ended */ ")
}

// A used key is a text of a unit. The same text of another unit is another key.
func TestUsedKeysAreComparedWithTheirUnits(t *testing.T) {
	t.Parallel()
	s, err := load("almanac")
	require.NoError(t, err)
	each(&s, func(field, text string) string {
		require.GreaterOrEqual(t, strings.Count(text, "used_unit = "), strings.Count(text, "used_key = "), field)
		return text
	})
}
