package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedTest   = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[^`]*)`")
	namedADR    = regexp.MustCompile(`\[ADR (\d{4})\]\(adr/(\d{4})-[a-z-]+\.md\)`)
	linked      = regexp.MustCompile(`\]\(([^)]+)\)`)
	testDefined = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// Every row of the table of requirements has a proof: tests that exist, or a decision
// that does. Rows are numbered, so that none is lost in silence.
func TestEveryRequirementOfTheSeedsHasAProof(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("seeds.md")
	require.NoError(t, err)
	tests := testsOfTheTree(t)
	documents, rows := 0, 0
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "## ") {
			documents++
		}
		cells := strings.Split(line, "|")
		if len(cells) < 2 || strings.Trim(cells[1], " -") == "" {
			continue // no row, or the head of a table
		}
		if len(cells) != 6 {
			t.Errorf("%d cells in %q, want a number, a requirement, a place and a proof", len(cells)-2, line)
			continue
		}
		rows++
		for _, problem := range problemsOfRow(cells, rows, tests) {
			t.Errorf("%s: %s", strings.TrimSpace(line), problem)
		}
	}
	if documents != 5 || rows < 191 {
		t.Errorf("%d rows about %d documents, want 191 or more about five", rows, documents)
	}
}

// problemsOfRow says what is wrong with a row: its number, its links, its proof.
func problemsOfRow(cells []string, number int, tests map[string]bool) (problems []string) {
	if strings.TrimSpace(cells[1]) != strconv.Itoa(number) {
		problems = append(problems, "is row "+strconv.Itoa(number))
	}
	if strings.TrimSpace(cells[2]) == "" || !linked.MatchString(cells[3]) {
		problems = append(problems, "has no requirement, or no place")
	}
	for _, link := range linked.FindAllStringSubmatch(cells[3]+cells[4], -1) {
		if _, err := os.Stat(filepath.FromSlash(link[1])); err != nil {
			problems = append(problems, "leads nowhere: "+link[1])
		}
	}
	named, decisions := namedTest.FindAllStringSubmatch(cells[4], -1), namedADR.FindAllStringSubmatch(cells[4], -1)
	if len(named)+len(decisions) == 0 {
		problems = append(problems, "has no proof")
	}
	for _, test := range named {
		if !tests[test[1]] {
			problems = append(problems, "no test is called "+test[1])
		}
	}
	for _, decision := range decisions {
		if decision[1] != decision[2] {
			problems = append(problems, "ADR "+decision[1]+" leads to ADR "+decision[2])
		}
	}
	return problems
}

// testsOfTheTree returns the names of all tests, of every module.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, test := range testDefined.FindAllSubmatch(text, -1) {
			found[string(test[1])] = true
		}
		return err
	})
	require.NoError(t, err)
	return found
}
