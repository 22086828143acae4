package house_test

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// constructor matches the functions with which a program starts to use a library.
var constructor = regexp.MustCompile(`^(New|Parse|Load|Open)`)

// TestEveryConstructorHasAnExample requires that an example, or a helper in the files of the
// examples, uses each constructor that a library exports.
func TestEveryConstructorHasAnExample(t *testing.T) {
	t.Parallel()
	used := map[string]bool{} // by directory and name
	files := tree(t)
	for _, f := range files {
		if !f.test {
			continue
		}
		for _, decl := range f.Decls {
			one, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(one.Name.Name, "Example") && !strings.HasPrefix(path.Base(f.path), "example") {
				continue
			}
			ast.Inspect(one, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					used[path.Join(path.Dir(f.path), s.Sel.Name)] = true
				}
				return true
			})
		}
	}
	for _, f := range files {
		if f.test || f.Name.Name == "main" || f.in("internal", "examples") {
			continue
		}
		for _, decl := range f.Decls {
			one, ok := decl.(*ast.FuncDecl)
			if ok && one.Recv == nil && constructor.MatchString(one.Name.Name) && !used[path.Join(path.Dir(f.path), one.Name.Name)] {
				f.breaks(t, one.Pos(), one.Name.Name+" is in no example")
			}
		}
	}
}
