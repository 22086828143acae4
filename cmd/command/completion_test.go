package command

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// script prints the script for a shell.
func script(t *testing.T, shell string) string {
	t.Helper()
	r := almanacAt(t, today, "completion", shell)
	if r.code != exitOK || r.errs != "" {
		t.Fatalf("exit code %d: %s", r.code, r.errs)
	}
	return r.out
}

// complete has bash complete a line, of which the words are given as bash has them,
// and returns what it offers.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	bash := exec.CommandContext(t.Context(), "bash", append([]string{"--norc", "-euc", script(t, "bash") + `
		COMP_WORDS=(almanac "$@")
		COMP_CWORD=$#
		_almanac || true
		printf '%s\n' "${COMPREPLY[@]-}"
	`, "bash"}, words...)...)
	var errs bytes.Buffer
	bash.Stderr = &errs
	out, err := bash.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("%v: %s", err, errs.String())
	}
	return strings.Fields(string(out))
}

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ line, want string }{
		"commands":                          {"|", "--help -h --version when zone zones migrate doctor stats shards users events why backfill broadcasts roll-out rehearse pause resume pauses lane lanes audit completion"},
		"the beginning of a command":        {"us|", "users"},
		"a command of a command":            {"users |", "--help -h --version list find show add edit delete import opt-out opt-in preview reschedule"},
		"orders of events":                  {"events list --up|", "--upcoming"},
		"forms of a list":                   {"users list --c|", "--csv"},
		"flags of a profile":                {"users edit ada@example.com --e|", "--email --external-id"},
		"zones of users":                    {"users add --timezone Asia/Tok|", "Asia/Tokyo"},
		"a user is not known":               {"users show a|", ""},
		"changes of events":                 {"events r|", "run-now requeue"},
		"what filters need":                 {"events cancel --type A --y|", "--yes"},
		"flags":                             {"zone --d|", "--database-url"},
		"flags after others":                {"when --zone UTC --ga|", "--gap"},
		"flags after an argument":           {"users import people.csv --form|", "--format"},
		"negative flags":                    {"users import --no|", "--no-birthday --no-events"},
		"values":                            {"when --gap |", "forward backward boundary skip reject"},
		"the beginning of a value":          {"users import --format j|", "jsonl"},
		"a value after an equals sign":      {"when --gap = b|", "backward boundary"},
		"a value that is not typed yet":     {"events list --status = |", "pending processing completed failed cancelled"},
		"zones":                             {"when --zone Europe/Du|", "Europe/Dublin"},
		"an argument":                       {"completion f|", "fish"},
		"files, which bash knows":           {"zones reconcile --zoneinfo |", ""},
		"numbers, which have no completion": {"when -n |", ""},
		"a value that is like a command":    {"when --rule zones --fo|", "--fold"},
		"an unknown command":                {"nonsense us|", "users"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, ok := strings.CutSuffix(tt.line, "|")
			if !ok {
				t.Fatal("no cursor")
			}
			if got := strings.Join(complete(t, strings.Split(line, " ")...), " "); got != tt.want {
				t.Errorf("%q offers %q, want %q", tt.line, got, tt.want)
			}
		})
	}
}

// Each command and each of its flags is in each script.
func TestScriptsKnowEveryCommandAndFlag(t *testing.T) {
	t.Parallel()
	for shell, known := range map[string][]string{
		"bash": {"'users:import') at='users import' ;;", "'events list:--status') words='pending processing completed failed cancelled'; return ;;", "complete -o default -F _almanac almanac"},
		"zsh":  {"#compdef almanac\n", "bashcompinit", "'users:import') at='users import' ;;"},
		"fish": {
			"\t\t\tcase 'users import'\n\t\t\t\tset at \"$next\"\n",
			"complete -c almanac -n '__almanac_at users' -f -a import -d 'Store the users of a file, with their first events.'\n",
			"complete -c almanac -n '__almanac_at users' -f -a find -d 'Find users by name, e-mail address or id.'\n",
			"complete -c almanac -n '__almanac_at users delete' -l erase-now -d ",
			"complete -c almanac -n '__almanac_at events list' -l status -r -f -a 'pending processing completed failed cancelled' -d ",
			"complete -c almanac -n '__almanac_at when' -l count -s n -r -d ",
			"complete -c almanac -n '__almanac_at completion' -f -a 'bash zsh fish'\n",
		},
	} {
		text := script(t, shell)
		for _, want := range known {
			if !strings.Contains(text, want) {
				t.Errorf("no %q for %s", want, shell)
			}
		}
		if strings.Contains(text, "${gap}") || strings.Contains(text, "# values") {
			t.Errorf("something is not filled in for %s", shell)
		}
	}
}

func TestOtherShellsAreRefused(t *testing.T) {
	t.Parallel()
	checkMisuse(t, almanacAt(t, today, "completion", "tcsh"), `<shell>: "tcsh" is not one of bash, zsh, fish`)
	checkMisuse(t, almanacAt(t, today, "completion"), `expected "<shell>"`)
}
