package docs_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page about the path of an event names files and functions that are there, in at most
// thirty steps.
func TestThePathOfAnEventMatchesTheCode(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("how-it-works.md")
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
		sentence, _, _ := strings.Cut(string(step[3]), "Back to step 4")
		for _, name := range names.FindAllSubmatch([]byte(sentence), -1) {
			require.Regexp(t, `(?m)^func (\([^)]*\) )?`+string(name[1])+`[(\[]`, string(source), "step %d", number)
			checked++
		}
	}
	require.Greater(t, checked, 20)
}
