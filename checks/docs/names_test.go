package docs_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/almanac-go/almanac/calendar"
)

// Each row of the table of refused names says what they suggest, name by name; where
// there are fewer suggestions than names, the last one counts for the rest.
func TestTheTableOfRefusedNamesIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("clocks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| refused | why | suggested |\n| --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := regexp.MustCompile("`([^`]+)`")
	names := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		suggested := quoted.FindAllStringSubmatch(cells[3], -1)
		for i, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
			names++
			want := ""
			if len(suggested) > 0 {
				want = suggested[min(i, len(suggested)-1)][1]
			}
			_, err := calendar.LoadTimezone(name[1])
			if refused := (*calendar.InvalidTimezoneError)(nil); !errors.As(err, &refused) || refused.Suggestion != want {
				t.Errorf("LoadTimezone(%q): %v; clocks.md says that it suggests %q", name[1], err, want)
			}
		}
	}
	if names < 10 {
		t.Errorf("%d names in the table of refused names", names)
	}
}
