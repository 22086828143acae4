package command

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestABirthdayByAnotherCalendarShowsBothDates(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "Asia/Jerusalem", "--calendar", "hebrew", "--rule", "yearly", "--on", "05L-08", "--from", "2026-01-01", "-n", "3")
	want := `
  WALL TIME            HEBREW       CLOCKS SHOW          OFFSET  INSTANT               REASON
  2026-02-25T09:00:00  5786-06-08   2026-02-25T09:00:00  +02:00  2026-02-25T07:00:00Z  8 Adar I moved to 8 Adar
  2027-02-15T09:00:00  5787-05L-08  2027-02-15T09:00:00  +02:00  2027-02-15T07:00:00Z  exact
  2028-03-06T09:00:00  5788-06-08   2028-03-06T09:00:00  +02:00  2028-03-06T07:00:00Z  8 Adar I moved to 8 Adar
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
	r = almanacAt(t, today, "when", "--zone", "Asia/Jerusalem", "--calendar", "hebrew", "--rule", "yearly", "--on", "05L-08", "--missing-month", "backward", "--from", "2026-01-01", "-n", "1")
	if r.code != exitOK || !strings.Contains(r.out, "  2026-01-26T09:00:00  5786-05-08 ") || !strings.Contains(r.out, "  8 Adar I moved to 8 Shevat\n") {
		t.Errorf("exit code %d, %q:\n%s", r.code, r.errs, r.out)
	}
	r = almanacAt(t, today, "when", "--zone", "Asia/Jerusalem", "--calendar", "hebrew", "--rule", "yearly", "--on", "03-30", "--missing-day", "backward", "--from", "2029-01-01", "-n", "1")
	if r.code != exitOK || !strings.Contains(r.out, "  30 Kislev moved to 29 Kislev\n") {
		t.Errorf("exit code %d, %q:\n%s", r.code, r.errs, r.out)
	}
	r = almanacAt(t, today, "when", "--zone", "Asia/Shanghai", "--calendar", "chinese", "--rule", "RSCALE=CHINESE;FREQ=YEARLY;BYMONTH=8;BYMONTHDAY=5", "--from", "2027-01-01", "-n", "1", "--json")
	var a answer
	if err := json.Unmarshal([]byte(r.out), &a); err != nil || a.Calendar != "chinese" || len(a.Occurrences) != 1 ||
		a.Occurrences[0].Key != "2027-08-05" || a.Occurrences[0].Day != "2027-08-05" || a.Occurrences[0].Wall != "2027-09-05T09:00:00" {
		t.Errorf("%+v, %v: %s", a, err, r.out)
	}
	r = almanacAt(t, today, "when", "--zone", "UTC", "--calendar", "persian", "--rule", "daily", "--from", "2120-03-20", "-n", "2")
	if r.code != exitOK || !strings.Contains(r.out, "1498-12-30") || !strings.Contains(r.out, "2120-03-21T09:00:00") {
		t.Errorf("exit code %d, %q:\n%s", r.code, r.errs, r.out)
	}
	r = almanacAt(t, today, "when", "--zone", "Asia/Seoul", "--calendar", "dangi", "--rule", "yearly", "--on", "01-01", "--from", "2050-01-01", "-n", "2")
	if r.code != exitOK || strings.Count(r.out, "  exact\n") != 1 || strings.Count(r.out, "  exact; provisional, because not all days of the calendar are known yet\n") != 1 {
		t.Errorf("exit code %d, %q:\n%s", r.code, r.errs, r.out)
	}
}

func TestAnotherCalendarIsRefused(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--calendar: "islamic" only approximates the sighting of the moon`:              {"--calendar", "islamic", "--rule", "yearly"},
		`--on: "02-29-01" is not of the form`:                                           {"--calendar", "hebrew", "--rule", "yearly", "--on", "02-29-01"},
		`--on: "5774-05L-08" is not a day of the year such as 05L-08`:                   {"--calendar", "hebrew", "--rule", "yearly", "--on", "5774-05L-08"},
		"--missing-month: has no meaning without --rule yearly and --calendar":          {"--rule", "yearly", "--missing-month", "skip"},
		"--missing-day: has no meaning without --rule yearly and --calendar":            {"--calendar", "hebrew", "--rule", "daily", "--missing-day", "skip"},
		`no year of the calendar hebrew has a month 2 with a day 31`:                    {"--calendar", "hebrew", "--rule", "yearly", "--on", "02-31"},
		`--rule: is monthly by another calendar, which needs an RRULE: RSCALE=HEBREW;`:  {"--calendar", "hebrew", "--rule", "monthly"},
		`RSCALE="HEBREW" is not GREGORIAN, CHINESE`:                                     {"--calendar", "chinese", "--rule", "RSCALE=HEBREW;FREQ=YEARLY"},
		`--rule: "RSCALE=HEBREW;FREQ=YEARLY" is invalid: RSCALE="HEBREW" is not GREGOR`: {"--rule", "RSCALE=HEBREW;FREQ=YEARLY"},
	} {
		r := almanacAt(t, today, append([]string{"when", "--zone", "UTC"}, args...)...)
		if r.code != exitUsage || !strings.Contains(r.errs, want) {
			t.Errorf("%q: exit code %d, %s; want %q", args, r.code, r.errs, want)
		}
	}
}
