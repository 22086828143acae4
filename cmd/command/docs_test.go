package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/webhook"
)

// A document that shows a command and then its output shows what it prints.
func TestDocumentsShowRealOutput(t *testing.T) {
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

// The page about imports shows what its commands print, one after the other, for the file that it shows.
func TestTheImportsOfTheDocumentsAreReal(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/imports.md")
	require.NoError(t, err)
	file := fileOf(t, "people.csv", regexp.MustCompile("(?s)```csv\n(.*?)```").FindStringSubmatch(string(text))[1])
	url := pgtest.URL(t)
	shown := regexp.MustCompile("(?s)```sh\nalmanac ([^\n]+)\n```\n\n```text\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, shown, 3)
	for _, s := range shown {
		r := almanacAt(t, today, append(strings.Fields(strings.Replace(s[1], "people.csv", file, 1)), "--database-url", url)...)
		require.Equal(t, s[2], strings.ReplaceAll(r.errs, file, "people.csv")+r.out)
	}
}

// Each command that a document shows is one that the command line understands.
func TestDocumentsShowExistingCommands(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, name := range append(documents, "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			for _, line := range regexp.MustCompile(`(?m)^(?:go .*run \./cmd/)?almanac (.*)$`).FindAllStringSubmatch(block[1], -1) {
				shown++
				var words []string
				for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line[1], -1) {
					words = append(words, strings.Trim(word, `"`))
				}
				if _, err := kong.Must(new(commands), choices, kong.Vars{"version": "", "schema": "almanac"}).Parse(words); err != nil {
					t.Errorf("%s: almanac %s: %v", name, line[1], err)
				}
			}
		}
	}
	if shown < 20 {
		t.Errorf("%d commands in all documents", shown)
	}
}

// The table of subcommands has each subcommand, and no other.
func TestTheTableOfSubcommandsIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, rows, _ := strings.Cut(string(text), "\n| `when` |")
	rows, _, _ = strings.Cut("| `when` |"+rows, "\n\n")
	var shown, exist []string
	for row := range strings.Lines(rows) {
		parent := ""
		for i, span := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			words := regexp.MustCompile(`^[a-z-]+( [a-z-]+)?`).FindString(span[1])
			if first, _, two := strings.Cut(words, " "); two {
				parent = first + " "
			} else if i > 0 && !slices.Contains([]string{"resume", "pauses"}, words) {
				words = parent + words
			}
			shown = append(shown, words)
		}
	}
	for _, leaf := range kong.Must(new(commands), choices, kong.Vars{"version": "", "schema": "almanac"}).Model.Leaves(true) {
		exist = append(exist, regexp.MustCompile(`^[a-z-]+( [a-z-]+)?`).FindString(strings.TrimPrefix(leaf.Path(), "command.test ")))
	}
	require.ElementsMatch(t, exist, shown)
}

// An example that filters by a reason begins as what a receiver's answer stores as the reason.
func TestReasonsOfExamplesOccur(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	shown := 0
	for _, name := range append(documents, "help.txt", "../../README.md", "../almanac/main.go") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, example := range regexp.MustCompile(`almanac events (?:list|requeue) .*--reason "([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			shown++
			occurs := false
			for code := 300; code < 600 && !occurs; code++ {
				occurs = strings.HasPrefix((&webhook.StatusError{Code: code}).Error(), example[1])
			}
			require.True(t, occurs, "%s: no receiver's answer has the reason of: %s", name, example[0])
		}
	}
	require.GreaterOrEqual(t, shown, 4)
}
