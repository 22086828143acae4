package command

import (
	"strings"
	"testing"
)

func TestHelpOfTheVerbs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ args, want []string }{
		"of the program":      {[]string{"--help"}, []string{"\n    almanac users import people.csv ", "\n  users import <file> [flags]\n", "\n  events list ", "\n  events show <id> [flags]\n", "\n  events requeue [<id> ...] [flags]\n", "\n  audit prune --before=INSTANT [flags]\n", "\n  pauses ", "\n  completion <shell>", "130 when it was interrupted"}},
		"of users import":     {[]string{"users", "import", "-h"}, []string{"\nTheir events:\n  --[no-]birthday ", "csv, jsonl (default: by", "(default 4e6f0c62-93a5-4e6d-9d57-0f6a1f1f7c55)", "(default 1000)", "feb28, mar1, skip", "Backfill", "Opt-outs"}},
		"of events list":      {[]string{"events", "list", "-h"}, []string{"pending, processing, completed, failed", "-n, --limit=N ", "(default 50)"}},
		"of users list":       {[]string{"users", "list", "-h"}, []string{"-n, --limit=N ", "(default 50)", "--csv", "--json"}},
		"of users find":       {[]string{"users", "find", "-h"}, []string{"[<text>]", "--external-id=ID", "almanac users find ada@example.com"}},
		"of users show":       {[]string{"users", "show", "-h"}, []string{"Usage: almanac users show <user> [flags]", "--database-url=URL", "($DATABASE_URL)"}},
		"of users add":        {[]string{"users", "add", "-h"}, []string{"\nTheir events:\n  --[no-]birthday ", "--optional-profile", "--attributes=JSON", "--timezone=ZONE"}},
		"of users edit":       {[]string{"users", "edit", "-h"}, []string{"--if-version=N", "--merge=JSON", "command has no handlers, so pending events keep their time"}},
		"of users preview":    {[]string{"users", "preview", "-h"}, []string{"Usage: almanac users preview <user> <type> [flags]", "-n, --count=N ", "(default 12)", "\nTheir events:\n  --[no-]birthday ", "This command has no handlers of yours"}},
		"of users reschedule": {[]string{"users", "reschedule", "-h"}, []string{"almanac users reschedule ada@example.com --birthday", "Their events:"}},
		"of backfill":         {[]string{"backfill", "-h"}, []string{"--rate=N", "--after=CURSOR", "almanac backfill BIRTHDAY --birthday --rate 5000"}},
		"of users delete":     {[]string{"users", "delete", "-h"}, []string{"--erase-now", "--dry-run", "--yes", "--if-version=N"}},
		"of events show":      {[]string{"events", "show", "-h"}, []string{"--payload"}},
		"of events cancel":    {[]string{"events", "cancel", "-h"}, []string{"--reason=TEXT", "--end-series", "-n, --limit=N ", "--dry-run", "--yes", "--overdue", "exits with 1 when any event was refused", "command has no handlers, so a program that has the handler plans that event"}},
		"of events run-now":   {[]string{"events", "run-now", "-h"}, []string{"--overdue", "--yes"}},
		"of events requeue":   {[]string{"events", "requeue", "-h"}, []string{"--due-until", "a new event with the same"}},
		"of pause":            {[]string{"pause", "-h"}, []string{"almanac pause BIRTHDAY"}},
		"of audit on":         {[]string{"audit", "on", "-h"}, []string{"an insert per step"}},
		"of completion":       {[]string{"completion", "-h"}, []string{"bash, zsh, fish", "source <(almanac completion bash)"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := almanacAt(t, today, tt.args...)
			if r.code != exitOK || r.errs != "" {
				t.Fatalf("exit code %d, %q", r.code, r.errs)
			}
			for _, want := range tt.want {
				// Lines are broken where they get too long.
				if !strings.Contains(r.out, want) && !strings.Contains(strings.Join(strings.Fields(r.out), " "), want) {
					t.Errorf("no %q in\n%s", want, r.out)
				}
			}
			if strings.Contains(r.out, "${") && name != "of completion" {
				t.Errorf("a variable is left in\n%s", r.out)
			}
		})
	}
}

