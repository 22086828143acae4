package house_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path of the root module. The path of each other module is this path and its
// directory, so all package paths look as in one module.
const module = "github.com/almanac-go/almanac"

// file is one parsed file of the tree.
type file struct {
	*ast.File
	path string // from the root, with slashes
	test bool   // its name ends in _test.go
	set  *token.FileSet
}

// tree parses every Go file of the repository, in all modules and with all build
// constraints.
func tree(t *testing.T) []file {
	t.Helper()
	root := moduleRoot(t)
	set := token.NewFileSet()
	var files []file
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if foreign(root, name) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files = append(files, file{parsed, rel, strings.HasSuffix(rel, "_test.go"), set})
		return nil
	})
	if err != nil {
		t.Fatalf("cannot read the tree: %v", err)
	}
	return files
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for !holdsModule(dir) {
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod in this directory or above it")
		}
		dir = up
	}
	return dir
}

// separate returns the modules that these tests omit: programs that inject faults, measure,
// and check the repository. They have rules of their own.
func separate() []string {
	return []string{"bench", "chaos", "checks"}
}

// foreign reports whether the tests omit the source below dir.
func foreign(root, dir string) bool {
	base := filepath.Base(dir)
	rel, err := filepath.Rel(root, dir)
	return base == "testdata" || base == ".git" || err == nil && slices.Contains(separate(), filepath.ToSlash(rel))
}

// holdsModule reports whether dir has a go.mod, or one that cannot be examined.
func holdsModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return !errors.Is(err, fs.ErrNotExist)
}

// in reports whether f is in one of packages or below it; "." is only the root package.
func (f file) in(packages ...string) bool {
	return slices.ContainsFunc(packages, func(pkg string) bool {
		return path.Dir(f.path) == pkg || pkg != "." && strings.HasPrefix(f.path, pkg+"/")
	})
}

// imports returns the imports of f, by path.
func (f file) imports() map[string]*ast.ImportSpec {
	specs := map[string]*ast.ImportSpec{}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser has accepted it
		}
		specs[name] = spec
	}
	return specs
}

// refers reports whether n is pkg.name, for the path of a package of the standard library,
// whatever name f imports it under.
func (f file) refers(n ast.Node, pkg, name string) bool {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	spec, ok := f.imports()[pkg]
	if !ok {
		return false
	}
	local := path.Base(pkg)
	if spec.Name != nil {
		local = spec.Name.Name
	}
	x, ok := selector.X.(*ast.Ident)
	return ok && x.Name == local
}

// breaks reports that the code at pos breaks rule.
func (f file) breaks(t *testing.T, pos token.Pos, rule string) {
	t.Helper()
	t.Errorf("%s:%d: %s", f.path, f.set.Position(pos).Line, rule)
}
