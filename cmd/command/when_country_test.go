package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestATimeForAWholeCountryIsShown(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--country", "us", "--at", "09:00", "--hours", "Mo-Fr 09:00-18:00", "--from", "2027-01-15", "-n", "2")
	want := `
  WALL TIME            ZONE          CLOCKS SHOW          OFFSET  INSTANT               REASON
  2027-01-15T09:00:00  America/Adak  2027-01-15T09:00:00  -10:00  2027-01-15T19:00:00Z  open in all 29 zones
  2027-01-16T09:00:00                                                                   gives way to the one on Monday 18 January because of closed hours, likewise until 2027-01-17T09:00:00
  2027-01-18T09:00:00  America/Adak  2027-01-18T09:00:00  -10:00  2027-01-18T19:00:00Z  open in all 29 zones
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
	for want, args := range map[string][]string{
		`America/Adak +2027-01-15T09:00:00 .* the first time that is open in all 29 zones`:                               {"--country", "US", "--at", "16:00", "--hours", "09:00-18:00"},
		`Europe/Kaliningrad +2027-01-15T08:30:00 .* never open in all \d+ zones, at most 30m outside`:                    {"--country", "RU", "--at", "10:00", "--hours", "09:00-18:00"},
		`Europe/Oslo +2027-01-16T08:00:00 .* moved from 23:30 to 08:00 because of quiet hours; open in the only zone`:    {"--country", "NO", "--at", "23:30", "--quiet", "22:00-08:00"},
		`2027-02-02T09:00:00 +Pacific/Auckland +2027-02-02T09:00:00 .* second working day of DE-BY; open in all 2 zones`: {"--country", "NZ", "--rule", "monthly", "--on", "2wd", "--working-days", "DE-BY", "--hours", "09:00-18:00"},
		`2027-01-15T09:00:00 +\d{4}-\d\d-\d\d +Europe/Oslo .* open in the only zone`:                                     {"--country", "NO", "--calendar", "persian", "--hours", "09:00-18:00"},
	} {
		r := almanacAt(t, today, append([]string{"when", "--from", "2027-01-15", "-n", "1"}, args...)...)
		if !regexp.MustCompile(want).MatchString(r.out + r.errs) {
			t.Errorf("%q: exit code %d, %s%s\nwant %s", args, r.code, r.out, r.errs, want)
		}
	}
	r = almanacAt(t, today, "when", "--country", "br", "--at", "10:00", "--hours", "09:00-18:00", "--from", "2027-01-15", "-n", "1", "--json")
	var a answer
	if err := json.Unmarshal([]byte(r.out), &a); err != nil || a.Country != "BR" || a.Zone != "" || len(a.Occurrences) != 1 || a.Occurrences[0].Zone != "America/Eirunepe" {
		t.Errorf("%+v, %v: %s", a, err, r.out)
	}
}

func TestACountryIsRefused(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--country: is "UK", which is no code of ISO 3166-1; did you mean "GB"?`: {"--country", "UK", "--hours", "09:00-18:00"},
		"--zone: has no meaning with --country":                                  {"--country", "NO", "--zone", "Europe/Oslo", "--hours", "09:00-18:00"},
		"--gap: has no meaning with --country":                                   {"--country", "NO", "--gap", "skip", "--hours", "09:00-18:00"},
		"--fold: has no meaning with --country":                                  {"--country", "NO", "--fold", "second", "--hours", "09:00-18:00"},
		"--spread: has no meaning with --country":                                {"--country", "NO", "--spread", "30m", "--user", "018f3a5c-7e2b-7c41-9d0e-5b6f7a8c9d0e", "--hours", "09:00-18:00"},
		"--country: needs --hours or --quiet":                                    {"--country", "NO"},
	} {
		checkMisuse(t, almanacAt(t, today, append([]string{"when"}, args...)...), want)
	}
	checkMisuse(t, almanacAt(t, today, "zone", "Europe/Oslo", "--country", "UK"),
		"<name>: has no meaning with --country", `--country: is "UK", which is no code of ISO 3166-1; did you mean "GB"?`)
}

func TestTheZonesOfACountryAreListed(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "zone", "--country", "nz")
	want := `
ZONE              NOW                  OFFSET  NEXT CHANGE
Pacific/Auckland  2026-03-08T06:00:00  +13:00  2026-04-04T14:00:00Z  +13:00 → +12:00  clocks go back from 03:00 to 02:00
Pacific/Chatham   2026-03-08T06:45:00  +13:45  2026-04-04T14:00:00Z  +13:45 → +12:45  clocks go back from 03:45 to 02:45
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
	if r := almanacAt(t, today, "zone", "--country", "JP"); !strings.Contains(r.out, "Asia/Tokyo  2026-03-08T02:00:00  +09:00  none within twenty years\n") {
		t.Errorf("%+v", r)
	}
	r = almanacAt(t, today, "zone", "--country", "jp", "--json")
	var listed countryZones
	if err := json.Unmarshal([]byte(r.out), &listed); err != nil || listed.Country != "JP" || len(listed.Zones) != 1 || listed.Zones[0] != (countryZone{"Asia/Tokyo", "2026-03-08T02:00:00", "+09:00", nil}) {
		t.Errorf("%+v, %v: %s", listed, err, r.out)
	}
}
