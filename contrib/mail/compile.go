package almanacmail

import (
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	texttemplate "text/template"
	"text/template/parse"
)

// sources are the templates of a locale in one format.
type sources struct {
	pages map[string]string // by file, such as "en/BIRTHDAY.txt"
	parts map[string]string // by name: of the locale, and of all locales
}

// readSources reads the templates of a directory that end in ext, and the parts beside it.
// The directory's own parts come before those.
func readSources(files fs.FS, dir, ext string) (sources, error) {
	s := sources{make(map[string]string), make(map[string]string)}
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
			if err != nil {
				return s, fmt.Errorf("almanacmail: %w", err)
			}
			if isPart {
				s.parts[part] = string(text)
			} else {
				s.pages[name] = string(text)
			}
		}
	}
	return s, nil
}

// compilePage compiles the templates of one event type, given by the name of its text.
func compilePage(name string, texts, htmls sources, m *messages) (*page, error) {
	head, body, ok := strings.Cut(strings.ReplaceAll(texts.pages[name], "\r\n", "\n"), "\n\n")
	subject, labelled := strings.CutPrefix(head, "Subject: ")
	if !ok || !labelled || strings.Contains(subject, "\n") {
		return nil, fmt.Errorf("almanacmail: %s does not begin with a line \"Subject: …\" and an empty line", name)
	}
	p := &page{locale: m.locale}
	var errs [3]error
	p.subject, errs[0] = texts.compileText(name, subject, m)
	p.text, errs[1] = texts.compileText(name, "\n\n"+body, m) // so that errors name the lines of the file
	html := strings.TrimSuffix(name, ".txt") + ".html"
	if source, ok := htmls.pages[html]; ok {
		p.html, errs[2] = htmls.compileHTML(html, source, m)
	}
	return p, errors.Join(errs[:]...)
}

func (s sources) compileText(name, source string, m *messages) (*texttemplate.Template, error) {
	t := texttemplate.New(name).Funcs(m.functions()).Option("missingkey=error")
	for part, text := range s.parts {
		if _, err := t.New(part).Parse(text); err != nil {
			return nil, fmt.Errorf("almanacmail: part %q: %w", part, err)
		}
	}
	if _, err := t.Parse(source); err != nil {
		return nil, fmt.Errorf("almanacmail: %w", err)
	}
	var errs []error
	for _, one := range t.Templates() {
		c := checker{has: func(other string) bool { return t.Lookup(other) != nil }, messages: m, in: one.Name()}
		errs = append(errs, c.check(one.Root))
	}
	return t, errors.Join(errs...)
}

func (s sources) compileHTML(name, source string, m *messages) (*htmltemplate.Template, error) {
	t := htmltemplate.New(name).Funcs(m.functions()).Option("missingkey=error")
	for part, text := range s.parts {
		if _, err := t.New(part).Parse(text); err != nil {
			return nil, fmt.Errorf("almanacmail: part %q: %w", part, err)
		}
	}
	if _, err := t.Parse(source); err != nil {
		return nil, fmt.Errorf("almanacmail: %w", err)
	}
	var errs []error
	for _, one := range t.Templates() {
		if one.Tree == nil {
			continue
		}
		c := checker{has: func(other string) bool { return t.Lookup(other) != nil }, messages: m, in: one.Name()}
		errs = append(errs, c.check(one.Tree.Root))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	// The first execution decides how each value is escaped, whatever the data.
	var unescapable *htmltemplate.Error
	if err := t.Execute(io.Discard, Data{}); errors.As(err, &unescapable) {
		return nil, fmt.Errorf("almanacmail: %w", err)
	}
	return t, nil
}

// checker finds what would fail in a compiled template only when it is executed: parts and
// messages that do not exist.
type checker struct {
	has      func(part string) bool
	messages *messages
	in       string
}

func (c checker) check(n parse.Node) error {
	var children []parse.Node
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			children = n.Nodes
		}
	case *parse.TemplateNode:
		if !c.has(n.Name) {
			return fmt.Errorf("almanacmail: template %s: there is no part %q", c.in, n.Name)
		}
		children = append(children, n.Pipe)
	case *parse.ActionNode:
		children = append(children, n.Pipe)
	case *parse.IfNode:
		children = append(children, n.Pipe, n.List, n.ElseList)
	case *parse.RangeNode:
		children = append(children, n.Pipe, n.List, n.ElseList)
	case *parse.WithNode:
		children = append(children, n.Pipe, n.List, n.ElseList)
	case *parse.PipeNode:
		if n != nil {
			for _, command := range n.Cmds {
				children = append(children, command)
			}
		}
	case *parse.CommandNode:
		if err := c.checkCall(n.Args); err != nil {
			return err
		}
		children = n.Args
	}
	return errors.Join(slices.Collect(func(yield func(error) bool) {
		for _, child := range children {
			if !yield(c.check(child)) {
				return
			}
		}
	})...)
}

// checkCall checks a call of the function plural with a literal name.
func (c checker) checkCall(args []parse.Node) error {
	if len(args) < 2 {
		return nil
	}
	function, ok := args[0].(*parse.IdentifierNode)
	name, literal := args[1].(*parse.StringNode)
	if !ok || function.Ident != "plural" || !literal || c.messages.has(name.Text) {
		return nil
	}
	return fmt.Errorf("almanacmail: template %s: there is no message %q in messages.json", c.in, name.Text)
}
