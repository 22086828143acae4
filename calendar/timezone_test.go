package calendar_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
	"github.com/almanac-go/almanac/internal/zones"
)

func TestLoadTimezoneAccepts(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ name, want, canonical string }{
		"a zone":                     {"Asia/Tokyo", "Asia/Tokyo", "Asia/Tokyo"},
		"three parts":                {"America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"},
		"a link keeps its name":      {"US/Pacific", "US/Pacific", "America/Los_Angeles"},
		"an old spelling":            {"Asia/Calcutta", "Asia/Calcutta", "Asia/Kolkata"},
		"a former transcription":     {"Europe/Kiev", "Europe/Kiev", "Europe/Kyiv"},
		"a merged zone is its own":   {"Europe/Oslo", "Europe/Oslo", "Europe/Oslo"},
		"lower case is corrected":    {"asia/tokyo", "Asia/Tokyo", "Asia/Tokyo"},
		"upper case is corrected":    {"AMERICA/NEW_YORK", "America/New_York", "America/New_York"},
		"inner capitals are kept":    {"africa/dar_ES_salaam", "Africa/Dar_es_Salaam", "Africa/Dar_es_Salaam"},
		"UTC by its name":            {"utc", "UTC", "Etc/UTC"},
		"an offset that is a name":   {"Etc/GMT+5", "Etc/GMT+5", "Etc/GMT+5"},
		"a hyphen that is in a name": {"America/Port-au-Prince", "America/Port-au-Prince", "America/Port-au-Prince"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := calendar.LoadTimezone(tt.name)

			if err != nil || got.String() != tt.want || got.Canonical() != tt.canonical || got.IsZero() {
				t.Errorf("LoadTimezone(%q) = %q, canonical %q, %v; want %q, canonical %q", tt.name, got, got.Canonical(), err, tt.want, tt.canonical)
			}
		})
	}
}

func TestLoadTimezoneRefuses(t *testing.T) {
	t.Parallel()

	tests := map[string]string{
		"nothing":                         "",
		"a name of Windows":               "W. Europe Standard Time",
		"the host's own zone":             "Local",
		"the host's own zone as a file":   "localtime",
		"a directory of the database":     "posix/Europe/Berlin",
		"leap second data":                "right/UTC",
		"a file beside the database":      "posixrules",
		"a zone of no place":              "Factory",
		"a path from here":                "./America/New_York",
		"a path with an empty part":       "America//New_York",
		"a path with a dot":               "America/./New_York",
		"a path to elsewhere":             "../etc/passwd",
		"a path from the root":            "/usr/share/zoneinfo/UTC",
		"a Windows path":                  `America\New_York`,
		"an abbreviation":                 "PST",
		"a Central European abbreviation": "CEST",
		"an offset":                       "UTC+5",
		"an offset of an unknown place":   "Foo+5",
		"digits":                          "+05:00",
		"a blank behind":                  "Europe/Berlin ",
		"a blank before":                  " Europe/Berlin",
		"a line end":                      "Europe/Berlin\n",
		"a NUL":                           "Europe/Berlin\x00",
		"half a name":                     "Europe",
		"a name with a slash behind":      "Europe/Berlin/",
		"a misspelling":                   "Amercia/New_York",
		"a planet":                        "Mars/Base",
		"letters that merely lower to k":  "Asia/To\u212Ayo",
		"a dotted capital i":              "As\u0130a/Tokyo",
		"no UTF-8":                        "Asia/\xff",
		"a name beyond all bounds":        strings.Repeat("Europe/", 10_000),
		"an emoji at the bound":           strings.Repeat("x", 62) + "🎂🎂",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := calendar.LoadTimezone(text)

			var invalid *calendar.InvalidTimezoneError
			if !errors.As(err, &invalid) || !errors.Is(err, calendar.ErrInvalidTimezone) || !got.IsZero() {
				t.Fatalf("LoadTimezone(%q) = %q, %v; want an *InvalidTimezoneError", text, got, err)
			}
			if len(invalid.Name) > 100 || utf8.ValidString(text) && !utf8.ValidString(invalid.Name) {
				t.Errorf("LoadTimezone(%q) repeats %q, %d bytes, valid UTF-8 %v", text, invalid.Name, len(invalid.Name), utf8.ValidString(invalid.Name))
			}
			if invalid.NoData {
				t.Errorf("LoadTimezone(%q) blames missing data", text)
			}
		})
	}
}

