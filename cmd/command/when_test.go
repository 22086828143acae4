package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAGapIsMarked(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "America/New_York", "--at", "02:30", "--from", "2026-03-07", "--rule", "daily")
	want := `
     WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
     2026-03-07T02:30:00  2026-03-07T02:30:00  -05:00  2026-03-07T07:30:00Z  exact
gap  2026-03-08T02:30:00  2026-03-08T03:30:00  -04:00  2026-03-08T07:30:00Z  moved forward 60 min because clocks skip 02:00–03:00
     2026-03-09T02:30:00  2026-03-09T02:30:00  -04:00  2026-03-09T06:30:00Z  exact
     2026-03-10T02:30:00  2026-03-10T02:30:00  -04:00  2026-03-10T06:30:00Z  exact
     2026-03-11T02:30:00  2026-03-11T02:30:00  -04:00  2026-03-11T06:30:00Z  exact
     2026-03-12T02:30:00  2026-03-12T02:30:00  -04:00  2026-03-12T06:30:00Z  exact
     2026-03-13T02:30:00  2026-03-13T02:30:00  -04:00  2026-03-13T06:30:00Z  exact
     2026-03-14T02:30:00  2026-03-14T02:30:00  -04:00  2026-03-14T06:30:00Z  exact
     2026-03-15T02:30:00  2026-03-15T02:30:00  -04:00  2026-03-15T06:30:00Z  exact
     2026-03-16T02:30:00  2026-03-16T02:30:00  -04:00  2026-03-16T06:30:00Z  exact
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
}

func TestAFoldIsMarked(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "america/new_york", "--at", "01:30", "--from", "2025-11-02", "-n", "2")
	want := `
      WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
fold  2025-11-02T01:30:00  2025-11-02T01:30:00  -04:00  2025-11-02T05:30:00Z  first of two showings: clocks go back from 02:00 to 01:00
      2025-11-03T01:30:00  2025-11-03T01:30:00  -05:00  2025-11-03T06:30:00Z  exact
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
}

func TestQuietHoursAreExplained(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "Europe/Paris", "--at", "23:30", "--quiet", "22:00-08:00", "--from", "2026-03-28", "-n", "2")
	want := `
  WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
  2026-03-29T08:00:00  2026-03-29T08:00:00  +02:00  2026-03-29T06:00:00Z  moved from 23:30 to 08:00 because of quiet hours
  2026-03-30T08:00:00  2026-03-30T08:00:00  +02:00  2026-03-30T06:00:00Z  moved from 23:30 to 08:00 because of quiet hours
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
}

func TestWorkingDaysAndHoursAreExplained(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "de-by.txt")
	text := "name DE-BY\nrelease 2026-03-01\nuntil 2026-12-31\n2026-04-03 holiday Good Friday\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := almanacAt(t, today, "when", "--zone", "Europe/Berlin", "--rule", "weekly", "--on", "fri", "--at", "19:00", "--from", "2026-04-01", "-n", "2",
		"--working-days", file, "--convention", "preceding", "--hours", "Mo-Fr 09:00-18:00")
	want := `
  WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
  2026-04-02T09:00:00  2026-04-02T09:00:00  +02:00  2026-04-02T07:00:00Z  moved from Friday 3 April 19:00 to Thursday 2 April 09:00 because of Good Friday
  2026-04-10T09:00:00  2026-04-10T09:00:00  +02:00  2026-04-10T07:00:00Z  moved from 19:00 to 09:00 because of closed hours
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
	if err := os.WriteFile(file, []byte(text+"2026-02-30 holiday\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--hours: is invalid: rule 1 ":                                     {"--hours", "Mo-Xx 09:00-18:00"},
		"--convention: has no meaning without":                             {"--convention", "following"},
		`--convention: "sideways" is not`:                                  {"--convention", "sideways", "--hours", "09:00-18:00"},
		"--working-days: is no code such as DE-BY, and no file: open ":     {"--working-days", filepath.Join(t.TempDir(), "none"), "--convention", "following"},
		`--working-days: ` + file + `: line 5 "2026-02-30"`:                {"--working-days", file},
		"--working-days: is no code such as DE-BY, and no file: open DE: ": {"--working-days", "DE"},
		"--holidays: is no code such as DE-BY, and no file: open DE: ":     {"--holidays", "DE", "--hours", "09:00-18:00"},
	} {
		r := almanacAt(t, today, append([]string{"when", "--zone", "Europe/Berlin"}, args...)...)
		if r.code != exitUsage || !strings.HasPrefix(r.errs, "almanac: "+want) {
			t.Errorf("exit code %d, %q; want %q", r.code, r.errs, want)
		}
	}
}

