package almanacmail

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// checker finds what would fail in compiled templates only when they are executed: parts,
// messages and names of weekdays that do not exist.
type checker struct {
	sources  sources
	messages *messages
	trees    map[string]*parse.Tree // by name of the template
	broken   []string               // texts that could not be parsed
}

// checkAll checks every template.
func (c checker) checkAll() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.trees)) {
		tree := c.trees[name]
		walk(tree.Root, func(n parse.Node) {
			if problem := c.problem(n); problem != "" {
				errs = append(errs, c.errorAt(tree, n, problem))
			}
		})
	}
	return errors.Join(errs...)
}

// problem returns what is wrong with a node itself, or "".
func (c checker) problem(n parse.Node) string {
	switch n := n.(type) {
	case *parse.TemplateNode:
		if !c.hasPart(n.Name) {
			return fmt.Sprintf("there is no part %q for locale %s", n.Name, c.messages.locale)
		}
	case *parse.IdentifierNode:
		if _, known := dateFormOf(c.messages.locale); n.Ident == "weekday" && !known {
			return fmt.Sprintf("the names of weekdays are not known for locale %s", c.messages.locale)
		}
	case *parse.CommandNode:
		if len(n.Args) < 2 {
			return ""
		}
		function, ok := n.Args[0].(*parse.IdentifierNode)
		name, literal := n.Args[1].(*parse.StringNode)
		if ok && function.Ident == "plural" && literal && !c.messages.has(name.Text) {
			return fmt.Sprintf("there is no message %q in %s", name.Text, c.messages.file)
		}
	}
	return ""
}

// hasPart reports whether there is a part, or would be if every text could be parsed.
func (c checker) hasPart(name string) bool {
	_, isFile := c.sources.parts[name]
	return isFile || c.trees[name] != nil || slices.ContainsFunc(c.broken, func(text string) bool {
		return strings.Contains(text, strconv.Quote(name)) // perhaps it defines the part
	})
}

// errorAt returns an error that names the file, the line and the column of a node.
func (c checker) errorAt(tree *parse.Tree, n parse.Node, problem string) error {
	place, _ := tree.ErrorContext(n)
	if part, ok := c.sources.parts[tree.ParseName]; ok {
		place = part.file + strings.TrimPrefix(place, tree.ParseName)
	}
	return fmt.Errorf("almanacmail: %s: %s", place, problem)
}

// walk calls a function with a node and everything in it, in the order of the text.
func walk(n parse.Node, visit func(parse.Node)) {
	visit(n)
	for _, child := range children(n) {
		walk(child, visit)
	}
}

// children returns the nodes of which a node consists.
func children(n parse.Node) []parse.Node {
	switch n := n.(type) {
	case *parse.ListNode:
		return n.Nodes
	case *parse.ActionNode:
		return []parse.Node{n.Pipe}
	case *parse.IfNode:
		return branches(n.BranchNode)
	case *parse.RangeNode:
		return branches(n.BranchNode)
	case *parse.WithNode:
		return branches(n.BranchNode)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			return []parse.Node{n.Pipe}
		}
	case *parse.PipeNode:
		var commands []parse.Node
		for _, command := range n.Cmds {
			commands = append(commands, command)
		}
		return commands
	case *parse.CommandNode:
		return n.Args
	case *parse.ChainNode:
		return []parse.Node{n.Node}
	}
	return nil
}

func branches(n parse.BranchNode) []parse.Node {
	all := []parse.Node{n.Pipe, n.List}
	if n.ElseList != nil {
		all = append(all, n.ElseList)
	}
	return all
}
