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

// modules returns the directory of every module, from the root and with slashes: "." for
// the root module.
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

// goCommand runs the go command in a directory and decodes its output.
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

// The separate modules inject faults, measure, or need other tools and schemas, so the tests of the
// workspace omit them.
func TestTheWorkspaceHasEveryModuleButTheSeparateOnes(t *testing.T) {
	t.Parallel()
	var work struct{ Use []struct{ DiskPath string } }
	goCommand(t, ".", &work, "work", "edit", "-json", "go.work")
	used := separate()
	for _, use := range work.Use {
		used = append(used, path.Clean(use.DiskPath))
	}
	if slices.Sort(used); !slices.Equal(used, modules(t)) {
		t.Errorf("go.work uses %q, with those apart, and the modules are %q", used, modules(t))
	}
}

// A module must also build outside of the workspace.
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
			t.Error("go.mod: the library has nothing to replace")
		}
	}
}

// The README links to a directory of every module, and the decision record about modules names every one.
func TestTheDocumentsNameEveryModule(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(moduleRoot(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs/adr/0031-modules.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range modules(t) {
		if dir == "." {
			continue
		}
		if !strings.Contains(string(readme), "]("+dir) {
			t.Errorf("README.md has no link to the module %s", dir)
		}
		named := dir
		if path.Dir(dir) == "contrib" {
			named = "contrib/*"
		}
		if !strings.Contains(string(record), "`"+named+"`") {
			t.Errorf("docs/adr/0031-modules.md does not name the module %s", dir)
		}
	}
}

// The documented command and make both test the whole workspace.
func TestTheWholeWorkspaceIsTested(t *testing.T) {
	t.Parallel()
	for name, saying := range map[string]string{"README.md": `(?m)^go test work +#`, "Makefile": `(?m)^PACKAGES := work$`} {
		text, err := os.ReadFile(filepath.Join(moduleRoot(t), name))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(saying).Match(text) {
			t.Errorf("%s: nothing matches %s", name, saying)
		}
	}
}
