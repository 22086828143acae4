package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tables of log lines name lines and fields that the library writes, and every line from Info on.
func TestTheTableOfLogLinesIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var table string
	for _, part := range strings.Split(string(text), "| line | level | when | fields besides |\n| --- | --- | --- | --- |\n")[1:] {
		rows, _, _ := strings.Cut(part, "\n\n")
		table += rows + "\n"
	}
	source := sourceOf(t, "..", "../broadcast", "../webhook", "../internal/engine")
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
	if rows < 45 {
		t.Errorf("%d rows in the tables of log lines", rows)
	}
	written := regexp.MustCompile(`(?:\.log\.(?:(?:Info|Warn|Error)Context|LogAttrs)\([^"\n]*, |write\(slog\.Level(?:Info|Warn|Error), )"([^"]+)"`)
	for _, line := range written.FindAllStringSubmatch(source, -1) {
		if !strings.Contains(table, "| `"+line[1]+"` |") {
			t.Errorf("the library writes %q, which the tables of operations.md lack", line[1])
		}
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
