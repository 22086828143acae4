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

// module is the path of the module at the root of the tree. The others have it and
// their directory for their path, so that all names are as if there were one.
const module = "github.com/almanac-go/almanac"

// file is one parsed file of the tree.
type file struct {
	*ast.File
	path string // from the root of the module, with slashes
	test bool   // its name ends in _test.go
	set  *token.FileSet
}

// tree parses every Go file of the house, whatever its module and its build
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

// apart are the modules that are no part of the house: programs that break it, measure
// it, and migrate it by the tools of others, with rules of their own.
func apart() []string { return []string{"bench", "chaos", "migrators"} }

// foreign says whether what lies below dir is no source of the house.
func foreign(root, dir string) bool {
	base := filepath.Base(dir)
	return base == "testdata" || base == ".git" || filepath.Dir(dir) == root && slices.Contains(apart(), base)
}

// holdsModule takes a go.mod that it cannot examine for one that is there.
func holdsModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return !errors.Is(err, fs.ErrNotExist)
}

// in says whether f lies in one of rooms or below it; "." is the root package
// alone.
func (f file) in(rooms ...string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool {
		return path.Dir(f.path) == room || room != "." && strings.HasPrefix(f.path, room+"/")
	})
}

// imports returns what f imports, by path.
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

// refers says whether n is pkg.name, where pkg is a package of the standard
// library by its path, under whatever name f imports it.
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