func TestEveryBadArgumentOfTheVerbsIsNamed(t *testing.T) {
	t.Parallel()
	const noDatabase = "--database-url or DATABASE_URL is required"
	const badSchema = `--schema: postgres: "pg_x" is no name for a schema: use a-z, 0-9 and _, at most 63, not beginning with a digit or pg_`
	tests := map[string]struct{ args, want []string }{
		"no file":                             {[]string{"users", "import"}, []string{`expected "<file>"`}},
		"a file that does not say what it is": {[]string{"users", "import", "-", "--dry-run"}, []string{"--format is required where the file's name does not end in .csv, .jsonl or .ndjson"}},
		"everything about users import": {
			[]string{"users", "import", "x.csv", "--format", "xml", "--namespace", "7", "--id-from", "email", "--new-ids", "--max-errors", "0", "--schema", "pg_x", "--no-events", "--anniversary", "hired", "--at", "25:00", "--gap", "x", "--fold", "x", "--leap-day", "x"},
			[]string{
				`--format: "xml" is not one of csv, jsonl`, `--namespace: "7" is not a UUID`, "--new-ids: does not go with --id-from", `--max-errors: "0" is not a number from 1 to 1000000`,
				noDatabase, badSchema, "--at: does not go with --no-events", "--anniversary: does not go with --no-events", `--at: "25:00" is not a time of day: hours are 00 to 23, minutes and seconds 00 to 59`,
				`--gap: "x" is not one of forward, backward, boundary, skip, reject`, `--fold: "x" is not one of first, second, reject`, `--leap-day: "x" is not one of feb28, mar1, skip`,
			},
		},
		"everything about events list": {
			[]string{"events", "list", "--status", "PENDNG", "--user", "7", "--due-from", "now", "--due-until", "2026-02-29", "--overdue", "-5m", "-n", "0", "--after", "x", "--schema", "pg_x"},
			[]string{
				`--status: "PENDNG" is not one of pending, processing, completed, failed, cancelled`,
				`--due-from: "now" is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15`, `--due-until: "2026-02-29" is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15`,
				`--overdue: "-5m" is not a duration such as 90s or 5m`, `--limit: "0" is not a number from 1 to 1000000`, `--after: "x" is not where a list ended`, noDatabase, badSchema,
			},
		},
		"orders that exclude each other": {
			[]string{"events", "list", "--upcoming", "--newest", "--failed", "--reason", "x", "--status", "failed", "--overdue", "1m", "--json", "--csv", "--after", "7"},
			[]string{
				"--failed: does not go with --overdue", "--failed: does not go with --status", "--reason: does not go with --overdue",
				"--upcoming: does not go with --failed", "--upcoming: does not go with --newest", "--upcoming: does not go with --reason", "--upcoming: does not go with --status",
				`--after: "7" is not where a list ended`, "--csv: does not go with --json", noDatabase,
			},
		},
		"a cursor of another order": {[]string{"events", "list", "--upcoming", "--after", graceID}, []string{`--after: "` + graceID + `" is not where a list ended`, noDatabase}},
		"everything about users list": {
			[]string{"users", "list", "-n", "0", "--after", "x/y/z", "--csv", "--json", "--schema", "pg_x"},
			[]string{`--limit: "0" is not a number from 1 to 1000000`, `--after: "x/y/z" is not where a list ended`, "--csv: does not go with --json", noDatabase, badSchema},
		},
		"nothing to find":       {[]string{"users", "find"}, []string{"<text>, --name, --email or --external-id is required", noDatabase}},
		"two ways to find":      {[]string{"users", "find", "ada", "--name", "ada"}, []string{"<text>: does not go with --name, --email or --external-id", noDatabase}},
		"no text to find":       {[]string{"users", "find", "a\x00"}, []string{"<text>: is not text that can be stored", noDatabase}},
		"no flag of text":       {[]string{"users", "find", "--email", "a\x00"}, []string{"<text>: is not text that can be stored", noDatabase}},
		"no user to show":       {[]string{"users", "show", "", "-n", "1001"}, []string{"<user> is required", `--limit: "1001" is not a number from 1 to 1000`, noDatabase}},
		"not the text of an id": {[]string{"users", "show", "a\x00"}, []string{"<user>: is not text that can be stored", noDatabase}},
		"nothing to add":        {[]string{"users", "add"}, []string{"--first-name is required without --optional-profile", "--last-name is required without --optional-profile", "--date-of-birth is required without --optional-profile", "--timezone is required without --default-zone", noDatabase}},
		"everything about users add": {
			[]string{
				"users", "add", "--id", "7", "--first-name", "", "--last-name", "a\x1b", "--date-of-birth", "1899-01-01", "--timezone", "Europe/Dubln", "--locale", "??",
				"--email", "Ada <a@b>", "--external-id", " x", "--attributes", "[]", "--schema", "pg_x", "--at", "25:00",
			},
			[]string{
				`--id: "7" is not a UUID`, "--first-name: is empty", "--last-name: contains control characters", "--date-of-birth: is before 1900-01-01",
				`--timezone: is not a known time zone; did you mean "Europe/Dublin"?`, "--locale: is not a language tag (BCP 47)", "--email: is not a bare e-mail address of at most 254 bytes",
				"--external-id: begins or ends with a space", "--attributes: are not a JSON object",
				`--at: "25:00" is not a time of day: hours are 00 to 23, minutes and seconds 00 to 59`, noDatabase, badSchema,
			},
		},
		"nothing to edit": {[]string{"users", "edit", "ada", "--optional-profile"}, []string{"nothing is to change: give at least one flag of the profile", noDatabase}},
		"everything about users edit": {
			[]string{"users", "edit", "", "--first-name", "", "--date-of-birth", "--03-15", "--timezone", "x", "--merge", "7", "--if-version", "-1", "--schema", "pg_x"},
			[]string{
				"<user> is required", "--first-name: is empty", "--date-of-birth: has no year", "--timezone: is not a known time zone", "--merge: is not a JSON object",
				`--if-version: "-1" is not a number from 0 to 2147483647`, noDatabase, badSchema,
			},
		},
		"a deletion without a yes":      {[]string{"users", "delete", "ada"}, []string{"--dry-run or --yes is required", noDatabase}},
		"everything about users delete": {[]string{"users", "delete", "", "--yes", "--dry-run", "--if-version", "x"}, []string{"<user> is required", `--if-version: "x" is not a number from 0 to 2147483647`, "--dry-run: does not go with --yes", noDatabase}},
		"two forms of pauses":           {[]string{"pauses", "--json", "--csv"}, []string{"--csv: does not go with --json", noDatabase}},
		"everything about events show":  {[]string{"events", "show", "7", "--schema", "pg_x"}, []string{`<id>: "7" is not a UUID`, noDatabase, badSchema}},
		"no id to show":                 {[]string{"events", "show", ""}, []string{"<id> is required", noDatabase}},
		"everything about events cancel": {
			[]string{"events", "cancel", "7", "--user", "8", "--overdue", "x", "--limit", "0", "--schema", "pg_x"},
			[]string{
				`<id>: "7" is not a UUID`, "<id>: does not go with filters", `--overdue: "x" is not a duration such as 90s or 5m`,
				`--limit: "0" is not a number from 1 to 1000000`, noDatabase, badSchema,
			},
		},
		"run now, again and again":      {[]string{"events", "run-now", "--type", "A", "--yes"}, []string{"--due-until or --overdue is required with filters: a repeated run-now would make the next events due, too", noDatabase}},
		"nothing to run now":            {[]string{"events", "run-now"}, []string{"<id> or a filter is required", noDatabase}},
		"filters without a yes":         {[]string{"events", "requeue", "--type", "A"}, []string{"--dry-run or --yes is required with filters", noDatabase}},
		"a yes and a dry run":           {[]string{"events", "cancel", "--overdue", "0s", "--yes", "--dry-run"}, []string{"--dry-run: does not go with --yes", noDatabase}},
		"a dry run of ids":              {[]string{"events", "cancel", graceID, "--dry-run"}, []string{"--dry-run: goes with filters only", noDatabase}},
		"a limit of ids":                {[]string{"events", "cancel", graceID, "--limit", "1"}, []string{"--limit: goes with filters only", noDatabase}},
		"failed events are not overdue": {[]string{"events", "requeue", "--overdue", "0s"}, []string{"unknown flag --overdue"}},
		"nothing to pause":              {[]string{"pause", ""}, []string{"<lane> is required", noDatabase}},
		"nothing to prune":              {[]string{"audit", "prune", "--schema", "pg_x"}, []string{"--before is required", noDatabase, badSchema}},
		"a time to prune before":        {[]string{"audit", "prune", "--before", "now"}, []string{`--before: "now" is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15`, noDatabase}},
		"no schema for a trail":         {[]string{"audit", "on", "--schema", "pg_x"}, []string{noDatabase, badSchema}},
		"a database without a port":     {[]string{"stats", "--database-url", "postgres://u:hunter2@h:port/x"}, []string{"--database-url: cannot parse `postgres://u:xxxxx@h:port/x`: invalid port"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMisuse(t, almanacAt(t, today, tt.args...), tt.want...)
		})
	}
}