// The hours say which days of the week are open, so the weekend of the holidays closes nothing.
func TestHoursThatAreClosedOnHolidaysAreExplained(t *testing.T) {
	t.Parallel()
	hours := []string{"when", "--zone", "Europe/Berlin", "--holidays", "DE-BY", "--hours", "Mo-Fr 09:00-18:00; Sa 10:00-14:00"}
	r := almanacAt(t, today, append(hours, "--rule", "weekly", "--on", "fri", "--from", "2026-03-27", "-n", "3")...)
	want := `
  WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
  2026-03-27T09:00:00  2026-03-27T09:00:00  +01:00  2026-03-27T08:00:00Z  exact
  2026-04-04T10:00:00  2026-04-04T10:00:00  +02:00  2026-04-04T08:00:00Z  moved from Friday 3 April 09:00 to Saturday 4 April 10:00 because of Good Friday
  2026-04-10T09:00:00  2026-04-10T09:00:00  +02:00  2026-04-10T07:00:00Z  exact
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
	checkMisuse(t, almanacAt(t, today, "when", "--zone", "Europe/Berlin", "--holidays", "DE-BY", "--keep-day", "--each", "--at", "25:00"),
		`--at: "25:00" is not a time of day: hours are 00 to 23, minutes and seconds 00 to 59`,
		"--holidays: needs --hours", "--keep-day: needs --hours or --quiet", "--each: needs --hours, --quiet or --working-days")
}

func TestATimeThatKeepsItsDayIsExplained(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "Europe/Berlin", "--hours", "09:00-18:00", "--keep-day", "--at", "19:00", "--from", "2026-05-01", "-n", "1")
	want := `
  WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
  2026-05-01T09:00:00  2026-05-01T09:00:00  +02:00  2026-05-01T07:00:00Z  moved from 19:00 to 09:00 because of closed hours
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
}

func TestTimesThatMeetAreExplained(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "Europe/Berlin", "--working-days", "DE-BY", "--each", "--from", "2026-05-08", "-n", "4")
	want := `
  WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
  2026-05-08T09:00:00  2026-05-08T09:00:00  +02:00  2026-05-08T07:00:00Z  exact
  2026-05-11T09:00:00  2026-05-11T09:00:00  +02:00  2026-05-11T07:00:00Z  moved from Saturday 9 May to Monday 11 May because of the weekend
  2026-05-11T09:00:01  2026-05-11T09:00:01  +02:00  2026-05-11T07:00:01Z  moved from Sunday 10 May 09:00 to Monday 11 May 09:00:01 because of the weekend
  2026-05-11T09:00:02  2026-05-11T09:00:02  +02:00  2026-05-11T07:00:02Z  moved from 09:00 to 09:00:02 because of an earlier one
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
}

func TestWorkingDaysAreCounted(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "Europe/Berlin", "--rule", "monthly", "--on", "3wd", "--before", "2wd", "--from", "2026-04-01", "-n", "1", "--working-days", "DE-BY")
	want := `
  WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
  2026-04-01T09:00:00  2026-04-01T09:00:00  +02:00  2026-04-01T07:00:00Z  6 days before 7 April; third working day of DE-BY; 2 working days of DE-BY
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
	checkMisuse(t, almanacAt(t, today, "when", "--zone", "Europe/Berlin", "--rule", "monthly", "--on", "3wd", "--before", "2wd"),
		`--before: "2wd" has no meaning without working days`, `--on: "3wd" has no meaning without working days`)
}

