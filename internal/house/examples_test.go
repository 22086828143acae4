package house_test

import (
	"go/ast"
	"go/doc"
	"path"
	"strings"
	"testing"
)

// TestEveryTypeHasAnExample wants, for each type that a library of the house exports,
// an example that its documentation shows, and the output that proves it.
func TestEveryTypeHasAnExample(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{} // by directory and name
	files := tree(t)
	for _, f := range files {
		if !f.test {
			continue
		}
		for _, e := range doc.Examples(f.File) {
			name, _, _ := strings.Cut(e.Name, "_")
			if name != "" && e.Output != "" {
				shown[path.Join(path.Dir(f.path), name)] = true
			}
		}
	}
	for _, f := range files {
		if f.test || f.Name.Name == "main" || f.in("internal", "examples") {
			continue
		}
		for _, decl := range f.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				one, ok := spec.(*ast.TypeSpec)
				if ok && one.Name.IsExported() && !shown[path.Join(path.Dir(f.path), one.Name.Name)] {
					f.breaks(t, one.Pos(), one.Name.Name+" has no example with output")
				}
			}
		}
	}
}
