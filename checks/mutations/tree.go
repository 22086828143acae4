package main

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

// findRoot returns the root of the tree: the nearest directory above with a go.work.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.work above the working directory")
		}
	}
}

// tree is a copy of the tree, in which files may be changed.
type tree struct{ dir string }

// newCopy copies the files of the working tree that git has or would add.
func newCopy(ctx context.Context, root string) (*tree, error) {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the tree: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutations-")
	if err != nil {
		return nil, err
	}
	// The tests run the server under another account, which must be able to enter.
	t := &tree{dir}
	err = os.Chmod(dir, 0o755)
	for _, name := range strings.Split(strings.Trim(string(list), "\x00"), "\x00") {
		err = errors.Join(err, t.copyFile(root, name))
	}
	if err != nil {
		t.remove()
		return nil, err
	}
	return t, nil
}

func (t *tree) copyFile(root, name string) error {
	from := filepath.Join(root, name)
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
	to := filepath.Join(t.dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

func (t *tree) remove() { _ = os.RemoveAll(t.dir) }

// baseline runs the named tests on the unchanged copy, one command for each package.
func (t *tree) baseline(ctx context.Context, mutations []mutation, limit time.Duration) error {
	patterns := make(map[string][]string)
	var packages []string
	for _, m := range mutations {
		if patterns[m.pkg()] == nil {
			packages = append(packages, m.pkg())
		}
		if !slices.Contains(patterns[m.pkg()], m.pattern()) {
			patterns[m.pkg()] = append(patterns[m.pkg()], m.pattern())
		}
	}
	var errs []error
	for _, pkg := range packages {
		v, out := t.test(ctx, pkg, strings.Join(patterns[pkg], "|"), 10*limit)
		if v != survived {
			errs = append(errs, fmt.Errorf("tests of %s, on the unchanged tree: %s\n%s", pkg, v, out))
		}
	}
	return errors.Join(errs...)
}

// mutate removes a safeguard, runs its test, and puts the safeguard back. It returns what the test
// printed, too.
func (t *tree) mutate(ctx context.Context, m mutation, limit time.Duration) (v verdict, out string, err error) {
	file := filepath.Join(t.dir, m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		return broken, "", err
	}
	changed, err := m.apply(string(text))
	if err != nil {
		return broken, "", err
	}
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		return broken, "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(file, text, 0o644)) }()
	v, out = t.test(ctx, m.pkg(), m.pattern(), limit)
	if v == broken {
		return v, "", errors.New(out)
	}
	return v, out, nil
}

// test runs tests of a package in the copy. The paths are trimmed, so that copies share what is built.
func (t *tree) test(ctx context.Context, pkg, pattern string, limit time.Duration) (verdict, string) {
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Minute) // the build has no limit of its own
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-trimpath", "-vet=off", "-count=1", "-timeout", limit.String(), "-run", pattern, ".")
	cmd.Dir = filepath.Join(t.dir, pkg)
	cmd.Env = append(os.Environ(), "PWD="+cmd.Dir)
	if t.apart(cmd.Dir) {
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
func (t *tree) apart(dir string) bool {
	for ; dir != t.dir; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	work, err := os.ReadFile(filepath.Join(t.dir, "go.work"))
	rel, relErr := filepath.Rel(t.dir, dir)
	return err == nil && relErr == nil && rel != "." && !slices.Contains(strings.Fields(string(work)), "./"+filepath.ToSlash(rel))
}