func TestHolidaysOfARegionAreExplained(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "Europe/Berlin", "--rule", "monthly", "--on", "31", "--from", "2026-05-01", "-n", "1",
		"--working-days", "DE-BY", "--convention", "modified-following")
	want := `
  WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
  2026-05-29T09:00:00  2026-05-29T09:00:00  +02:00  2026-05-29T07:00:00Z  moved from Sunday 31 May to Friday 29 May because of the weekend
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
}

func TestAnnouncementsAreExplained(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "Europe/Paris", "--rule", "monthly", "--on", "1", "--before", "3", "--from", "2026-02-27", "-n", "2")
	want := `
  WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
  2026-03-29T09:00:00  2026-03-29T09:00:00  +02:00  2026-03-29T07:00:00Z  3 days before 1 April
  2026-04-28T09:00:00  2026-04-28T09:00:00  +02:00  2026-04-28T07:00:00Z  3 days before 1 May
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
	r = almanacAt(t, today, "when", "--zone", "Europe/Paris", "--before", "x")
	if want := `almanac: --before: "x" is not a whole number from 0 to 10000`; r.code != exitUsage || !strings.HasPrefix(r.errs, want) {
		t.Errorf("exit code %d, %q; want %q", r.code, r.errs, want)
	}
}

// instants returns what when finds, to the minute, and its last line if that is no
// occurrence.
func instants(t *testing.T, args ...string) (found []string, end string) {
	t.Helper()
	args = append([]string{"when"}, args...)
	shown, asJSON := almanacAt(t, today, args...), almanacAt(t, today, append(args, "--json")...)
	if shown.code != exitOK || asJSON.code != exitOK {
		t.Fatalf("almanac %q: exit codes %d and %d: %s%s", args, shown.code, asJSON.code, shown.errs, asJSON.errs)
	}
	var a answer
	if err := json.Unmarshal([]byte(asJSON.out), &a); err != nil {
		t.Fatalf("almanac %q: %v", args, err)
	}
	for _, o := range a.Occurrences {
		if !strings.Contains(shown.out, o.Instant.Format(time.RFC3339)) {
			t.Errorf("almanac %q: %s is in JSON only", args, o.Instant)
		}
		found = append(found, o.Instant.Format("2006-01-02T15:04"))
	}
	if lines := strings.Split(strings.TrimSpace(shown.out), "\n"); !strings.Contains(lines[len(lines)-1], "Z  ") {
		end = lines[len(lines)-1]
	}
	return found, end
}

