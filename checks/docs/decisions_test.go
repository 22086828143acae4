package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryDecisionIsListed checks that docs/adr/README.md has a row for each decision
// record, with its title.
func TestEveryDecisionIsListed(t *testing.T) {
	t.Parallel()
	all := allDocuments(t)
	list := all[filepath.Join("..", "docs", "adr", "README.md")]
	for name, text := range all {
		base := filepath.Base(name)
		if filepath.Base(filepath.Dir(name)) != "adr" || base == "README.md" {
			continue
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		if !strings.Contains(list, "| ["+base[:4]+"]("+base+") | "+title+" |\n") {
			t.Errorf("docs/adr/README.md does not list %s as %q", base, title)
		}
	}
}

var decision = regexp.MustCompile(`docs/adr/([0-9]{4}-[a-z0-9-]+\.md)`)

// TestEveryDecisionIsNamedInTheCode checks that Go or SQL code names each decision record,
// where a reader would wonder, and names no record that does not exist.
func TestEveryDecisionIsNamedInTheCode(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("adr")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, entry := range entries {
		if entry.Name() != "README.md" {
			named[entry.Name()] = false
		}
	}
	require.NotEmpty(t, named)
	require.NoError(t, filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".go", ".sql"}, filepath.Ext(name)) {
			return err
		}
		text, err := os.ReadFile(name)
		for _, found := range decision.FindAllSubmatch(text, -1) {
			if _, ok := named[string(found[1])]; !ok {
				t.Errorf("%s names the record %s, which does not exist", name, found[1])
			}
			named[string(found[1])] = true
		}
		return err
	}))
	for record, ok := range named {
		if !ok {
			t.Errorf("no code names docs/adr/%s: name it where it explains the code, or move its reason there", record)
		}
	}
}
