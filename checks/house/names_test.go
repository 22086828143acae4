package house_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestDocumentationNamesEveryType wants the documentation of the two packages that users read
// first to name each exported type, in a group with others of the same subject. The root has many
// types, because users, events and the contract of a repository name each other. A new type must be
// a shape of its own.
func TestDocumentationNamesEveryType(t *testing.T) {
	t.Parallel()
	files := tree(t)
	for _, dir := range []string{".", "calendar"} {
		var text string
		for _, f := range files {
			if path.Dir(f.path) == dir && path.Base(f.path) == "doc.go" && f.Doc != nil {
				text = f.Doc.Text()
			}
		}
		for _, f := range files {
			if f.test || path.Dir(f.path) != dir {
				continue
			}
			for _, decl := range f.Decls {
				group, ok := decl.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range group.Specs {
					one, ok := spec.(*ast.TypeSpec)
					if ok && one.Name.IsExported() && !strings.Contains(text, "["+one.Name.Name+"]") && !strings.Contains(text, "[*"+one.Name.Name+"]") {
						f.breaks(t, one.Pos(), one.Name.Name+" is not in the documentation of the package")
					}
				}
			}
		}
	}
}

// TestCommentsSayInstant wants one name for the instant of an event. "Target" is the word of the
// columns.
func TestCommentsSayInstant(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		if f.test || !f.in(".", "almanactest", "postgres", "dashboard", "webhook") {
			continue
		}
		for _, group := range f.Comments {
			for _, line := range group.List {
				text := strings.ReplaceAll(line.Text, "link and its target", "") // of a zone
				if slices.Contains(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && r != '_' }), "target") &&
					!strings.HasPrefix(line.Text, "// target ") { // the name of a function
					f.breaks(t, line.Pos(), "says target, not instant or Due")
				}
			}
		}
	}
}
