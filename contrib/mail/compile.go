package almanacmail

import (
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
	"text/template/parse"
)

// source is a file of templates.
type source struct {
	file string // such as "en/BIRTHDAY.txt"
	text string
	err  error // of reading it
}

// sources are the templates of a locale in one format.
type sources struct {
	pages map[string]source // by file
	parts map[string]source // by name: of the locale, and of all locales
}

// readSources reads the templates of a directory that end in ext, and the parts beside it.
// The directory's own parts come before those.
func readSources(files fs.FS, dir, ext string) (sources, error) {
	s := sources{make(map[string]source), make(map[string]source)}
	for _, from := range []string{".", dir} {
		entries, err := fs.ReadDir(files, from)
		if err != nil {
			return s, fmt.Errorf("almanacmail: %w", err)
		}
		for _, entry := range entries {
			part, isPart := strings.CutSuffix(entry.Name(), ".part"+ext)
			if path.Ext(entry.Name()) != ext || from == "." && !isPart {
				continue
			}
			name := path.Join(from, entry.Name())
			text, err := fs.ReadFile(files, name)
			if isPart {
				s.parts[part] = source{name, string(text), err}
			} else {
				s.pages[name] = source{name, string(text), err}
			}
		}
	}
	return s, nil
}

// split returns the subject and the text of a page. With an error, text is all that can be
// searched for other mistakes.
func (s source) split() (subject, text string, err error) {
	if s.err != nil {
		return "", "", fmt.Errorf("almanacmail: %w", s.err)
	}
	head, body, ok := strings.Cut(strings.ReplaceAll(s.text, "\r\n", "\n"), "\n\n")
	subject, labelled := strings.CutPrefix(head, "Subject: ")
	if !ok || !labelled || strings.Contains(subject, "\n") {
		return "", s.text, fmt.Errorf("almanacmail: %s does not begin with a line \"Subject: …\" and an empty line", s.file)
	}
	return subject, "\n\n" + body, nil // so that errors name the lines of the file
}

// compilePage compiles the templates of one event type, given by the name of its text. With
// an error, the page has what could be compiled.
func compilePage(name string, texts, htmls sources, m *messages) (*page, error) {
	p := &page{locale: m.locale}
	subject, text, err := texts.pages[name].split()
	errs := [4]error{err}
	p.subject, errs[1] = texts.compileText(name, subject, m)
	p.text, errs[2] = texts.compileText(name, text, m)
	html := strings.TrimSuffix(name, ".txt") + ".html"
	if one, ok := htmls.pages[html]; ok {
		p.html, errs[3] = htmls.compileHTML(one, m)
	}
	return p, errors.Join(errs[:]...)
}

func (s sources) compileText(name, text string, m *messages) (*texttemplate.Template, error) {
	t := texttemplate.New(name).Funcs(m.functions()).Option("missingkey=error")
	broken, err := s.parse(name, text, func(name, text string) error {
		one := t
		if name != t.Name() {
			one = t.New(name)
		}
		_, err := one.Parse(text)
		return err
	})
	c := checker{sources: s, messages: m, trees: make(map[string]*parse.Tree), broken: broken}
	for _, one := range t.Templates() {
		c.trees[one.Name()] = one.Tree
	}
	return t, errors.Join(err, c.checkAll(), c.checkFields(name))
}

func (s sources) compileHTML(page source, m *messages) (*htmltemplate.Template, error) {
	if page.err != nil {
		return nil, fmt.Errorf("almanacmail: %w", page.err)
	}
	t := htmltemplate.New(page.file).Funcs(m.functions()).Option("missingkey=error")
	broken, err := s.parse(page.file, page.text, func(name, text string) error {
		one := t
		if name != t.Name() {
			one = t.New(name)
		}
		_, err := one.Parse(text)
		return err
	})
	c := checker{sources: s, messages: m, trees: make(map[string]*parse.Tree), broken: broken}
	for _, one := range t.Templates() {
		if one.Tree != nil {
			c.trees[one.Name()] = one.Tree
		}
	}
	found := errors.Join(err, c.checkAll(), c.checkFields(page.file))
	if err != nil {
		return nil, found
	}
	// The first execution decides how each value is escaped, whatever the data. A part that is
	// missing has been found.
	var unescapable *htmltemplate.Error
	if err := t.Execute(io.Discard, Data{}); errors.As(err, &unescapable) && unescapable.ErrorCode != htmltemplate.ErrNoSuchTemplate {
		found = errors.Join(found, fmt.Errorf("almanacmail: %w", err))
	}
	return t, found
}

// parse calls a function with the name and the text of each part, and then of a page. With an
// error, broken has the texts that could not be parsed.
func (s sources) parse(page, text string, parse func(name, text string) error) (broken []string, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		part := s.parts[name]
		if part.err != nil {
			errs = append(errs, fmt.Errorf("almanacmail: %w", part.err))
		} else if err := parse(name, part.text); err != nil {
			errs = append(errs, fmt.Errorf("almanacmail: %s: %w", part.file, err))
			broken = append(broken, part.text)
		}
	}
	if err := parse(page, text); err != nil {
		errs = append(errs, fmt.Errorf("almanacmail: %w", err))
		broken = append(broken, text)
	}
	return broken, errors.Join(errs...)
}

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