func TestRules(t *testing.T) {
	t.Parallel()
	const never, again = "never from 2026-03-07 on", "and never again"
	tests := map[string]struct {
		args []string
		want string // the first three instants
		end  string
	}{
		"once":                          {[]string{"--rule", "once"}, "2026-03-07T09:00", again},
		"daily unless asked otherwise":  {nil, "2026-03-07T09:00 2026-03-08T09:00 2026-03-09T09:00", ""},
		"every ten days":                {[]string{"--rule", "Daily", "--every", "10", "--at", "23:59:59"}, "2026-03-07T23:59 2026-03-17T23:59 2026-03-27T23:59", ""},
		"weekly on the first day's day": {[]string{"--rule", "weekly"}, "2026-03-07T09:00 2026-03-14T09:00 2026-03-21T09:00", ""},
		"weekly on two days":            {[]string{"--rule", "weekly", "--on", "mon, Thursday"}, "2026-03-09T09:00 2026-03-12T09:00 2026-03-16T09:00", ""},
		"every other week":              {[]string{"--rule", "weekly", "--on", "FRI", "--every", "2"}, "2026-03-20T09:00 2026-04-03T09:00 2026-04-17T09:00", ""},
		"monthly on the first day's":    {[]string{"--rule", "monthly"}, "2026-03-07T09:00 2026-04-07T09:00 2026-05-07T09:00", ""},
		"monthly on the 31st":           {[]string{"--rule", "monthly", "--on", "31"}, "2026-03-31T09:00 2026-04-30T09:00 2026-05-31T09:00", ""},
		"monthly on a 31st that is":     {[]string{"--rule", "monthly", "--on", "31", "--month-end", "skip"}, "2026-03-31T09:00 2026-05-31T09:00 2026-07-31T09:00", ""},
		"monthly on the last day":       {[]string{"--rule", "monthly", "--on", "-1"}, "2026-03-31T09:00 2026-04-30T09:00 2026-05-31T09:00", ""},
		"yearly":                        {[]string{"--rule", "yearly"}, "2026-03-07T09:00 2027-03-07T09:00 2028-03-07T09:00", ""},
		"yearly on a leap day":          {[]string{"--rule", "yearly", "--on", "02-29"}, "2027-02-28T09:00 2028-02-29T09:00 2029-02-28T09:00", ""},
		"yearly on a leap day or later": {[]string{"--rule", "yearly", "--on", "02-29", "--leap-day", "mar1"}, "2027-03-01T09:00 2028-02-29T09:00 2029-03-01T09:00", ""},
		"yearly on a leap day that is":  {[]string{"--rule", "yearly", "--on", "02-29", "--leap-day", "skip"}, "2028-02-29T09:00 2032-02-29T09:00 2036-02-29T09:00", ""},
		"an RRULE":                      {[]string{"--rule", "FREQ=MONTHLY;BYDAY=-1FR", "--at", "17:00"}, "2026-03-27T17:00 2026-04-24T17:00 2026-05-29T17:00", ""},
		"an RRULE that ends":            {[]string{"--rule", "rrule:freq=daily;count=2"}, "2026-03-07T09:00 2026-03-08T09:00", again},
		"an RRULE that never happens":   {[]string{"--rule", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "", never},
		"a cron expression":             {[]string{"--rule", "*/30 8 * * mon-fri"}, "2026-03-09T08:00 2026-03-09T08:30 2026-03-10T08:00", ""},
		"a cron word":                   {[]string{"--rule", "@monthly"}, "2026-04-01T00:00 2026-05-01T00:00 2026-06-01T00:00", ""},
		"a cron expression without day": {[]string{"--rule", "0 0 30 2 *"}, "", never},
		"days before":                   {[]string{"--rule", "yearly", "--on", "03-15", "--before", "3", "--at", "18:30"}, "2026-03-12T18:30 2027-03-12T18:30 2028-03-12T18:30", ""},
		"days before a cron expression": {[]string{"--rule", "0 8 1 * *", "--before", "1", "--at", "18:30"}, "2026-03-31T18:30 2026-04-30T18:30 2026-05-31T18:30", ""},
		"a week before what ends":       {[]string{"--rule", "FREQ=WEEKLY;COUNT=3", "--before", "7"}, "2026-03-07T09:00 2026-03-14T09:00", again},
		"midnight of the first day":     {[]string{"--rule", "@hourly"}, "2026-03-07T00:00 2026-03-07T01:00 2026-03-07T02:00", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, end := instants(t, append([]string{"--zone", "UTC", "--from", "2026-03-07", "-n", "3"}, tt.args...)...)
			if got := strings.Join(found, " "); got != tt.want || end != tt.end {
				t.Errorf("when %q = %s %q, want %s %q", tt.args, got, end, tt.want, tt.end)
			}
		})
	}
}

