package mutations_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// verdict is what a test said about a mutation.
type verdict string

const (
	failed   verdict = "failed"     // as it must
	timedOut verdict = "timed out"  // the test did not end, which is noticed too
	survived verdict = "PASSED"     // nothing holds the promise
	broken   verdict = "not tested" // the patch does not apply, or the code does not compile
)

// findRoot returns the root of the tree.
func findRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// tree is a copy of the tree, in which files may be changed.
type tree struct{ dir string }

// newCopy copies the files of the working tree that git has or would add.
func newCopy(t *testing.T, root string) *tree {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the files of the tree: %v", err)
	}
	dir, err := os.MkdirTemp("", "mutations-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// The tests run the server under another account, which must be able to enter.
	err = os.Chmod(dir, 0o755)
	for name := range strings.SplitSeq(strings.Trim(string(list), "\x00"), "\x00") {
		err = errors.Join(err, copyFile(filepath.Join(root, name), filepath.Join(dir, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &tree{dir}
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil // deleted, and not yet in a commit
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// baseline runs the named tests on the unchanged copy, one command for each package, because a test
// that always fails proves nothing.
func (c *tree) baseline(t *testing.T, mutations []mutation) {
	t.Helper()
	patterns := make(map[string][]string)
	for _, m := range mutations {
		if !slices.Contains(patterns[m.pkg()], m.pattern()) {
			patterns[m.pkg()] = append(patterns[m.pkg()], m.pattern())
		}
	}
	for pkg, of := range patterns {
		if v, out := c.test(t.Context(), pkg, strings.Join(of, "|"), 10**limit); v != survived {
			t.Errorf("tests of %s, on the unchanged tree: %s\n%s", pkg, v, out)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// mutate removes a safeguard, runs its test, and puts the safeguard back. It returns what the test
// printed, too.
func (c *tree) mutate(t *testing.T, m mutation) (v verdict, out string) {
	t.Helper()
	file := filepath.Join(c.dir, m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := m.apply(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Error(err)
		}
	}()
	return c.test(t.Context(), m.pkg(), m.pattern(), *limit)
}

// test runs tests of a package in the copy. The paths are trimmed, so that copies share what is built.
func (c *tree) test(ctx context.Context, pkg, pattern string, limit time.Duration) (verdict, string) {
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Minute) // the build has no limit of its own
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-trimpath", "-tags", "long", "-vet=off", "-count=1", "-timeout", limit.String(), "-run", pattern, ".")
	cmd.Dir = filepath.Join(c.dir, pkg)
	cmd.Env = append(os.Environ(), "PWD="+cmd.Dir)
	if c.apart(cmd.Dir) {
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	text := out.String()
	switch {
	case strings.Contains(text, "[no tests to run]"), strings.Contains(text, "[build failed]"), strings.Contains(text, "[setup failed]"):
		return broken, text
	case err == nil:
		return survived, text
	case strings.Contains(text, "panic: test timed out"):
		return timedOut, text
	case strings.Contains(text, "--- FAIL") || strings.Contains(text, "\npanic: ") || strings.HasPrefix(text, "panic: "):
		return failed, text
	default:
		return broken, fmt.Sprintf("%v\n%s", err, text)
	}
}

// apart reports whether a directory belongs to a module outside of the workspace.
func (c *tree) apart(dir string) bool {
	for ; dir != c.dir; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	work, err := os.ReadFile(filepath.Join(c.dir, "go.work"))
	rel, relErr := filepath.Rel(c.dir, dir)
	return err == nil && relErr == nil && rel != "." && !slices.Contains(strings.Fields(string(work)), "./"+filepath.ToSlash(rel))
}
