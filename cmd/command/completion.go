package command

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/almanac-go/almanac/calendar"
)

// completion prints a script by which a shell completes command lines. It is written by a walk over
// kong's model, because the libraries for kong run the program at each press of the key.
type completion struct {
	Shell string `arg:"" help:"${shell}."`
}

// Run prints the script.
func (c *completion) Run(program *kong.Context, env *environment) error {
	if err := misused(oneOf("<shell>", c.Shell)); err != nil {
		return err
	}
	if !oneWord.MatchString(env.host.Name) {
		return fmt.Errorf("%q is not one word, and shells complete what follows one word", env.host.Name)
	}
	write := map[string]func(io.Writer, string, []place) error{"bash": writeBash, "zsh": writeZsh, "fish": writeFish}[c.Shell]
	return write(env.out, env.host.Name, places(program.Model.Node, ""))
}

// oneWord is what a shell takes for one word without quotes.
var oneWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// function returns the name of a shell function for the command of a name.
func function(name string) string { return strings.NewReplacer(".", "_", "-", "_").Replace(name) }

// place is where a command line can have got to.
type place struct {
	path     string // the commands so far: "users import"; "" for none
	commands []word
	flags    []completed
	argument []string // values of the first argument
}

// word is something to say, and what it is for.
type word struct{ text, help string }

// completed is a flag.
type completed struct {
	word
	short  string   // without the hyphen, or ""
	takes  bool     // a value comes after it
	values []string // that are known; nil for any, which may be a file
}

// places walks the commands below a node.
func places(n *kong.Node, path string) []place {
	here := place{path: path}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			here.flags = append(here.flags, flagsOf(f)...)
		}
	}
	for _, argument := range n.Positional {
		here.argument = append(here.argument, valuesOf(argument, "")...)
	}
	list := []place{here}
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		list[0].commands = append(list[0].commands, word{child.Name, child.Help})
		list = append(list, places(child, strings.TrimSpace(path+" "+child.Name))...)
	}
	return list
}

// flagsOf returns the ways to say a flag.
func flagsOf(f *kong.Flag) []completed {
	one := completed{word{f.Name, f.Help}, "", !f.IsBool(), valuesOf(f.Value, f.PlaceHolder)}
	if f.Short != 0 {
		one.short = string(f.Short)
	}
	list := []completed{one}
	if f.Tag.Negatable != "" {
		one.text, one.short = "no-"+f.Name, ""
		list = append(list, one)
	}
	return list
}

// valuesOf returns what a value can be, if that is known.
func valuesOf(v *kong.Value, placeholder string) []string {
	if known := choices[strings.ReplaceAll(v.Name, "-", "_")]; known != "" {
		return strings.Split(known, ", ")
	}
	if placeholder == "ZONE" {
		return calendar.TimezoneNames()
	}
	return nil
}

// said returns the flags as they are said.
func (p place) said() []string {
	var list []string
	for _, f := range p.flags {
		list = append(list, "--"+f.text)
		if f.short != "" {
			list = append(list, "-"+f.short)
		}
	}
	return list
}

// after returns the pattern of a command followed by one of its flags.
func (p place) after(f completed) string {
	pattern := "'" + p.path + ":--" + f.text + "'"
	if f.short != "" {
		pattern += "|'" + p.path + ":-" + f.short + "'"
	}
	return pattern
}

//go:embed completion.bash
var bashScript string

// writeBash fills in the tables of the script, and the name.
func writeBash(out io.Writer, name string, all []place) error {
	var steps, values, words []string
	for _, p := range all {
		if p.path != "" {
			parent, last := "", p.path
			if i := strings.LastIndexByte(p.path, ' '); i >= 0 {
				parent, last = p.path[:i], p.path[i+1:]
			}
			steps = append(steps, fmt.Sprintf("'%s:%s') at='%s' ;;", parent, last, p.path))
		}
		for _, f := range p.flags {
			if f.takes {
				values = append(values, fmt.Sprintf("%s) words='%s'; return ;;", p.after(f), strings.Join(f.values, " ")))
			}
		}
		list := p.said()
		for _, c := range p.commands {
			list = append(list, c.text)
		}
		words = append(words, fmt.Sprintf("'%s') words='%s' ;;", p.path, strings.Join(slices.Concat(list, p.argument), " ")))
	}
	_, err := strings.NewReplacer("# steps", strings.Join(steps, "\n\t\t"), "# values", strings.Join(values, "\n\t"), "# words", strings.Join(words, "\n\t"),
		"_almanac", "_"+function(name), "almanac", name).WriteString(out, bashScript)
	return err
}

// writeZsh has zsh run the script for bash, as it can.
func writeZsh(out io.Writer, name string, all []place) error {
	if _, err := io.WriteString(out, "#compdef "+name+"\nautoload -U +X bashcompinit && bashcompinit\n"); err != nil {
		return err
	}
	return writeBash(out, name, all)
}

// writeFish writes a rule for each word. The function says whether the line has got to a place.
func writeFish(out io.Writer, name string, all []place) error {
	var b strings.Builder
	at := "__" + function(name) + "_at"
	b.WriteString("# fish completion for " + name + "\nfunction " + at + "\n\tset -l at ''\n\tfor word in (commandline -opc)[2..-1]\n\t\tset -l next (string trim -- \"$at $word\")\n\t\tswitch \"$next\"\n")
	for _, p := range all[1:] {
		fmt.Fprintf(&b, "\t\t\tcase '%s'\n\t\t\t\tset at \"$next\"\n", p.path)
	}
	b.WriteString("\t\tend\n\tend\n\ttest \"$at\" = \"$argv\"\nend\n")
	quote := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
	}
	for _, p := range all {
		rule := "complete -c " + name + " -n " + quote(at+" "+p.path)
		for _, c := range p.commands {
			fmt.Fprintf(&b, "%s -f -a %s -d %s\n", rule, c.text, quote(c.help))
		}
		if len(p.argument) > 0 {
			fmt.Fprintf(&b, "%s -f -a %s\n", rule, quote(strings.Join(p.argument, " ")))
		}
		for _, f := range p.flags {
			line := rule + " -l " + f.text
			if f.short != "" {
				line += " -s " + f.short
			}
			if f.takes {
				line += " -r"
			}
			if f.values != nil {
				line += " -f -a " + quote(strings.Join(f.values, " "))
			}
			fmt.Fprintf(&b, "%s -d %s\n", line, quote(f.help))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