func TestPoliciesForClocksThatChange(t *testing.T) {
	t.Parallel()
	gap := []string{"--at", "02:30", "--from", "2026-03-08"}
	fold := []string{"--at", "01:30", "--from", "2026-11-01"}
	tests := map[string]struct {
		args []string
		want string // the first instant
	}{
		"forward":  {append([]string{"--gap", "forward"}, gap...), "2026-03-08T07:30"},
		"backward": {append([]string{"--gap", "backward"}, gap...), "2026-03-08T06:30"},
		"boundary": {append([]string{"--gap", "boundary"}, gap...), "2026-03-08T07:00"},
		"skip":     {append([]string{"--gap", "skip"}, gap...), "2026-03-09T06:30"},
		"first":    {append([]string{"--fold", "first"}, fold...), "2026-11-01T05:30"},
		"second":   {append([]string{"--fold", "second"}, fold...), "2026-11-01T06:30"},
		"back to the day before, which is still the first day's": {
			[]string{"--zone", "America/Sao_Paulo", "--from", "2018-11-04", "--at", "00:15", "--gap", "backward"}, "2018-11-04T02:15",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found, _ := instants(t, append([]string{"-n", "1", "--zone", "America/New_York"}, tt.args...)...); !slices.Equal(found, []string{tt.want}) {
				t.Errorf("when %q = %q, want %q", tt.args, found, tt.want)
			}
		})
	}
}

func TestARejectedOccurrenceIsExplainedAfterEarlierOnes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"a gap":  {[]string{"--gap", "reject", "--at", "02:30", "--from", "2026-03-07"}, "clocks in America/New_York show 2026-03-08T02:30:00 never: clocks skip 02:00–03:00, which --gap reject refuses"},
		"a fold": {[]string{"--fold", "reject", "--at", "01:30", "--from", "2026-10-31"}, "clocks in America/New_York show 2026-11-01T01:30:00 twice: clocks go back from 02:00 to 01:00, which --fold reject refuses"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"when", "--zone", "America/New_York"}, tt.args...)
			r := almanacAt(t, today, args...)
			if r.code != exitFailed || r.errs != "almanac: "+tt.want+"\n" || strings.Count(r.out, "\n") != 2 {
				t.Errorf("%q: exit code %d, %q, want %d, %q and one occurrence:\n%s", args, r.code, r.errs, exitFailed, tt.want, r.out)
			}
			r = almanacAt(t, today, append(args, "--json")...)
			var a answer
			if err := json.Unmarshal([]byte(r.out), &a); err != nil || r.code != exitFailed || a.Error != tt.want || len(a.Occurrences) != 1 {
				t.Errorf("%q: exit code %d, %v, %+v", args, r.code, err, a)
			}
		})
	}
}

func TestTodayIsWhatTheZoneShows(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]string{"Pacific/Kiritimati": "2026-03-07T19:00", "UTC": "2026-03-07T09:00"} {
		if found, _ := instants(t, "--zone", zone, "-n", "1"); !slices.Equal(found, []string{want}) {
			t.Errorf("today in %s is %q, want %q", zone, found, want)
		}
	}
}

func TestJSONOfWhen(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "Asia/Calcutta", "--rule", "monthly", "--on", "30", "--from", "2026-02-01", "-n", "1", "--json")
	want := `{
  "zone": "Asia/Calcutta",
  "rule": "monthly",
  "from": "2026-02-01",
  "occurrences": [
    {
      "key": "2026-02",
      "wall": "2026-02-28T09:00:00",
      "named": "2026-02-30",
      "shown": "2026-02-28T09:00:00",
      "instant": "2026-02-28T03:30:00Z",
      "offset": "+05:30",
      "reading": "once",
      "reason": "30 February moved to 28 February"
    }
  ]
}
`
	if r != (result{exitOK, want, ""}) {
		t.Errorf("%+v, want:\n%s", r, want)
	}
	r = almanacAt(t, today, "when", "--zone", "UTC", "--rule", "0 0 30 2 *", "--from", "2026-01-01", "--json")
	if !strings.Contains(r.out, "\n  \"occurrences\": []\n") {
		t.Errorf("no empty list in %s", r.out)
	}
}

func TestNumberOfOccurrencesIsBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 1000} {
		if found, _ := instants(t, "--zone", "UTC", fmt.Sprintf("--count=%d", n)); len(found) != n {
			t.Errorf("%d of %d occurrences", len(found), n)
		}
	}
	for _, n := range []string{"0", "1001", "-1", "1e3", " "} {
		checkMisuse(t, almanacAt(t, today, "when", "--zone", "UTC", "-n", n), fmt.Sprintf("--count: %q is not a number from 1 to 1000", n))
	}
}

func TestInvalidRules(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ args, want []string }{
		"no day of the week":     {[]string{"--rule", "weekly", "--on", "mon,,x"}, []string{`--on: "" is not a day of the week such as mon`, `--on: "x" is not a day of the week such as mon`}},
		"no day of the month":    {[]string{"--rule", "monthly", "--on", "mon"}, []string{`--on: "mon" is not a day of the month such as 31 or -1`}},
		"no month is so long":    {[]string{"--rule", "monthly", "--on", "32"}, []string{`--rule: "monthly" is invalid: day 32 is neither between 1 and 31 nor between -28 and -1`}},
		"no day of the year":     {[]string{"--rule", "yearly", "--on", "02-30"}, []string{`--on: "02-30" is not a day of the year such as 02-29`}},
		"a day for daily":        {[]string{"--on", "mon"}, []string{"--on: has no meaning with daily"}},
		"a pace for once":        {[]string{"--rule", "once", "--every", "1"}, []string{"--every: has no meaning with once"}},
		"no RRULE":               {[]string{"--rule", "FREQ=DAILY;COUNT=0", "--on", "mon"}, []string{"--on: has no meaning with an RRULE", `--rule: "FREQ=DAILY;COUNT=0" is invalid: COUNT="0" is not a number from 1 to 10000`}},
		"no quiet hours":         {[]string{"--quiet", "22:00"}, []string{`--quiet: "22:00" is not two different times of day, such as 22:00-08:00`}},
		"empty quiet hours":      {[]string{"--quiet", "08:00-08:00", "--on", "mon"}, []string{"--on: has no meaning with daily", `--quiet: "08:00-08:00" is not two different times of day, such as 22:00-08:00`}},
		"a pace beyond the year": {[]string{"--every", "10000001"}, []string{`--every: "10000001" is not a whole number from 1 to 10000000`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMisuse(t, almanacAt(t, today, append([]string{"when", "--zone", "UTC"}, tt.args...)...), tt.want...)
		})
	}
}

// The point of the window is that of the formula in the documentation of almanac.Series.Spread.
func TestASpreadIsShown(t *testing.T) {
	t.Parallel()
	const user = "018f3a5c-7e2b-7c41-9d0e-5b6f7a8c9d0e"
	r := almanacAt(t, today, "when", "--zone", "Europe/Paris", "--from", "2026-03-28", "-n", "2", "--spread", "30m", "--user", user)
	want := `
  WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               STARTS                REASON
  2026-03-28T09:00:00  2026-03-28T09:00:00  +01:00  2026-03-28T08:00:00Z  2026-03-28T08:07:19Z  exact
  2026-03-29T09:00:00  2026-03-29T09:00:00  +02:00  2026-03-29T07:00:00Z  2026-03-29T07:07:19Z  exact
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
	r = almanacAt(t, today, "when", "--zone", "Europe/Paris", "--spread", "25h", "--user", "4711")
	for _, want := range []string{"--spread: 25h0m0s is not between 0 and 24h", "--user: a user id is required"} {
		if r.code != exitUsage || !strings.Contains(r.errs, want) {
			t.Errorf("exit code %d, %q; want %q", r.code, r.errs, want)
		}
	}
}
