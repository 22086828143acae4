package mutations_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutation is a patch that removes a safeguard, and the test that fails without it.
type mutation struct {
	promise string // what the safeguard is for, in the words of the document
	in      string // the document, from the root of the tree
	file    string // from the root of the tree
	old     string // a text that is in the file exactly once
	new     string // what replaces it
	test    string // a package directory, a space, and a pattern for -run that begins with a test's name
}

// all returns every mutation, in the order of the lists.
func all() []mutation {
	return slices.Concat(claims, lanes, settlements, planning, usedDays, edits, runs, deliveries, times, otherCalendars, daysKept, quarantined, imports, support, operations, broadcasts, shardings, surroundings)
}

// pkg returns the directory of the package whose test must fail, from the root of the tree.
func (m mutation) pkg() string {
	pkg, _, _ := strings.Cut(m.test, " ")
	return pkg
}

// pattern returns the pattern for -run.
func (m mutation) pattern() string {
	_, pattern, _ := strings.Cut(m.test, " ")
	return pattern
}

// name returns the name of a subtest. It has no slash, which would divide a pattern for -run.
func (m mutation) name() string {
	return strings.ReplaceAll(m.file+": "+m.promise+", "+m.pattern(), "/", " ")
}

// apply returns the text of the file without the safeguard.
func (m mutation) apply(text string) (string, error) {
	if n := strings.Count(text, m.old); n != 1 {
		return "", fmt.Errorf("%s has the text to replace %d times, not once: %q", m.file, n, m.old)
	}
	changed := strings.Replace(text, m.old, m.new, 1)
	if changed == text {
		return "", fmt.Errorf("%s: the patch changes nothing: %q", m.file, m.old)
	}
	return changed, nil
}

// check returns an error if the mutation does not fit the tree: its patch does not apply, its test
// does not exist, or its document does not make the promise.
func (m mutation) check(root string) error {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return err
	}
	if _, err := m.apply(string(text)); err != nil {
		return err
	}
	document, err := os.ReadFile(filepath.Join(root, m.in))
	if err != nil {
		return err
	}
	if !strings.Contains(words(string(document)), words(m.promise)) || len(m.promise) < 10 {
		return fmt.Errorf("%s does not say %q", m.in, m.promise)
	}
	return m.checkTest(root)
}

// checkTest returns an error if no file of the package has the test.
func (m mutation) checkTest(root string) error {
	name := regexp.MustCompile(`^\^?((Test|Fuzz)\w+)`).FindStringSubmatch(m.pattern())
	if name == nil {
		return fmt.Errorf("the pattern %q does not begin with a test", m.pattern())
	}
	files, err := filepath.Glob(filepath.Join(root, m.pkg(), "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "\nfunc "+name[1]+"(") {
			return nil
		}
	}
	return fmt.Errorf("package %s has no test %s", path.Clean(m.pkg()), name[1])
}

// words returns a text with one space between words, as after the wrapping of another editor.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// The documents that make promises.
const (
	readme      = "README.md"
	seeds       = "docs/seeds.md"
	reliability = "docs/reliability.md"
	handlers    = "docs/handlers.md"
	operating   = "docs/operations.md"
	days        = "docs/days.md"
	clocks      = "docs/clocks.md"
)