// Zone data of either kind: links to places since release 2024b, zones of their own before.
func TestSystemVNamesFollowTheZoneData(t *testing.T) {
	t.Parallel()

	for kind, rule := range map[string]string{"a link": "EST5EDT,M3.2.0,M11.1.0", "a zone of its own": "EST5EDT,M4.1.0,M10.5.0"} {
		dir := t.TempDir()
		if err := zonetest.WriteDir(dir, "2024a", map[string][]byte{"EST5EDT": zonetest.File(-5*hour, nil, rule)}); err != nil {
			t.Fatal(err)
		}
		data, err := calendar.OpenZoneData(dir)
		if err != nil {
			t.Fatal(err)
		}
		z, err := data.Timezone("est5edt")
		if err != nil || z.String() != "EST5EDT" || z.Canonical() != "America/New_York" {
			t.Fatalf("%s: %q, now called %q, %v", kind, z, z.Canonical(), err)
		}
		march := z.WallTime(instant(t, "2026-03-20T12:00:00Z")).Clock.Hour
		if want := map[string]int{"a link": 8, "a zone of its own": 7}[kind]; march != want {
			t.Errorf("%s: clocks show %d o'clock, want %d by its rules", kind, march, want)
		}
	}
	for _, name := range []string{"CET", "CST6CDT", "EET", "EST", "EST5EDT", "HST", "MET", "MST", "MST7MDT", "PST8PDT", "WET"} {
		if _, err := calendar.LoadTimezone(name); err != nil {
			t.Errorf("LoadTimezone(%q): %v", name, err)
		}
	}
}

func TestLoadTimezoneSuggests(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ name, want string }{
		"letters swapped":         {"Amercia/New_York", "America/New_York"},
		"a city":                  {"tokyo", "Asia/Tokyo"},
		"a city with a blank":     {"new york", "America/New_York"},
		"a half old spelling":     {"Europe/Kyev", "Europe/Kyiv"},
		"a blank behind":          {"Europe/Berlin ", "Europe/Berlin"},
		"a blank for the line":    {"America/Los Angeles", "America/Los_Angeles"},
		"a hyphen for the line":   {"America/Sao-Paulo", "America/Sao_Paulo"},
		"a path":                  {"./Europe/Berlin", "Europe/Berlin"},
		"nothing for gibberish":   {"xyzzy/plugh/quux", ""},
		"a System V name's path":  {"posix/EST5EDT", "EST5EDT"},
		"an abbreviation":         {"PST", "America/Los_Angeles"},
		"a path from the root":    {"/usr/share/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo"},
		"leap second data":        {"right/UTC", "Etc/UTC"},
		"a name of Windows":       {"Tokyo Standard Time", "Asia/Tokyo"},
		"nothing for Factory":     {"Factory", ""},
		"nothing for a machine's": {"localtime", ""},
		"nothing for nothing":     {"", ""},
		"nothing for one letter":  {"q", ""},
		"nothing for a long text": {strings.Repeat("Berlin", 20), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := calendar.LoadTimezone(tt.name)

			var invalid *calendar.InvalidTimezoneError
			if !errors.As(err, &invalid) || invalid.Suggestion != tt.want {
				t.Fatalf("LoadTimezone(%q) = %v, want the suggestion %q", tt.name, err, tt.want)
			}
			if tt.want != "" && !strings.Contains(err.Error(), "did you mean \""+tt.want+"\"?") {
				t.Errorf("LoadTimezone(%q) = %v, which does not tell the suggestion", tt.name, err)
			}
		})
	}
}

func TestTheZoneOfAMachineIsRefused(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"Local", "local", "localtime", "posix/localtime", "/etc/localtime", "/usr/share/zoneinfo/localtime"} {
		_, err := calendar.LoadTimezone(name)
		if want := `calendar: "` + name + `" is the time zone of a machine, not of a person`; err == nil || err.Error() != want {
			t.Errorf("LoadTimezone(%q): %v, want %s", name, err, want)
		}
	}
}

func TestEqualFollowsRenamesOnly(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		a, b string
		want bool
	}{
		"a zone is itself":                     {"Asia/Tokyo", "asia/tokyo", true},
		"a country's old name":                 {"US/Pacific", "America/Los_Angeles", true},
		"an old spelling":                      {"Asia/Calcutta", "Asia/Kolkata", true},
		"two old names of one place":           {"Asia/Ho_Chi_Minh", "Asia/Saigon", true},
		"zones merged for agreeing since 1970": {"Europe/Oslo", "Europe/Berlin", false},
		"zones merged across an ocean":         {"Atlantic/Reykjavik", "Africa/Abidjan", false},
		"zones that agree today":               {"Europe/Paris", "Europe/Berlin", false},
		"an offset and a place that stands so": {"Etc/GMT-9", "Asia/Tokyo", false},
		"both zones of a split":                {"America/Santiago", "America/Punta_Arenas", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			a, b := zone(t, tt.a), zone(t, tt.b)
			if got, back := a.Equal(b), b.Equal(a); got != tt.want || back != tt.want {
				t.Errorf("%s and %s: Equal = %v and, asked the other way, %v; want %v", a, b, got, back, tt.want)
			}
			if got, want := a == b, a.String() == b.String(); got != want {
				t.Errorf("%s == %s is %v, want %v", a, b, got, want)
			}
		})
	}
}

