package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table about the path of an event names files and functions that are there, in at most
// thirty steps.
func TestThePathOfAnEventMatchesTheCode(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	steps := regexp.MustCompile(`(?m)^\| (\d+) \| \[[^]]+\]\(([^)]+)\) \| (.*) \|$`).FindAllSubmatch(text, -1)
	require.NotEmpty(t, steps)
	require.LessOrEqual(t, len(steps), 30)
	names := regexp.MustCompile("`([A-Za-z]+)`")
	checked := 0
	for i, step := range steps {
		number, err := strconv.Atoi(string(step[1]))
		require.NoError(t, err)
		require.Equal(t, i+1, number, "a step after the other")
		source, err := os.ReadFile(string(step[2]))
		require.NoError(t, err)
		if !strings.HasSuffix(string(step[2]), ".go") {
			continue
		}
		sentence, _, _ := strings.Cut(string(step[3]), "back to step 5")
		for _, name := range names.FindAllSubmatch([]byte(sentence), -1) {
			require.Regexp(t, `(?m)^func (\([^)]*\) )?`+string(name[1])+`[(\[]`, string(source), "step %d", number)
			checked++
		}
	}
	require.Greater(t, checked, 20)
}

// The table of files names files that are there. A row without a directory is about the
// directory above it, and the first rows are about the root.
func TestTheFilesOfTheArchitectureExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "## What is where")
	section, _, found := strings.Cut(rest, "\n## ")
	require.True(t, found)
	linked, named := regexp.MustCompile(`\]\((\.\./[a-z/]+)\)`), regexp.MustCompile("`([a-z_/*.]+)`")
	dirs, checked := []string{".."}, 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		if links := linked.FindAllStringSubmatch(cells[1], -1); links != nil {
			dirs = nil
			for _, link := range links {
				dirs = append(dirs, link[1])
			}
		}
		for _, name := range named.FindAllStringSubmatch(cells[2], -1) {
			var files []string
			for _, dir := range dirs {
				matches, err := filepath.Glob(filepath.Join(dir, name[1]))
				require.NoError(t, err)
				files = append(files, matches...)
			}
			if len(files) == 0 {
				t.Errorf("architecture.md: no file %s in %s", name[1], strings.Join(dirs, ", "))
			}
			checked++
		}
	}
	require.Greater(t, checked, 40)
}
