package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// lookupEnv is os.LookupEnv, or a replacement in tests.
type lookupEnv func(name string) (string, bool)

// setting is a setting of the program, by a flag or an environment variable. The flag takes
// precedence, and an empty variable counts as unset.
type setting struct {
	name   string // of the flag
	arg    string // the value's name in the help; "" makes the flag a switch
	preset string // the default value
	usage  string // its purpose, in one line
	also   string // a second variable, used if its own is unset
	once   bool   // a command rather than a setting: it has no variable, and no place in the file
	secret bool   // not for the eyes of other users
	take   func(text string) error
}

// prefix begins the name of every variable.
const prefix = "BIRTHDAYD_"

// variable is the setting's own environment variable.
func (s setting) variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// variables returns all of them, in order of precedence.
func (s setting) variables() []string {
	switch {
	case s.once:
		return nil
	case s.also == "":
		return []string{s.variable()}
	}
	return []string{s.variable(), s.also}
}

// text stores the value of a flag until all are validated together: package flag would stop
// at the first invalid value.
type text struct {
	value  string
	given  bool
	toggle bool
}

func (t *text) String() string     { return t.value }
func (t *text) Set(s string) error { t.value, t.given = s, true; return nil }
func (t *text) IsBoolFlag() bool   { return t.toggle }

// errFlag marks an error of the command line. It has no text.
var errFlag = errors.New("")

// resolve sets the value of every setting, and returns the file of settings. The error
// contains every complaint. It is flag.ErrHelp when help was requested, errFlag when there is
// no such flag, and errFile when the file cannot be read.
func resolve(settings []setting, args []string, lookup lookupEnv) (configFile, error) {
	flags := flag.NewFlagSet("birthdayd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	said := make(map[string]*text, len(settings))
	for _, s := range settings {
		said[s.name] = &text{toggle: s.arg == ""}
		flags.Var(said[s.name], s.name, s.usage)
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return configFile{}, err
	} else if err != nil { // the flags after it are not read
		return configFile{}, fmt.Errorf("%w%w", errFlag, err)
	}
	var errs []error
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	path, source := setting{name: configFlag}.valueOf(*said[configFlag], lookup, configFile{})
	file, err := readConfig(path)
	if err != nil {
		return file, errors.Join(append(errs, fmt.Errorf("%s: %w: %w", source, errFile, err))...)
	}
	errs = append(errs, file.check(file.entry, settings))
	for _, s := range settings {
		value, source := s.valueOf(*said[s.name], lookup, file)
		if err := s.take(value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
	}
	return file, errors.Join(errs...)
}

// valueOf returns the value of a setting, and its source.
func (s setting) valueOf(said text, lookup lookupEnv, file configFile) (value, source string) {
	if said.given {
		return said.value, "-" + s.name
	}
	for _, name := range s.variables() {
		if value, ok := lookup(name); ok && value != "" {
			return value, name
		}
	}
	if value, place, ok := file.value(s.name); ok && !s.once {
		return value, place
	}
	return s.preset, "-" + s.name
}

// misspelt returns an error that lists the variables of an environment that look like settings of
// birthdayd and are none. Without a secret that is misspelt, webhooks are not signed. Kubernetes sets
// variables for a service of this name: BIRTHDAYD_SERVICE_HOST, BIRTHDAYD_PORT and others.
func misspelt(environment []string) error {
	known := make(map[string]bool)
	for _, s := range (&config{}).settings() {
		if !s.once {
			known[s.variable()] = true
		}
	}
	var errs []error
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		if ours && !known[name] && !strings.HasPrefix(rest, "SERVICE_") && !strings.HasPrefix(rest, "PORT") {
			errs = append(errs, fmt.Errorf("%s: there is no such setting", name))
		}
	}
	return errors.Join(errs...)
}

const helpHead = `birthdayd greets users on their birthday by webhook or mail, at a time of day where they live.

  birthdayd -demo                                   see it at work, with nothing else to set up
  birthdayd -webhook-url https://example.com/hook   run it

Without a database URL it runs a PostgreSQL of its own and keeps the data in -data-dir.
Each flag can also be set by the environment variable beside it, or in the file of -config.
The flag wins over the variable, and the variable over the file.

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

// take stores a value in a field unchanged.
func take(field *string) func(string) error {
	return func(text string) error {
		*field = text
		return nil
	}
}

func takeSwitch(field *bool) func(string) error {
	return func(text string) (err error) {
		if *field, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		return nil
	}
}

func takeCount(field *int) func(string) error {
	return func(text string) (err error) {
		if *field, err = strconv.Atoi(text); err != nil || *field < 1 {
			return fmt.Errorf("%q is not a whole number of at least 1", text)
		}
		return nil
	}
}

func takeNumber(field *int, least, most int) func(string) error {
	return func(text string) (err error) {
		if *field, err = strconv.Atoi(text); err != nil || *field < least || *field > most {
			return fmt.Errorf("%q is not a whole number from %d to %d", text, least, most)
		}
		return nil
	}
}

func takeDuration(field *time.Duration, least time.Duration) func(string) error {
	return func(text string) (err error) {
		if *field, err = time.ParseDuration(text); err != nil || *field < least {
			return fmt.Errorf("%q is not a duration of at least %v, such as 10s", text, least)
		}
		return nil
	}
}

func (c *config) takeAddr(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is not of the form host:port", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is not a port", port)
	}
	c.api.addr = text
	return nil
}

// onLoopback reports whether only this machine can reach the address. The only accepted
// name is localhost, because other names may resolve to any address.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (g *greetingConfig) takeAt(text string) error {
	at, err := calendar.ParseClock(text)
	if err != nil {
		return fmt.Errorf("%q is not a time of day of the form HH:MM or HH:MM:SS", text)
	}
	g.at = at
	return nil
}

func (g *greetingConfig) takeQuiet(text string) error {
	g.quiet = calendar.Window{}
	if text == "" {
		return nil
	}
	var err error
	if g.quiet, err = calendar.ParseQuietHours(text); err != nil {
		return fmt.Errorf("%q is not of the form HH:MM-HH:MM, with two different times of day", text)
	}
	return nil
}

func (g *greetingConfig) takeHours(text string) error {
	g.hours = calendar.Window{}
	if text == "" {
		return nil
	}
	var err error
	g.hours, err = calendar.ParseWindow(text)
	return err
}

func (g *greetingConfig) takeZone(text string) error {
	if g.zone = text; text == "" {
		return nil
	}
	_, err := calendar.LoadTimezone(text)
	return err
}

func (g *greetingConfig) takeAnniversary(text string) error {
	if text == deliverAt {
		return fmt.Errorf("%q has the time of day", text)
	}
	g.anniversary = text
	return nil
}

func (l *logConfig) takeFormat(text string) error {
	if text != "text" && text != "json" {
		return fmt.Errorf("%q is neither text nor json", text)
	}
	l.json = text == "json"
	return nil
}

// takeLogLevel must follow the switch -demo, which changes the default: the demo shows the
// greetings themselves.
func (c *config) takeLogLevel(text string) error {
	if text == "" {
		c.log.level = slog.LevelInfo
		if c.demo {
			c.log.level = slog.LevelWarn
		}
		return nil
	}
	if err := c.log.level.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%q is not debug, info, warn or error", text)
	}
	return nil
}

// defaultDataDir returns the system's directory for data of services for root, and
// otherwise the user's data directory. It returns "" when that is unknown.
func defaultDataDir() string {
	const ours = "almanac/birthdayd"
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib", ours)
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ours)
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return ""
		}
		return filepath.Join(dir, ours)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local/share", ours)
}
