package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
)

// berlin are the rules of Central Europe.
const berlin = "CET-1CEST,M3.5.0,M10.5.0/3"

func TestAZoneIsExplained(t *testing.T) {
	t.Parallel()
	dir := zoneDir(t, "2026a", "Europe/Berlin", berlin)
	r := almanacAt(t, today, "zone", "europe/BERLIN", "--zoneinfo", dir, "--changes", "3")
	want := `
zone       Europe/Berlin
zone data  release 2026a, rules 479e8260aeb00685
now        2026-03-07T18:00:00, UTC+01:00
change     2026-03-29T01:00:00Z  +01:00 → +02:00  clocks skip 02:00–03:00
change     2026-10-25T01:00:00Z  +02:00 → +01:00  clocks go back from 03:00 to 02:00
change     2027-03-28T01:00:00Z  +01:00 → +02:00  clocks skip 02:00–03:00
database   not asked; give --database-url
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
}

func TestRulesOfOtherZoneDataAreShown(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		footer string
		want   []string
	}{
		"two weeks earlier": {"CET-1CEST,M3.3.0,M10.5.0/3", []string{"change     2026-03-15T01:00:00Z  +01:00 → +02:00  clocks skip 02:00–03:00\n"}},
		"for good":          {"<+02>-2", []string{"now        2026-03-07T19:00:00, UTC+02:00\n", "change     none within twenty years\n"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := almanacAt(t, today, "zone", "Europe/Berlin", "--zoneinfo", zoneDir(t, "2026b", "Europe/Berlin", tt.footer))
			for _, want := range append(tt.want, "zone data  release 2026b, rules ") {
				if r.code != exitOK || !strings.Contains(r.out, want) {
					t.Errorf("no %q in exit code %d:\n%s%s", want, r.code, r.errs, r.out)
				}
			}
			if strings.Contains(r.out, "rules 479e8260aeb00685") {
				t.Errorf("the fingerprint is that of other rules:\n%s", r.out)
			}
		})
	}
}

func TestNamesOfZones(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		name string
		want []string
	}{
		"a link":        {"asia/calcutta", []string{"zone       Asia/Calcutta\ncanonical  Asia/Kolkata\nzone data "}},
		"its target":    {"Asia/Kolkata", []string{"zone       Asia/Kolkata\nalso       Asia/Calcutta\nzone data "}},
		"a fixed zone":  {"Etc/GMT+5", []string{"UTC-05:00\nchange     none within twenty years\n"}},
		"UTC":           {"utc", []string{"zone       UTC\ncanonical  Etc/UTC\nalso       Etc/UCT\n", "zone data  of an unknown release, rules "}},
		"in lower case": {"europe/dublin", []string{"zone       Europe/Dublin\nalso       Eire\nzone data ", "change     2026-03-29T01:00:00Z"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := almanacAt(t, today, "zone", tt.name)
			for _, want := range tt.want {
				if r.code != exitOK || !strings.Contains(r.out, want) {
					t.Errorf("no %q in exit code %d:\n%s%s", want, r.code, r.errs, r.out)
				}
			}
		})
	}
}

func TestWithoutChangesNoneAreShown(t *testing.T) {
	t.Parallel()
	if r := almanacAt(t, today, "zone", "Europe/Berlin", "--changes", "0"); r.code != exitOK || strings.Contains(r.out, "change") {
		t.Errorf("%+v", r)
	}
}

// In a zone whose rules end, the last change is the last.
func TestTheLastChangeIsShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	change := zonetest.Change{At: time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC), Offset: 3600}
	if err := zonetest.WriteDir(dir, "", map[string][]byte{"Africa/Accra": zonetest.File(0, []zonetest.Change{change}, "<+01>-1")}); err != nil {
		t.Fatal(err)
	}
	r := almanacAt(t, today, "zone", "Africa/Accra", "--zoneinfo", dir)
	want := "clocks skip 00:00–01:00\nchange     no other within twenty years\n"
	if r.code != exitOK || !strings.Contains(r.out, want) || !strings.Contains(r.out, "of an unknown release") {
		t.Errorf("%+v, want %q", r, want)
	}
}

// While clocks show an hour for the second time, their offset is that of winter.
func TestNowInTheSecondShowing(t *testing.T) {
	t.Parallel()
	now := time.Date(2025, time.October, 26, 1, 30, 0, 5e8, time.UTC)
	if r := almanacAt(t, now, "zone", "Europe/Berlin"); !strings.Contains(r.out, "now        2025-10-26T02:30:00, UTC+01:00\n") {
		t.Errorf("%+v", r)
	}
}

func TestAZoneWithoutDataIsAFailure(t *testing.T) {
	t.Parallel()
	dir := zoneDir(t, "2026a", "Europe/Berlin", berlin)
	if err := os.WriteFile(filepath.Join(dir, "Europe", "Rome"), []byte("TZif"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Europe/Paris": `"Europe/Paris" is a time zone for which this machine has no data: zoneinfo: no file Europe/Paris in `,
		"Europe/Rome":  `"Europe/Rome" is a time zone for which this machine has no data: zoneinfo: file Europe/Rome in `,
	} {
		r := almanacAt(t, today, "zone", name, "--zoneinfo", dir)
		if r.code != exitFailed || r.out != "" || !strings.HasPrefix(r.errs, "almanac: "+want) || strings.Count(r.errs, "almanac: ") != 1 {
			t.Errorf("%+v, want %d and %q", r, exitFailed, want)
		}
	}
}

func TestJSONOfZone(t *testing.T) {
	t.Parallel()
	dir := zoneDir(t, "2026a", "Asia/Calcutta", "IST-5:30")
	r := almanacAt(t, today, "zone", "Asia/Calcutta", "--zoneinfo", dir, "--json")
	want := `{
  "name": "Asia/Calcutta",
  "canonical": "Asia/Kolkata",
  "otherNames": [
    "Asia/Kolkata"
  ],
  "version": "2026a",
  "fingerprint": "a975023228ad0098",
  "now": "2026-03-07T22:30:00",
  "offset": "+05:30",
  "changes": []
}
`
	if r != (result{exitOK, want, ""}) {
		t.Errorf("%+v, want:\n%s", r, want)
	}
	dir = zoneDir(t, "2026a", "Europe/Berlin", berlin)
	r = almanacAt(t, today, "zone", "Europe/Berlin", "--zoneinfo", dir, "--changes", "1", "--json")
	want = `  "otherNames": [],
  "version": "2026a",
  "fingerprint": "479e8260aeb00685",
  "now": "2026-03-07T18:00:00",
  "offset": "+01:00",
  "changes": [
    {
      "instant": "2026-03-29T01:00:00Z",
      "before": "+01:00",
      "after": "+02:00",
      "reason": "clocks skip 02:00–03:00"
    }
  ]
}
`
	if r.code != exitOK || !strings.HasSuffix(r.out, want) {
		t.Errorf("%+v, want:\n%s", r, want)
	}
}

func TestOffsetsAndMovesInWords(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int64][2]string{
		0: {"+00:00", "-"}, 5400: {"+01:30", "+1h30m"}, 36000: {"+10:00", "+10h"}, -1800: {"-00:30", "-30m"}, -37760: {"-10:29:20", "-10h29m20s"}, 86400: {"+24:00", "+24h"}, 3600: {"+01:00", "+1h"},
	} {
		if got := [2]string{offsetText(time.Duration(seconds) * time.Second), moveText(seconds)}; got != want {
			t.Errorf("%d s is written %q, want %q", seconds, got, want)
		}
	}
}
