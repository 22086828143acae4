package house_test

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 400
	maxTestFileLines = 800 // the tests of one subject share a file
	maxFunctionLines = 70
	maxTestLines     = 120 // of a function in a test file: tables are long, but easy to read
	maxTableLines    = 120 // of a package variable with functions in it
	maxParameters    = 4   // after a context, and after a testing.T
	maxFields        = 12
)

// TestBudget keeps declarations small enough to be read at once, and exported names
// documented.
func TestBudget(t *testing.T) {
	t.Parallel()
	files := tree(t)
	for _, f := range files {
		limit := maxFileLines
		if f.test {
			limit = maxTestFileLines
		}
		if lines := f.set.File(f.FileStart).LineCount(); lines > limit {
			f.breaks(t, f.FileEnd, fmt.Sprintf("a file of %d lines, more than %d", lines, limit))
		}
		f.checkSizes(t)
		f.checkDocs(t)
	}
}

// checkSizes checks every declaration in f, at any depth.
func (f file) checkSizes(t *testing.T) {
	t.Helper()
	wide := map[ast.Expr]bool{} // struct types that may have any number of fields
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			f.checkLines(t, n)
		case *ast.ValueSpec:
			f.checkTable(t, n)
		case *ast.FuncType:
			if count := parameters(n); count > maxParameters {
				f.breaks(t, n.Pos(), fmt.Sprintf("%d parameters, more than %d", count, maxParameters))
			}
		case *ast.TypeSpec: // precedes the type that it names
			row := f.in(".") && slices.Contains([]string{"Event", "User", "ProfileChange"}, n.Name.Name) // has a field for each column
			files := f.in("postgres") && n.Name.Name == "statements"                                     // has a field for each file
			wide[n.Type] = row || files || n.Name.Name == "settings"
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
	if lines := f.lines(n); lines > limit {
		f.breaks(t, n.Pos(), fmt.Sprintf("%s has %d lines, more than %d", n.Name.Name, lines, limit))
	}
}

// checkTable limits variables whose value has function literals in it, which are code as a function is.
func (f file) checkTable(t *testing.T, n *ast.ValueSpec) {
	t.Helper()
	for i, value := range n.Values {
		lines := f.lines(value)
		if !f.test && lines > maxTableLines && hasCode(value) {
			f.breaks(t, n.Pos(), fmt.Sprintf("%s has %d lines with functions in them, more than %d", n.Names[min(i, len(n.Names)-1)].Name, lines, maxTableLines))
		}
	}
}

// hasCode reports whether n contains a function literal.
func hasCode(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		_, is := n.(*ast.FuncLit)
		found = found || is
		return !found
	})
	return found
}

func (f file) lines(n ast.Node) int {
	return f.set.Position(n.End()).Line - f.set.Position(n.Pos()).Line + 1
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

// TestRepositoriesHaveNoTypeAssertions forbids type assertions on repositories: they do not
// find the methods of a decorated repository.
func TestRepositoriesHaveNoTypeAssertions(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if n, ok := n.(*ast.TypeAssertExpr); ok && !f.test && strings.EqualFold(lastName(n.X), "repository") {
				f.breaks(t, n.Pos(), "a type assertion on a repository: what is asked of all belongs into almanac.Repository")
			}
			return true
		})
	}
}

// flat returns the type of each field of a list, once for each of its names.
func flat(list *ast.FieldList) []ast.Expr {
	var types []ast.Expr
	for _, field := range list.List {
		for range max(1, len(field.Names)) { // a field without a name counts once
			types = append(types, field.Type)
		}
	}
	return types
}

// qualified returns the parts of a type written pkg.name or *pkg.name.
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

// Files of the root package, which a newcomer reads first.
const (
	maxRootFiles        = 48
	maxRootTestFiles    = 55 // those with examples included
	maxRootExampleFiles = 12
	maxRootTypes        = 130 // exported; none of them an alias
)

func TestTheRootStaysSmall(t *testing.T) {
	t.Parallel()
	var product, tests, examples int
	for _, f := range tree(t) {
		switch base := path.Base(f.path); {
		case path.Dir(f.path) != ".":
		case !f.test:
			product++
		case strings.HasPrefix(base, "example"):
			tests, examples = tests+1, examples+1
		default:
			tests++
		}
	}
	if product == 0 || product > maxRootFiles || tests > maxRootTestFiles || examples > maxRootExampleFiles {
		t.Errorf("the root has %d files, %d test files and %d of examples; at most %d, %d and %d", product, tests, examples, maxRootFiles, maxRootTestFiles, maxRootExampleFiles)
	}
}

// TestTheRootHasFewTypes keeps what an adopter reads in the documentation of the root. What only
// operators need belongs to package ops.
func TestTheRootHasFewTypes(t *testing.T) {
	t.Parallel()
	types := 0
	for _, f := range tree(t) {
		if f.test || path.Dir(f.path) != "." {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if one, ok := n.(*ast.TypeSpec); ok && one.Name.IsExported() {
				types++
				if one.Assign.IsValid() {
					f.breaks(t, one.Pos(), one.Name.Name+" is an alias: its documentation is in another package")
				}
			}
			return true
		})
	}
	if types == 0 || types > maxRootTypes {
		t.Errorf("the root exports %d types, at most %d are allowed", types, maxRootTypes)
	}
}

// maxHostLines is the number of lines of a program in examples/hosts, comments included. Hosts copy
// these programs as a whole.
const maxHostLines = 119

func TestExamplesForHostsStayShort(t *testing.T) {
	t.Parallel()
	lines := make(map[string]int) // by directory
	for _, f := range tree(t) {
		if f.in("examples/hosts") && !f.test {
			lines[path.Dir(f.path)] += f.set.File(f.FileStart).LineCount() - 1 // the file ends with a newline
		}
	}
	if len(lines) < 6 {
		t.Errorf("found %d examples for hosts, want 6 or more", len(lines))
	}
	for dir, n := range lines {
		if n > maxHostLines {
			t.Errorf("%s has %d lines of code and comments, more than %d", dir, n, maxHostLines)
		}
	}
}
