package command

import (
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

func TestHelpExitsWithSuccess(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ args, want []string }{
		"of the program": {[]string{"--help"}, []string{
			"\n    almanac when --zone ", "\n    almanac zone Europe/Dublin\n", "\n    almanac zones reconcile --dry-run\n",
			"\n  when [flags]\n", "\n  zone [<name>] [flags]\n", "\n  zones reconcile [flags]\n",
			"\n    almanac migrate up\n    almanac doctor\n    almanac stats\n", "\n  doctor [flags]\n",
			"exits with 0",
		}},
		"of when": {[]string{"when", "-h"}, []string{
			"\n    almanac when --zone ", "\nWhat happens:\n  --rule=RULE ", "\nWhat the calendar leaves open:\n  --gap=POLICY ",
			"boundary, skip, reject", "first, second,", "feb28, mar1, skip", "clamp, skip", "-n, --count=N ", "(default 10)",
		}},
		"of zone":            {[]string{"zone", "--help"}, []string{"\n    almanac zone ", "<name>", "--zoneinfo=PATH", "($DATABASE_URL)", "(default 4)"}},
		"of zones reconcile": {[]string{"zones", "reconcile", "-h"}, []string{"\n    almanac zones reconcile ", "required ($DATABASE_URL)", "(default almanac)", "--dry-run", "--trust"}},
		"of migrate":         {[]string{"migrate", "-h"}, []string{"migrate up", "migrate down ", "migrate version ", "migrate export "}},
		"of migrate up":      {[]string{"migrate", "up", "-h"}, []string{"\n    almanac migrate up\n", "required ($DATABASE_URL)", "(default almanac)", "exits with 0"}},
		"of migrate down":    {[]string{"migrate", "down", "-h"}, []string{"--lose-data", "exits with 0"}},
		"of migrate version": {[]string{"migrate", "version", "-h"}, []string{"--json", "exits with 0"}},
		"of migrate export":  {[]string{"migrate", "export", "-h"}, []string{"--layout=LAYOUT", "plain, goose, tern, golang-migrate (default", "-table public.almanac_goose", "x-migrations-table=almanac_migrate", "exits with 0"}},
		"of doctor":          {[]string{"doctor", "-h"}, []string{"--patience=DURATION", "(default 10m)", "\"warning\"", "exits with 0"}},
		"of stats":           {[]string{"stats", "-h"}, []string{"--exact", "4 MB", "exits with 0"}},
		"given twice":        {[]string{"zones", "-h", "--help"}, []string{"zones reconcile"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := almanacAt(t, today, tt.args...)
			if r.code != exitOK || r.errs != "" || strings.Count(r.out, "Usage: ") != 1 {
				t.Fatalf("exit code %d, %q:\n%s", r.code, r.errs, r.out)
			}
			for _, want := range tt.want {
				if !strings.Contains(r.out, want) {
					t.Errorf("no %q in\n%s", want, r.out)
				}
			}
			if strings.Contains(r.out, "${") {
				t.Errorf("a variable is left in\n%s", r.out)
			}
			for line := range strings.Lines(r.out) {
				if len(line) > 100 {
					t.Errorf("a line of %d bytes: %s", len(line), line)
				}
			}
		})
	}
}

// Each section of help.txt belongs to a subcommand, or to sections that do.
func TestEverySubcommandHasItsSectionOfHelp(t *testing.T) {
	t.Parallel()
	sections := map[string]bool{"": true, "filters": true, "list of users": true, "unknown types": true}
	for _, leaf := range kong.Must(new(commands), choices, kong.Vars{"version": "v1", "schema": "almanac"}).Model.Leaves(false) {
		if sections[leaf.Path()] = true; details.Lookup(leaf.Path()) == nil {
			t.Errorf("help.txt has no section %q", leaf.Path())
		}
	}
	for _, section := range details.Templates() {
		if !sections[section.Name()] {
			t.Errorf("help.txt has a section %q, and there is no such subcommand", section.Name())
		}
	}
}

func TestWithoutACommandHelpIsShownAsAFailure(t *testing.T) {
	t.Parallel()
	for help, args := range map[string][]string{"Usage: almanac <command>": nil, "Usage: almanac zones <command>": {"zones"}} {
		if r := almanacAt(t, today, args...); r.code != exitUsage || r.out != "" || !strings.HasPrefix(r.errs, help) {
			t.Errorf("almanac %q: exit code %d, %q, %q; want %d and %q", args, r.code, r.out, r.errs, exitUsage, help)
		}
	}
}

func TestTheVersionIsPrinted(t *testing.T) {
	t.Parallel()
	if r := almanacAt(t, today, "--version"); r.code != exitOK || r.errs != "" || !strings.HasPrefix(r.out, "almanac ") || strings.Count(r.out, "\n") != 1 {
		t.Errorf("%+v", r)
	}
}

