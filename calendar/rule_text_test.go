package calendar_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
)

// The command and the dashboard test the rules themselves; here every field is wrong at once.
func TestARuleTextNamesEveryWrongField(t *testing.T) {
	t.Parallel()
	first := calendar.Date{Year: 2026, Month: 3, Day: 7}
	for text, want := range map[calendar.RuleText]string{
		{Rule: "weekly", At: "25:00", On: "mon,x", Every: "0", Before: "-1", Quiet: "8"}: "at every before on quiet",
		{Rule: "once", On: "mon", Every: "2"}:                                            "on every",
		{Rule: "* * * * *", At: "09:00"}:                                                 "at",
		{Rule: "fortnightly"}:                                                            "rule",
		{Rule: "FREQ=DAILY;BYMONTHDAY=1" + strings.Repeat(",1", 500)}:                    "rule",
		{Rule: "monthly", On: "32"}:                                                      "rule",
		{Rule: "yearly", On: "02-30"}:                                                    "on",
	} {
		_, err := text.Parse(first)
		var bad *calendar.InputError
		require.ErrorAs(t, err, &bad, "%+v", text)
		var fields []string
		for _, p := range bad.Problems {
			fields = append(fields, p.Field)
		}
		require.Equal(t, want, strings.Join(fields, " "), "%+v: %v", text, err)
	}
}

func ExampleRuleText_Parse() {
	text := calendar.RuleText{Rule: "monthly", On: "-1", At: "18:30"}
	rule, err := text.Parse(calendar.Date{Year: 2026, Month: 3, Day: 7})
	if err != nil {
		panic(err)
	}
	slot, err := rule.After(calendar.WallTime{}, calendar.Policies{})
	if err != nil {
		panic(err)
	}
	fmt.Println(slot.Wall)
	// Output: 2026-03-31T18:30:00
}

func ExampleParseQuietHours() {
	quiet, err := calendar.ParseQuietHours("22:00-08:00")
	if err != nil {
		panic(err)
	}
	fmt.Println(quiet.From, quiet.Until)
	// Output: 22:00:00 08:00:00
}
