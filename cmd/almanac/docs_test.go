package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A document that shows a command and then its output shows what it prints.
func TestDocumentsShowWhatIsPrinted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/clocks.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```sh\ngo run ./cmd/almanac ([^\n]+)\n```\n\n```text\n(.*?)```").FindAllSubmatch(text, -1)
	if len(shown) == 0 {
		t.Fatal("no command with its output in clocks.md")
	}
	for _, s := range shown {
		if r := almanacAt(t, today, strings.Fields(string(s[1]))...); r.code != exitOK || r.out != string(s[2]) {
			t.Errorf("%s prints\n%s\nclocks.md shows\n%s", s[1], r.out, s[2])
		}
	}
}
