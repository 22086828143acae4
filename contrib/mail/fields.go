package almanacmail

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"text/template/parse"
)

// fieldChecker finds fields that do not exist, and values that are no dates. It follows values
// only as long as their types are known: from [Data] through fields, methods and {{with}} to
// parts. It does not look at payloads and variables.
type fieldChecker struct {
	checker
	tree  *parse.Tree // that is being checked
	dot   reflect.Type
	root  reflect.Type // of $
	known map[call]bool
	found *[]error
}

// call is an execution of a template with a value of a type.
type call struct {
	template string
	dot      reflect.Type
}

// checkFields checks a template that is executed with a [Data].
func (c checker) checkFields(name string) error {
	var found []error
	f := fieldChecker{checker: c, known: make(map[call]bool), found: &found}
	f.execute(name, reflect.TypeFor[Data]())
	return errors.Join(found...)
}

// execute checks a template for a dot of a type; nil is an unknown type.
func (f fieldChecker) execute(name string, dot reflect.Type) {
	f.tree = f.trees[name]
	if dot == nil || f.tree == nil || f.known[call{name, dot}] {
		return
	}
	f.known[call{name, dot}] = true
	f.dot, f.root = dot, dot
	if assignsRoot(f.tree.Root) {
		f.root = nil
	}
	f.check(f.tree.Root)
}

// assignsRoot reports whether a template has another value for $ anywhere, which is allowed.
func assignsRoot(n parse.Node) bool {
	found := false
	walk(n, func(n parse.Node) {
		if pipe, ok := n.(*parse.PipeNode); ok {
			found = found || slices.ContainsFunc(pipe.Decl, func(v *parse.VariableNode) bool { return v.Ident[0] == "$" })
		}
	})
	return found
}

// check checks a node and everything in it.
func (f fieldChecker) check(n parse.Node) {
	if _, err := f.typeOf(n); err != nil {
		*f.found = append(*f.found, f.errorAt(f.tree, n, fmt.Sprintf("%s: %s", n, err)))
		return
	}
	inner := f
	switch n := n.(type) {
	case *parse.WithNode:
		inner.dot, _ = f.typeOf(n.Pipe)
		f.checkBranches(n.BranchNode, inner)
		return
	case *parse.RangeNode:
		inner.dot = nil
		f.checkBranches(n.BranchNode, inner)
		return
	case *parse.PipeNode:
		f.checkDates(n)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			dot, _ := f.typeOf(n.Pipe)
			f.execute(n.Name, dot)
		}
	}
	for _, child := range children(n) {
		f.check(child)
	}
}

// checkBranches checks a node of which the first list has a dot of its own.
func (f fieldChecker) checkBranches(n parse.BranchNode, inner fieldChecker) {
	f.check(n.Pipe)
	inner.check(n.List)
	if n.ElseList != nil {
		f.check(n.ElseList)
	}
}

// checkDates checks the arguments of the functions date and weekday, which are given or come
// from the command before.
func (f fieldChecker) checkDates(pipe *parse.PipeNode) {
	var before parse.Node
	for _, command := range pipe.Cmds {
		argument := before
		if len(command.Args) == 2 {
			argument = command.Args[1]
		}
		function, ok := command.Args[0].(*parse.IdentifierNode)
		if ok && argument != nil && (function.Ident == "date" || function.Ident == "weekday") {
			if t, err := f.typeOf(argument); err == nil && t != nil && t.Kind() != reflect.Interface && !slices.Contains(dateTypes, t) {
				*f.found = append(*f.found, f.errorAt(f.tree, argument, fmt.Sprintf("%s: %s takes %s, not %s", argument, function.Ident, dateTypeNames, t)))
			}
		}
		before = command.Args[0]
		if len(command.Args) > 1 {
			before = nil // the result of a function
		}
	}
}

// typeOf returns the type of a value, or nil if it is not known. The error says that it has
// no type, because a field does not exist.
func (f fieldChecker) typeOf(n parse.Node) (reflect.Type, error) {
	switch n := n.(type) {
	case *parse.DotNode:
		return f.dot, nil
	case *parse.FieldNode:
		return follow(f.dot, n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return follow(f.root, n.Ident[1:])
		}
	case *parse.ChainNode:
		if of, err := f.typeOf(n.Node); err == nil { // else it is found in n.Node
			return follow(of, n.Field)
		}
	case *parse.PipeNode:
		if len(n.Cmds) == 1 && len(n.Cmds[0].Args) == 1 {
			of, _ := f.typeOf(n.Cmds[0].Args[0])
			return of, nil
		}
	}
	return nil, nil
}

// follow returns the type of a chain of fields and methods, or nil if it is not known.
func follow(t reflect.Type, names []string) (_ reflect.Type, err error) {
	for _, name := range names {
		if t, err = member(t, name); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// member returns the type of a field or of a method's result, or nil if it is not known. It
// follows the rules of text/template.
func member(t reflect.Type, name string) (reflect.Type, error) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() == reflect.Interface {
		return nil, nil
	}
	if method, ok := reflect.PointerTo(t).MethodByName(name); ok {
		of := method.Type
		if of.NumOut() == 1 || of.NumOut() == 2 && of.Out(1) == reflect.TypeFor[error]() {
			return of.Out(0), nil
		}
		return nil, fmt.Errorf("templates cannot call a method with %d results", of.NumOut())
	}
	switch t.Kind() {
	case reflect.Map:
		return nil, nil
	case reflect.Struct:
		if field, ok := t.FieldByName(name); ok && field.IsExported() {
			return field.Type, nil
		}
	}
	return nil, fmt.Errorf("%s has no field or method %s", t, name)
}