func TestEveryBadArgumentIsNamed(t *testing.T) {
	t.Parallel()
	const dublin = `"Europe/Dubln" is not a known time zone; did you mean "Europe/Dublin"?`
	tests := map[string]struct{ args, want []string }{
		"an unknown command":     {[]string{"wen"}, []string{`unexpected argument wen, did you mean one of "when", "why"?`}},
		"an unknown flag":        {[]string{"when", "--moth-end", "skip"}, []string{`unknown flag --moth-end, did you mean "--month-end"?`}},
		"an argument too many":   {[]string{"when", "--zone", "UTC", "left"}, []string{"unexpected argument left"}},
		"no zone to show":        {[]string{"when"}, []string{"--zone or --country is required"}},
		"no zone to explain":     {[]string{"zone"}, []string{"<name> or --country is required"}},
		"an empty zone":          {[]string{"zone", ""}, []string{"<name> or --country is required"}},
		"a wrong zone and rule":  {[]string{"when", "--zone", "Europe/Dubln", "--rule", "dayly"}, []string{"--zone: " + dublin, `--rule: "dayly" is not once, daily, weekly, monthly or yearly, and neither an RRULE nor a cron expression`}},
		"a misspelt zone":        {[]string{"zone", "Europe/Dubln"}, []string{"<name>: " + dublin}},
		"no zone at all":         {[]string{"zone", "../etc/passwd"}, []string{`<name>: "../etc/passwd" is not a known time zone`}},
		"changes without number": {[]string{"zone", "UTC", "--changes", "-1"}, []string{`--changes: "-1" is not a number from 0 to 100`}},
		"everything about zone":  {[]string{"zone", "Europe/Dubln", "--changes", "101", "--zoneinfo", "/no/such"}, []string{"<name>: " + dublin, `--zoneinfo: zoneinfo: "/no/such" does not exist: file does not exist`, `--changes: "101" is not a number from 0 to 100`}},
		"everything about when": {
			[]string{"when", "--rule", "0 25 * * *", "--at", "25:00", "--on", "x", "--every", "0", "--from", "2026-02-29", "-n", "ten", "--gap", "up", "--fold", "third", "--leap-day", "feb27", "--month-end", "Clamp", "--missing-month", "sideways", "--missing-day", "clamp"},
			[]string{
				"--zone or --country is required", `--from: "2026-02-29" is not a day of the calendar: February 2026 has 28 days`, `--count: "ten" is not a number from 1 to 1000`,
				`--at: "25:00" is not a time of day: hours are 00 to 23, minutes and seconds 00 to 59`, `--every: "0" is not a whole number from 1 to 10000000`,
				"--on: has no meaning with a cron expression", "--every: has no meaning with a cron expression", "--at: has no meaning with a cron expression",
				`--rule: "0 25 * * *" is invalid: hour "25": "25" is not between 0 and 23`,
				`--gap: "up" is not one of forward, backward, boundary, skip, reject`, `--fold: "third" is not one of first, second, reject`,
				`--leap-day: "feb27" is not one of feb28, mar1, skip`, `--month-end: "Clamp" is not one of clamp, skip`,
				`--missing-month: "sideways" is not one of backward, forward, skip`, `--missing-day: "clamp" is not one of backward, forward, skip`,
				"--missing-month: has no meaning without --rule yearly and --calendar", "--missing-day: has no meaning without --rule yearly and --calendar",
			},
		},
		"no database": {[]string{"zones", "reconcile", "--schema", "pg_x", "--zoneinfo", "/no/such"}, []string{
			"--database-url or DATABASE_URL is required",
			`--schema: postgres: "pg_x" is no name for a schema: use a-z, 0-9 and _, at most 63, not beginning with a digit or pg_`,
			`--zoneinfo: zoneinfo: "/no/such" does not exist: file does not exist`,
		}},
		"a database without a port": {[]string{"zones", "reconcile", "--database-url", "postgres://u:hunter2@h:port/x"}, []string{"--database-url: cannot parse `postgres://u:xxxxx@h:port/x`: invalid port"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMisuse(t, almanacAt(t, today, tt.args...), tt.want...)
		})
	}
}

// An unset variable of a shell is an empty value. Without its filter a command would change more than
// was meant, so no flag may be empty, except those that clear a field of a user.
func TestAnEmptyFlagIsAMisuse(t *testing.T) {
	t.Parallel()
	for _, leaf := range kong.Must(new(commands), choices, kong.Vars{"version": "v1", "schema": "almanac"}).Model.Leaves(false) {
		args := strings.Fields(leaf.Path())
		for _, argument := range leaf.Positional {
			if argument.Required {
				args = append(args, "x")
			}
		}
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				switch {
				case f.IsBool():
				case f.Target.Kind() == reflect.Pointer:
					require.Contains(t, []string{"users add", "users edit"}, leaf.Path(), "--%s may be empty", f.Name)
				default:
					checkMisuse(t, almanacAt(t, today, append(args, "--"+f.Name, "")...), "--"+f.Name+": is empty")
				}
			}
		}
	}
	checkMisuse(t, almanacAt(t, today, "events", "cancel", "--type", "A", "--user", "", "--due-until=", "--yes"), "--user: is empty", "--due-until: is empty")
}
