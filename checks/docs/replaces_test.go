package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A module of a reader needs a replace for the module cmd, and for each that cmd itself replaces.
func TestACommandOfAHostNamesEveryReplace(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
		require.NoError(t, err)
		return string(text)
	}
	wanted := []string{"github.com/almanac-go/almanac/cmd"}
	for _, found := range regexp.MustCompile(`(?m)^\s+(\S+) => `).FindAllStringSubmatch(read("cmd/go.mod"), -1) {
		wanted = append(wanted, found[1])
	}
	var named []string
	for _, found := range regexp.MustCompile(`-replace (\S+)=\S+`).FindAllStringSubmatch(read("docs/embedding.md"), -1) {
		named = append(named, found[1])
	}
	slices.Sort(wanted)
	slices.Sort(named)
	require.Equal(t, wanted, named)
}
