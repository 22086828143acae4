package browsertest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// axe is the source of axe-core.
var axe = sync.OnceValues(func() (string, error) {
	path := os.Getenv("ALMANAC_TEST_AXE")
	if path == "" {
		return "", fmt.Errorf("set ALMANAC_TEST_AXE to the file axe.min.js of the npm package axe-core")
	}
	source, err := os.ReadFile(path)
	return string(source), err
})

// What axe-core looks for: by all its rules for WCAG 2.2 and by those that it calls best practices, or
// by those whose answer depends on colours.
const (
	everything = `rules: {"target-size": {enabled: true}}`
	colours    = `runOnly: ["color-contrast", "link-in-text-block"]`
)

// violations returns what axe-core finds wrong with a page.
func (b *tab) violations(by string) []string {
	b.t.Helper()
	source, err := axe()
	require.NoError(b.t, err)
	eval[bool](b, source+"; true") // the value of the source itself is large
	return eval[[]string](b, `axe.run(document, {resultTypes: ["violations"], `+by+`}).then((r) =>
		r.violations.map((v) => v.id + " (" + v.impact + "): " + v.help + "\n" +
			v.nodes.slice(0, 5).map((n) => "  " + n.html + "\n    " + n.failureSummary.replace(/\n/g, " ")).join("\n")))`)
}

// requireAccessible requires that axe-core finds nothing, that nothing is wider than the window,
// and that the page has a title and one heading of the first level.
func (b *tab) requireAccessible() {
	b.t.Helper()
	require.Empty(b.t, strings.Join(b.violations(everything), "\n"))
	require.Empty(b.t, eval[[]string](b, `document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
		.filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll")).map((e) => e.outerHTML.slice(0, 120)).slice(0, 5)
		.concat("the page is " + document.documentElement.scrollWidth + " wide")`), "wider than the window")
	require.Equal(b.t, 1, eval[int](b, `document.querySelectorAll("h1").length`))
	title := eval[string](b, `document.title`)
	require.True(b.t, strings.HasPrefix(title, b.text("h1")), title)
}

func TestAxeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newTab(t, newBrowser(t), desk)
	b.open(`data:text/html,<html lang="en"><title>x</title><main><h1>x</h1><input><p style="color:%23ccc">pale</p></main>`)
	found := strings.Join(b.violations(everything), "\n")
	require.Contains(t, found, "label (")
	require.Contains(t, found, "color-contrast (")
	require.Contains(t, strings.Join(b.violations(colours), "\n"), "color-contrast (")
}
