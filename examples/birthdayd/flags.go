package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// lookupEnv is os.LookupEnv, or a test's idea of it.
type lookupEnv func(name string) (string, bool)

// setting is one thing that can be said to the program, by a flag or by an
// environment variable. The flag wins, and an empty variable says nothing.
type setting struct {
	name   string // of the flag
	arg    string // how help calls the value; "" makes the flag a switch
	preset string // the value if nothing is said
	usage  string // what it is for, in one line
	also   string // a second variable, looked at after its own
	once   bool   // a request rather than a setting: there is no variable
	take   func(text string) error
}

// variable is the setting's own environment variable.
func (s setting) variable() string {
	return "BIRTHDAYD_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// variables are all of them, in the order in which they are looked at.
func (s setting) variables() []string {
	switch {
	case s.once:
		return nil
	case s.also == "":
		return []string{s.variable()}
	}
	return []string{s.variable(), s.also}
}

// text holds the value of a flag until all are judged together: package flag
// would stop at the first that is bad.
type text struct {
	value  string
	given  bool
	toggle bool
}

func (t *text) String() string     { return t.value }
func (t *text) Set(s string) error { t.value, t.given = s, true; return nil }
func (t *text) IsBoolFlag() bool   { return t.toggle }

// resolve gives every setting its value. The error holds every complaint; it is
// flag.ErrHelp when help was asked for.
func resolve(settings []setting, args []string, lookup lookupEnv) error {
	flags := flag.NewFlagSet("birthdayd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	said := make(map[string]*text, len(settings))
	for _, s := range settings {
		said[s.name] = &text{toggle: s.arg == ""}
		flags.Var(said[s.name], s.name, s.usage)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	var errs []error
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	for _, s := range settings {
		value, source := s.valueOf(*said[s.name], lookup)
		if err := s.take(value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
	}
	return errors.Join(errs...)
}

// valueOf returns what was said of a setting, and where.
func (s setting) valueOf(said text, lookup lookupEnv) (value, source string) {
	if said.given {
		return said.value, "-" + s.name
	}
	for _, name := range s.variables() {
		if value, ok := lookup(name); ok && value != "" {
			return value, name
		}
	}
	return s.preset, "-" + s.name
}

const helpHead = `birthdayd greets people on their birthday, at a time of day where they live, by webhook.

  birthdayd -demo                                   see it at work, with nothing else to set up
  birthdayd -webhook-url https://example.com/hook   run it

Without a database URL it runs a PostgreSQL of its own and keeps the data in -data-dir.
Each flag can also be set by the environment variable beside it; the flag wins.

`

// help is what -h prints.
func help() string {
	var b strings.Builder
	b.WriteString(helpHead)
	for _, s := range (&config{}).settings() {
		fmt.Fprintf(&b, "  -%-22s %s\n", strings.TrimSpace(s.name+" "+s.arg), s.usage)
		if s.once {
			continue
		}
		fmt.Fprintf(&b, "  %-23s %s", "", strings.Join(s.variables(), ", "))
		if s.arg != "" && s.preset != "" {
			fmt.Fprintf(&b, " (default %s)", s.preset)
		}
		b.WriteString("\n")
	}
	b.WriteString("  -h                      print this\n")
	return b.String()
}
