package house_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// modules returns the directory of every module of the tree, from the root of the
// tree and with slashes: "." for the root module.
func modules(t *testing.T) []string {
	t.Helper()
	root := moduleRoot(t)
	var dirs []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == ".git" && entry.IsDir() {
			return fs.SkipDir
		}
		if err != nil || entry.Name() != "go.mod" {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(name))
		dirs = append(dirs, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatalf("cannot read the tree: %v", err)
	}
	slices.Sort(dirs)
	return dirs
}

// goCommand runs the go command in a directory of the tree and decodes what it writes.
func goCommand(t *testing.T, dir string, into any, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join(moduleRoot(t), dir)
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("go %q in %s: %v", args, dir, err)
	}
}

func TestTheWorkspaceHasEveryModule(t *testing.T) {
	t.Parallel()
	var work struct{ Use []struct{ DiskPath string } }
	goCommand(t, ".", &work, "work", "edit", "-json", "go.work")
	var used []string
	for _, use := range work.Use {
		used = append(used, path.Clean(use.DiskPath))
	}
	if slices.Sort(used); !slices.Equal(used, modules(t)) {
		t.Errorf("go.work uses %q, and the modules are %q", used, modules(t))
	}
}

// Whoever works in one module, or takes it out of the workspace, needs nothing else.
func TestModulesFindEachOtherWithoutTheWorkspace(t *testing.T) {
	t.Parallel()
	type version struct{ Path, Version string }
	for _, dir := range modules(t) {
		var mod struct {
			Module  struct{ Path string }
			Require []version
			Replace []struct{ Old, New version }
		}
		goCommand(t, dir, &mod, "mod", "edit", "-json")
		if want := path.Join(module, dir); mod.Module.Path != want {
			t.Errorf("%s/go.mod: the path is %s, want %s", dir, mod.Module.Path, want)
		}
		replaced := make(map[string]string)
		for _, r := range mod.Replace {
			replaced[r.Old.Path] = path.Join(module, dir, r.New.Path)
		}
		for _, r := range mod.Require {
			if within(r.Path, module) && replaced[r.Path] != r.Path {
				t.Errorf("%s/go.mod: nothing replaces %s by its directory", dir, r.Path)
			}
		}
		if dir == "." && len(mod.Replace) > 0 {
			t.Error("go.mod: with a replace, nobody could install the command")
		}
	}
}

// What newcomers are told to run, and what make runs, is all there is.
func TestEveryModuleIsTested(t *testing.T) {
	t.Parallel()
	var all []string
	for _, dir := range modules(t) {
		if !slices.Contains(apart(), dir) {
			all = append(all, "./"+path.Join(dir, "..."))
		}
	}
	for name, saying := range map[string]string{
		"README.md": `(?m)^go test (.*\./\.\.\..*?) +#`,
		"Makefile":  `(?m)^PACKAGES := (.*)$`,
	} {
		text, err := os.ReadFile(filepath.Join(moduleRoot(t), name))
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(saying).FindSubmatch(text)
		if match == nil {
			t.Errorf("%s: nothing matches %s", name, saying)
			continue
		}
		if tested := slices.Sorted(slices.Values(strings.Fields(string(match[1])))); !slices.Equal(tested, all) {
			t.Errorf("%s: %q is tested, want %q", name, tested, all)
		}
	}
}
