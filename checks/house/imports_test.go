package house_test

import (
	"slices"
	"strings"
	"testing"
)

// TestImports checks the directions of imports between packages, and the packages that may
// import each foreign module and some packages of the standard library.
func TestImports(t *testing.T) {
	t.Parallel()
	files := tree(t)
	for _, f := range files {
		f.checkImports(t)
		f.checkCalls(t)
	}
	for name := range clockReaders() {
		reads := func(f file) bool { return f.path == name && f.readsClock() }
		if !slices.ContainsFunc(files, reads) {
			t.Errorf("%s: on the list of files that call time.Now, but it does not", name)
		}
	}
}

func (f file) checkImports(t *testing.T) {
	t.Helper()
	for name, spec := range f.imports() {
		for _, rule := range []string{f.wrongImport(name), f.wrongHome(name)} {
			if rule != "" {
				f.breaks(t, spec.Pos(), "imports "+name+": "+rule)
			}
		}
	}
}

// wrongImport returns the rule between packages that f breaks by importing name, or "".
func (f file) wrongImport(name string) string {
	pkg, ours := strings.CutPrefix(name+"/", module+"/")
	pkg = strings.TrimSuffix(pkg, "/") // "" is the root package
	if ours && within(pkg, "examples", "cmd/almanac") && !f.in(pkg) {
		return "nothing imports a program"
	}
	if ours && within(pkg, "cmd") && !f.in("cmd", "examples") {
		return "only programs import cmd"
	}
	if ours && within(pkg, "contrib") && !f.in(pkg, "examples") && !(f.in("cmd") && (pkg == "contrib/calendars" || pkg == "contrib/holidays")) {
		return "only examples import contrib, and cmd the calendars and holidays"
	}
	if ours && pkg == "webhook" && f.in(".", "calendar", "almanactest", "postgres") {
		return "not in tests either: every module that imports this package would have the dependencies of webhook in its go.sum"
	}
	if f.test {
		return ""
	}
	if ours && pkg == "almanactest/conformance" {
		return "only tests run the conformance suite"
	}
	if ours && within(pkg, "internal") && f.in("cmd") {
		return "cmd imports nothing internal: what is internal to one release is not to the next"
	}
	adapters := []string{"broadcast", "ops", "postgres", "shards", "webhook", "httpapi", "icalendar", "dashboard", "almanactest"}
	switch {
	case f.in(machinery()...):
		if !standard(name) {
			return "machinery imports the standard library only"
		}
	case f.in("calendar"):
		nouns := []string{"internal/civil", "internal/excerpt", "internal/zones", "internal/zoneinfo", "internal/rrule", "internal/cron"}
		if !standard(name) && !(ours && slices.Contains(nouns, pkg)) {
			return "the calendar imports the standard library and " + strings.Join(nouns, ", ") + " only"
		}
	case f.in("."):
		nouns := []string{"calendar", "internal/engine", "internal/backoff", "internal/jsonb", "internal/excerpt", "internal/profile", "internal/program", "internal/isolate", "internal/slots"}
		foreign := []string{"github.com/google/uuid", "golang.org/x/text/language"}
		if !standard(name) && !slices.Contains(foreign, name) && !(ours && slices.Contains(nouns, pkg)) {
			return "the root imports the standard library, " + strings.Join(foreign, ", ") + " and " + strings.Join(nouns, ", ") + " only"
		}
	case f.in("contrib"):
		if ours && !slices.Contains([]string{"", "broadcast", "calendar", "ops", "signedlink"}, pkg) && !f.in(pkg) {
			return "of ours, contrib imports the root, the calendar, ops and signedlink only: what is internal to one release is not to the next"
		}
	case f.in(adapters...):
		below := []string{"broadcast", "calendar", "ops", "signedlink", "internal/backoff", "internal/fold", "internal/jsonb", "internal/slots"}
		if ours && pkg != "" && !slices.Contains(below, pkg) && !sameAdapter(f, pkg, adapters) {
			return "of ours, an adapter imports the root and " + strings.Join(below, ", ") + " only"
		}
	}
	return ""
}

