package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// block is a fenced block of a document.
type block struct {
	document string
	line     int // of its first line
	language string
	text     string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// blocks returns those of the README and of the documents beside this test, by
// document, in order.
func blocks(t *testing.T) map[string][]block {
	t.Helper()
	documents, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]block{}
	for _, name := range append(documents, "../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range fence.FindAllSubmatchIndex(text, -1) {
			line := 2
			for _, b := range text[:at[0]] {
				if b == '\n' {
					line++
				}
			}
			found[name] = append(found[name], block{name, line, string(text[at[2]:at[3]]), string(text[at[4]:at[5]])})
		}
	}
	return found
}

// in returns the blocks of a language.
func in(language string, all []block) (some []block) {
	for _, b := range all {
		if b.language == language {
			some = append(some, b)
		}
	}
	return some
}
