package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of log lines names lines and fields that the library writes.
func TestTheTableOfLogLinesIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| line | level | when | fields besides |\n| --- | --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	source := sourceOf(t, "..", "../webhook", "../internal/engine")
	quoted := regexp.MustCompile("`([^`]+)`")
	rows := 0
	for row := range strings.Lines(table) {
		rows++
		cells := strings.Split(row, "|")
		for _, name := range quoted.FindAllStringSubmatch(cells[1]+cells[4], -1) {
			if !strings.Contains(source, `"`+name[1]+`"`) {
				t.Errorf("operations.md says that %q is in the log; nothing writes it", name[1])
			}
		}
	}
	if rows < 15 {
		t.Errorf("%d rows in the table of log lines", rows)
	}
}

// sourceOf returns the Go files of directories without their tests.
func sourceOf(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}