// wrongHome returns the rule about foreign modules or zone data that f breaks by importing
// name, or "".
func (f file) wrongHome(name string) string {
	tests := f.test || f.in("internal/pgtest", "internal/calendartest")
	homes := map[string]struct {
		right bool
		rule  string
	}{
		"time/tzdata": {f.Name.Name == "main", "only in package main"},
		"github.com/jackc/pgx/v5": {f.in("postgres", "shards", "webhook", "internal/pgtest", "examples", "cmd") || f.in("contrib") && tests,
			"only in postgres, shards, webhook, internal/pgtest, examples and cmd, and in tests of contrib"},
		"code.dny.dev/ssrf":          {f.in("webhook"), "only in webhook"},
		"github.com/testcontainers":  {f.in("internal/pgtest"), "only in internal/pgtest"},
		"github.com/fergusstrange":   {f.in("examples/birthdayd"), "only in examples/birthdayd"},
		"github.com/alecthomas/kong": {f.in("cmd"), "only in cmd"},
		"github.com/prometheus": {f.in("contrib/prometheus", "examples/birthdayd", "examples/opentelemetry", "checks/alerts"),
			"only in contrib/prometheus, examples/birthdayd, examples/opentelemetry and checks/alerts"},
		"go.opentelemetry.io": {f.in("examples/opentelemetry") || f.in("contrib/otel") && (tests || within(name, "go.opentelemetry.io/otel") && !within(name, "go.opentelemetry.io/otel/sdk")),
			"only in contrib/otel, with the SDK in its tests, and in examples/opentelemetry"},
		"github.com/nats-io": {f.in("contrib/jetstream", "examples/fanout") && (f.in("examples") || tests || !within(name, "github.com/nats-io/nats-server")),
			"only in contrib/jetstream and examples/fanout, and the server only in tests and examples"},
		"github.com/riverqueue/river":    {f.in("examples/hosts/river"), "only in examples/hosts/river"},
		"github.com/wneessen/go-mail":    {f.in("contrib/mail"), "only in contrib/mail"},
		"github.com/nicksnyder/go-i18n":  {f.in("contrib/mail"), "only in contrib/mail"},
		"github.com/emersion/go-msgauth": {f.in("contrib/mail"), "only in contrib/mail"},
		"github.com/emersion/go-smtp":    {f.in("contrib/mail", "examples/birthdayd") && tests || f.in("examples/mail"), "only in examples/mail, and in tests of contrib/mail and examples/birthdayd"},
		"github.com/emersion/go-sasl":    {f.in("contrib/mail") && tests, "only in tests of contrib/mail"},
		"go.yaml.in/yaml/v3":             {tests, "only in tests and their helpers"},
		"golang.org/x/text/language":     {f.in(".", "contrib/mail"), "only in the root and contrib/mail"},
		"golang.org/x/text/width":        {f.in("cmd"), "only in cmd"},
		"golang.org/x/text/unicode/bidi": {f.in("cmd"), "only in cmd"},
		"golang.org/x/term":              {f.in("cmd"), "only in cmd"},
		"golang.org/x/sys/unix":          {f.in("cmd") && tests, "only in tests of cmd"},
		"github.com/teambition":          {tests, "only in tests and their helpers"},
		"github.com/robfig":              {tests, "only in tests and their helpers"},
		"github.com/stretchr/testify":    {tests, "only in tests and their helpers"},
		"pgregory.net/rapid":             {tests, "only in tests and their helpers"},
		"go.uber.org/goleak":             {tests, "only in tests and their helpers"},
		"github.com/standard-webhooks":   {tests, "only in tests and their helpers"},
	}
	for prefix, home := range homes {
		if !within(name, prefix) {
			continue
		}
		if home.right {
			return ""
		}
		return home.rule
	}
	if standard(name) || within(name, module, "github.com/google/uuid") {
		return ""
	}
	return "no rule says where this module belongs"
}

func machinery() []string {
	return []string{"signedlink", "internal/engine", "internal/civil", "internal/backoff", "internal/fold", "internal/jsonb", "internal/zones", "internal/zoneinfo", "internal/rrule", "internal/cron", "internal/excerpt", "internal/profile", "internal/pgserver", "internal/isolate", "internal/slots"}
}

// sameAdapter reports whether f and pkg belong to the same adapter.
func sameAdapter(f file, pkg string, adapters []string) bool {
	return slices.ContainsFunc(adapters, func(adapter string) bool {
		return f.in(adapter) && within(pkg, adapter)
	})
}

// standard reports whether name is a package of the standard library: its first element has
// no dot.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// within reports whether name is one of parents or below one.
func within(name string, parents ...string) bool {
	return slices.ContainsFunc(parents, func(parent string) bool {
		return name == parent || strings.HasPrefix(name, parent+"/")
	})
}
