package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const (
	maxColumns  = 100
	maxADRLines = 60
)

// allDocuments returns the text of every Markdown file of the tree, by its path from here.
func allDocuments(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		found[name] = string(text)
		return err
	}))
	require.Greater(t, len(found), 30)
	return found
}

// TestMarkdownIsWrapped checks that lines of prose have at most maxColumns columns, and a
// decision record at most maxADRLines lines.
func TestMarkdownIsWrapped(t *testing.T) {
	t.Parallel()
	for name, text := range allDocuments(t) {
		for _, line := range longLines(text) {
			t.Errorf("%s: more than %d columns: %s", name, maxColumns, line)
		}
		record := filepath.Base(filepath.Dir(name)) == "adr" && filepath.Base(name) != "README.md"
		if lines := strings.Count(text, "\n"); record && lines > maxADRLines {
			t.Errorf("%s: %d lines, want at most %d", name, lines, maxADRLines)
		}
	}
}

var (
	table  = regexp.MustCompile(`^\s*\|`)
	target = regexp.MustCompile(`\]\([^)]*\)|<https?://[^>]*>`)
)

// longLines returns the lines of a document that are too long. Tables, code, and the
// targets of links do not count.
func longLines(text string) (long []string) {
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced || table.MatchString(line) || strings.HasPrefix(line, "    ") {
			continue
		}
		if utf8.RuneCountInString(target.ReplaceAllString(line, "]")) > maxColumns {
			long = append(long, line)
		}
	}
	return long
}

var link = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]+))?\)`)

// TestLinksOfTheDocumentsResolve checks that links within the tree lead to a file, and to a
// heading if they name one.
func TestLinksOfTheDocumentsResolve(t *testing.T) {
	t.Parallel()
	all := allDocuments(t)
	for name, text := range all {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			file := name
			if found[1] != "" {
				file = filepath.Join(filepath.Dir(name), found[1])
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if text, ok := all[file]; ok && found[2] != "" && !anchors(text)[found[2]] {
				t.Errorf("%s: %s has no heading #%s", name, file, found[2])
			}
		}
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors returns the names by which links name the headings of a document.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, h[1])] = true
	}
	return found
}