func TestEveryAcceptedNameLoads(t *testing.T) {
	t.Parallel()

	names := zones.Names()
	if len(names) != 597 {
		t.Errorf("%d names are accepted, want 597", len(names))
	}
	for _, name := range names {
		z, err := calendar.LoadTimezone(strings.ToUpper(name))
		if err != nil || z.String() != name || z != zone(t, name) {
			t.Errorf("LoadTimezone(%q) = %q, %v; want %q", strings.ToUpper(name), z, err, name)
		}
		if c := zone(t, z.Canonical()); !c.Equal(z) || c.Canonical() != c.String() {
			t.Errorf("the canonical name of %q is %q, and of that %q", z, c, c.Canonical())
		}
	}
}

func TestLoadTimezoneIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()

	const loaders = 8
	names := zones.Names()
	var loaded [loaders][]calendar.Timezone
	var group sync.WaitGroup
	for i := range loaders {
		group.Go(func() {
			for _, name := range names {
				z, err := calendar.LoadTimezone(name)
				if err != nil {
					t.Error(err)
				}
				loaded[i] = append(loaded[i], z)
			}
		})
	}
	group.Wait()
	for i := range loaded {
		for j, z := range loaded[i] {
			if z != loaded[0][j] {
				t.Fatalf("two loads of %s are not ==", z)
			}
		}
	}
}

func TestStoredTimezoneKeepsANameThatItCannotLoad(t *testing.T) {
	t.Parallel()

	z := calendar.StoredTimezone("America/Atlantis")

	if z.String() != "America/Atlantis" || z.Canonical() != "America/Atlantis" || z.IsZero() {
		t.Errorf("StoredTimezone = %q, canonical %q, zero %v; want the name kept", z, z.Canonical(), z.IsZero())
	}
	if !z.Equal(calendar.StoredTimezone("America/Atlantis")) {
		t.Error("two stored zones of one unknown name are not Equal")
	}
	_, err := z.Resolve(wall(t, "2026-05-01T09:00:00"), calendar.Policies{})
	var invalid *calendar.InvalidTimezoneError
	if !errors.As(err, &invalid) || invalid.Name != "America/Atlantis" || !invalid.NoData {
		t.Errorf("Resolve in %s: %v, want an *InvalidTimezoneError for want of data", z, err)
	}
	if got := z.WallTime(instant(t, "2026-05-01T09:00:00Z")); got != wall(t, "2026-05-01T09:00:00") {
		t.Errorf("WallTime in %s = %v, want that of UTC", z, got)
	}
	if got := calendar.StoredTimezone("Asia/Tokyo"); got != zone(t, "Asia/Tokyo") {
		t.Errorf("StoredTimezone of a known name = %v, want the zone itself", got)
	}
}

func TestTheZeroTimezoneIsRefused(t *testing.T) {
	t.Parallel()

	var z calendar.Timezone
	if !z.IsZero() || z.String() != "" || z.Canonical() != "" || z.Equal(zone(t, "UTC")) {
		t.Errorf("the zero Timezone: zero %v, %q, %q, equal to UTC %v", z.IsZero(), z, z.Canonical(), z.Equal(zone(t, "UTC")))
	}
	if _, err := z.Resolve(wall(t, "2026-05-01T09:00:00"), calendar.Policies{}); !errors.Is(err, calendar.ErrInvalidTimezone) {
		t.Errorf("Resolve: %v, want ErrInvalidTimezone", err)
	}
}

func TestWallTimeIsWhatClocksShow(t *testing.T) {
	t.Parallel()

	at := instant(t, "2026-01-01T00:30:00Z")
	tests := map[string]struct{ zone, want string }{
		"in UTC":             {"UTC", "2026-01-01T00:30:00"},
		"a year later":       {"Pacific/Kiritimati", "2026-01-01T14:30:00"},
		"a year earlier":     {"Pacific/Niue", "2025-12-31T13:30:00"},
		"on a quarter":       {"Asia/Kathmandu", "2026-01-01T06:15:00"},
		"POSIX turns signs":  {"Etc/GMT+5", "2025-12-31T19:30:00"},
		"in southern summer": {"Australia/Lord_Howe", "2026-01-01T11:30:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := zone(t, tt.zone).WallTime(at.Add(time.Millisecond).In(time.FixedZone("elsewhere", 3600)))
			if got.String() != tt.want {
				t.Errorf("%s at %v = %v, want %s", tt.zone, at, got, tt.want)
			}
		})
	}
}
