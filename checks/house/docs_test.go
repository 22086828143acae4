package house_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// checkDocs requires a comment on each name that f exports to other modules.
func (f file) checkDocs(t *testing.T) {
	t.Helper()
	if f.test || f.Name.Name == "main" || f.in("internal") {
		return
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if receiverExported(decl) && !isError(decl) {
				f.wantDoc(t, decl.Doc, decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				f.checkSpec(t, decl, spec)
			}
		}
	}
}

// checkSpec requires a comment. For grouped constants and variables, it also accepts the
// comment of the group or one at the end of the line.
func (f file) checkSpec(t *testing.T, decl *ast.GenDecl, spec ast.Spec) {
	t.Helper()
	grouped := decl.Lparen.IsValid()
	if value, ok := spec.(*ast.ValueSpec); ok && grouped && (decl.Doc != nil || value.Comment != nil) {
		return
	}
	doc := decl.Doc
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if grouped {
			doc = spec.Doc
		}
		f.wantDoc(t, doc, spec.Name)
		if contract, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
			for _, method := range contract.Methods.List {
				f.wantDoc(t, method.Doc, method.Names...)
			}
		}
	case *ast.ValueSpec:
		if grouped {
			doc = spec.Doc
		}
		f.wantDoc(t, doc, spec.Names...)
	}
}

// wantDoc requires that doc begins with one of names, if any of them is exported.
func (f file) wantDoc(t *testing.T, doc *ast.CommentGroup, names ...*ast.Ident) {
	t.Helper()
	begins := func(name *ast.Ident) bool { return beginsWith(doc.Text(), name.Name) }
	if !slices.ContainsFunc(names, (*ast.Ident).IsExported) || slices.ContainsFunc(names, begins) {
		return
	}
	f.breaks(t, names[0].Pos(), names[0].Name+" has no doc comment that begins with its name")
}

// isError reports whether n is the Error method of an error, which needs no comment.
func isError(n *ast.FuncDecl) bool {
	return n.Recv != nil && n.Name.Name == "Error" && n.Type.Params.NumFields() == 0
}

// beginsWith reports whether the first word of text, after an article, is name.
func beginsWith(text, name string) bool {
	for _, article := range []string{"A ", "An ", "The "} {
		text = strings.TrimPrefix(text, article)
	}
	rest, ok := strings.CutPrefix(text, name)
	next, _ := utf8.DecodeRuneInString(rest)
	return ok && next != '_' && !unicode.IsLetter(next) && !unicode.IsDigit(next)
}

// receiverExported reports whether n is a function or a method of an exported type.
func receiverExported(n *ast.FuncDecl) bool {
	if n.Recv == nil {
		return true
	}
	of := n.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr: // one type parameter
			of = x.X
		case *ast.IndexListExpr: // several type parameters
			of = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
