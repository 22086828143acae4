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
	first, none := calendar.Date{Year: 2026, Month: 3, Day: 7}, workCalendar(t, "TEST")
	for text, want := range map[calendar.RuleText]string{
		{Rule: "weekly", At: "25:00", On: "mon,x", Every: "0", Before: "-1", Quiet: "8"}: "at every before on quiet",
		{Hours: "Mo-Xx 9-18; Tu", Convention: "sideways"}:                                "hours hours convention",
		{Hours: "Mo-Fr 09:00-18:00", Quiet: "22:00-08:00"}:                               "hours",
		{Quiet: "22:00-08:00", Convention: "following"}:                                  "convention",
		{Rule: "once", On: "mon", Every: "2"}:                                            "on every",
		{Rule: "* * * * *", At: "09:00"}:                                                 "at",
		{Rule: "fortnightly"}:                                                            "rule",
		{Rule: "FREQ=DAILY;BYMONTHDAY=1" + strings.Repeat(",1", 500)}:                    "rule",
		{Rule: "monthly", On: "32"}:                                                      "rule",
		{Rule: "yearly", On: "02-30"}:                                                    "on",
		{Rule: "monthly", On: "3wd", Before: "2wd"}:                                      "before on",
		{Rule: "monthly", On: "wd", Before: "wd", WorkDays: none}:                        "before on",
		{Rule: "yearly", On: "3wd", Before: "-1wd", WorkDays: none}:                      "before on",
		{Rule: "monthly", On: "32wd", WorkDays: none}:                                    "rule",
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

func TestARuleTextKeepsWithinWorkingDays(t *testing.T) {
	t.Parallel()
	first := calendar.Date{Year: 2026, Month: 10, Day: 25} // a Sunday
	for text, want := range map[calendar.RuleText]string{
		{WorkDays: workCalendar(t, "TEST", "2026-10-26 holiday")}:                                            "2026-10-27 2026-10-27T09:00",
		{WorkDays: workCalendar(t, "TEST"), Convention: "Preceding"}:                                         "2026-10-26 2026-10-26T09:00",
		{Hours: "Mo-Fr 10:00-18:00", Rule: "weekly", On: "sun"}:                                              "2026-10-25 2026-10-26T10:00",
		{Rule: "monthly", On: "31", WorkDays: workCalendar(t, "TEST"), Convention: "modified-following"}:     "2026-10 2026-10-30T09:00",
		{Rule: "weekly", On: "sun", WorkDays: workCalendar(t, "TEST"), Quiet: "22:00-08:00", At: "07:00"}:    "2026-10-25 2026-10-26T08:00",
		{Rule: "weekly", On: "mon", Before: "2", WorkDays: workCalendar(t, "TEST"), Convention: "preceding"}: "2026-11-02 2026-10-30T09:00",
		{Rule: "monthly", On: "3wd", WorkDays: workCalendar(t, "TEST", "2026-11-02 holiday")}:                "2026-11 2026-11-05T09:00",
		{Rule: "monthly", On: "-1WD", WorkDays: workCalendar(t, "TEST", "2026-10-30 holiday")}:               "2026-10 2026-10-29T09:00",
		{Rule: "monthly", On: "3", Before: "3wd", WorkDays: workCalendar(t, "TEST", "2026-11-02 holiday")}:   "2026-11 2026-10-28T09:00",
	} {
		rule, err := text.Parse(first)
		require.NoError(t, err)
		require.Equal(t, []string{want}, listedAfter(t, rule, "2026-10-01T00:00:00", 1), "%+v", text)
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
	window, err := calendar.ParseQuietHours("22:00-08:00")
	fmt.Println(window, err)
	// Output: Mo-Su 08:00-22:00 <nil>
}
