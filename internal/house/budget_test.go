package house_test

import (
	"fmt"
	"go/ast"
	"testing"
)

const (
	maxFileLines     = 400
	maxFunctionLines = 70
	maxTestLines     = 120 // of a function in a test file: tables are long, and easy to read
	maxParameters    = 4   // after a context, and after a testing.T
	maxMethods       = 5   // of an interface, those of embedded ones not counted
	maxFields        = 12
)

// TestBudget keeps things small enough to be read at one go, and exported names
// explained.
func TestBudget(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		if lines := f.set.File(f.FileStart).LineCount(); lines > maxFileLines {
			f.breaks(t, f.FileEnd, fmt.Sprintf("a file of %d lines, more than %d", lines, maxFileLines))
		}
		f.checkSizes(t)
		f.checkDocs(t)
	}
}

// checkSizes looks at everything that f declares, at whatever depth.
func (f file) checkSizes(t *testing.T) {
	t.Helper()
	wide := map[ast.Expr]bool{} // struct types that may have any number of fields
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			f.checkLines(t, n)
		case *ast.FuncType:
			if count := parameters(n); count > maxParameters {
				f.breaks(t, n.Pos(), fmt.Sprintf("%d parameters, more than %d", count, maxParameters))
			}
		case *ast.InterfaceType:
			if count := methods(n); count > maxMethods {
				f.breaks(t, n.Pos(), fmt.Sprintf("an interface of %d methods, more than %d", count, maxMethods))
			}
		case *ast.TypeSpec: // comes before the type that it names
			row := f.in(".") && n.Name.Name == "Event" // has a field for each column
			wide[n.Type] = row || n.Name.Name == "settings"
		case *ast.StructType:
			if count := len(flat(n.Fields)); count > maxFields && !wide[n] && !f.test {
				f.breaks(t, n.Pos(), fmt.Sprintf("a struct of %d fields, more than %d", count, maxFields))
			}
		}
		return true
	})
}

func (f file) checkLines(t *testing.T, n *ast.FuncDecl) {
	t.Helper()
	limit := maxFunctionLines
	if f.test {
		limit = maxTestLines
	}
	lines := f.set.Position(n.End()).Line - f.set.Position(n.Pos()).Line + 1
	if lines > limit {
		f.breaks(t, n.Pos(), fmt.Sprintf("%s has %d lines, more than %d", n.Name.Name, lines, limit))
	}
}

// parameters counts those of a function after a leading testing.T, B, F or TB
// and a leading context.
func parameters(n *ast.FuncType) int {
	all := flat(n.Params)
	for _, leading := range []func(pkg, name string) bool{
		func(pkg, _ string) bool { return pkg == "testing" },
		func(pkg, name string) bool { return pkg == "context" && name == "Context" },
	} {
		if len(all) > 0 && leading(qualified(all[0])) {
			all = all[1:]
		}
	}
	return len(all)
}

// methods counts those that n names itself.
func methods(n *ast.InterfaceType) int {
	count := 0
	for _, member := range n.Methods.List {
		count += len(member.Names) // an embedded interface has none
	}
	return count
}

// flat returns the type of each field of a list, once for each of its names.
func flat(list *ast.FieldList) []ast.Expr {
	var types []ast.Expr
	for _, field := range list.List {
		for range max(1, len(field.Names)) { // one without a name is one
			types = append(types, field.Type)
		}
	}
	return types
}

// qualified returns the parts of a type that is written pkg.name or *pkg.name.
func qualified(n ast.Expr) (pkg, name string) {
	if star, ok := n.(*ast.StarExpr); ok {
		n = star.X
	}
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	x, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return x.Name, selector.Sel.Name
}
