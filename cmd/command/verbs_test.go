package command

import (
	"strings"
	"testing"
)

func TestHelpOfTheVerbs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ args, want []string }{
		"of the program":    {[]string{"--help"}, []string{"\n    almanac users import people.csv ", "\n  users import --database-url=URL <file> [flags]\n", "\n  events list ", "\n  events show --database-url=URL <id> [flags]\n", "\n  events requeue --database-url=URL [<id> ...] [flags]\n", "\n  audit prune --before=INSTANT --database-url=URL [flags]\n", "\n  pauses ", "\n  bench ", "\n  completion <shell>", "130 when it was interrupted"}},
		"of users import":   {[]string{"users", "import", "-h"}, []string{"\nTheir events:\n  --[no-]birthday ", "csv, jsonl (default: by", "(default 4e6f0c62-93a5-4e6d-9d57-0f6a1f1f7c55)", "(default 1000)", "feb28, mar1, skip", "Backfill"}},
		"of events list":    {[]string{"events", "list", "-h"}, []string{"pending, processing, completed, failed", "-n, --limit=N ", "(default 50)"}},
		"of events show":    {[]string{"events", "show", "-h"}, []string{"--payload"}},
		"of events cancel":  {[]string{"events", "cancel", "-h"}, []string{"--reason=TEXT", "--end-series", "-n, --limit=N ", "--dry-run", "--yes", "--overdue", "exits with 1 when any event was refused", "command has no handlers, so a program that has the handler plans that event"}},
		"of events run-now": {[]string{"events", "run-now", "-h"}, []string{"--overdue", "--yes"}},
		"of events requeue": {[]string{"events", "requeue", "-h"}, []string{"--due-until", "a new event with the same"}},
		"of pause":          {[]string{"pause", "-h"}, []string{"almanac pause BIRTHDAY"}},
		"of audit on":       {[]string{"audit", "on", "-h"}, []string{"an insert per step"}},
		"of bench":          {[]string{"bench", "-h"}, []string{"almanac_bench_", "(default 20000)", "(default 200)", "(default 1000)", "(default 2m)"}},
		"of completion":     {[]string{"completion", "-h"}, []string{"bash, zsh, fish", "source <(almanac completion bash)"}},
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
			[]string{"events", "list", "--status", "done", "--user", "7", "--due-from", "now", "--due-until", "2026-02-29", "--overdue", "-5m", "-n", "0", "--after", "x", "--schema", "pg_x"},
			[]string{
				`--status: "done" is not one of pending, processing, completed, failed, cancelled`, `--user: "7" is not a UUID`,
				`--due-from: "now" is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15`, `--due-until: "2026-02-29" is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15`,
				`--overdue: "-5m" is not a duration such as 90s or 5m`, `--limit: "0" is not a number from 1 to 1000000`, `--after: "x" is not where a list ended`, noDatabase, badSchema,
			},
		},
		"everything about events show": {[]string{"events", "show", "7", "--schema", "pg_x"}, []string{`<id>: "7" is not a UUID`, noDatabase, badSchema}},
		"no id to show":                {[]string{"events", "show", ""}, []string{"<id> is required", noDatabase}},
		"everything about events cancel": {
			[]string{"events", "cancel", "7", "--user", "8", "--overdue", "x", "--limit", "0", "--schema", "pg_x"},
			[]string{
				`<id>: "7" is not a UUID`, "<id>: does not go with filters", `--user: "8" is not a UUID`, `--overdue: "x" is not a duration such as 90s or 5m`,
				`--limit: "0" is not a number from 1 to 1000000`, noDatabase, badSchema,
			},
		},
		"nothing to run now":            {[]string{"events", "run-now"}, []string{"<id> or a filter is required", noDatabase}},
		"filters without a yes":         {[]string{"events", "requeue", "--type", "A"}, []string{"--dry-run or --yes is required with filters", noDatabase}},
		"a yes and a dry run":           {[]string{"events", "cancel", "--overdue", "0s", "--yes", "--dry-run"}, []string{"--dry-run: does not go with --yes", noDatabase}},
		"a dry run of ids":              {[]string{"events", "cancel", graceID, "--dry-run"}, []string{"--dry-run: goes with filters only", noDatabase}},
		"a limit of ids":                {[]string{"events", "cancel", graceID, "--limit", "1"}, []string{"--limit: goes with filters only", noDatabase}},
		"failed events are not overdue": {[]string{"events", "requeue", "--overdue", "0s"}, []string{"unknown flag --overdue"}},
		"nothing to pause":              {[]string{"pause", ""}, []string{"<type> is required", noDatabase}},
		"nothing to prune":              {[]string{"audit", "prune", "--schema", "pg_x"}, []string{"--before is required", noDatabase, badSchema}},
		"a time to prune before":        {[]string{"audit", "prune", "--before", "now"}, []string{`--before: "now" is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15`, noDatabase}},
		"no schema for a trail":         {[]string{"audit", "on", "--schema", "pg_x"}, []string{noDatabase, badSchema}},
		"everything about bench": {[]string{"bench", "--events", "0", "--spread", "x", "--workers", "-1", "--limit", "0s"}, []string{
			`--events: "0" is not a number from 1 to 1000000`, `--spread: "x" is not a number from 1 to 10000`, `--workers: "-1" is not a number from 1 to 10000`,
			`--limit: "0s" is not a duration such as 90s or 2m`, noDatabase,
		}},
		"a database without a port": {[]string{"bench", "--database-url", "postgres://u:hunter2@h:port/x"}, []string{"--database-url: cannot parse `postgres://u:xxxxx@h:port/x`: invalid port"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMisuse(t, almanacAt(t, today, tt.args...), tt.want...)
		})
	}
}
