package zones_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/zones"
)

func TestLookup(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		name, proper, canonical string // an empty proper name means that the zone does not exist
	}{
		"a name in its own spelling":          {"Asia/Tokyo", "Asia/Tokyo", "Asia/Tokyo"},
		"a name in the wrong case":            {"aMERICA/pORT-AU-pRINCE", "America/Port-au-Prince", "America/Port-au-Prince"},
		"an old name of a place":              {"Asia/Calcutta", "Asia/Calcutta", "Asia/Kolkata"},
		"a place that was merged":             {"Europe/Oslo", "Europe/Oslo", "Europe/Oslo"},
		"a name with blanks around":           {" Asia/Tokyo", "", ""},
		"a name with its rename behind":       {"Asia/Calcutta Asia/Kolkata", "", ""},
		"a letter that lowers to an ASCII k":  {"Asia/Kol\u212Aata", "", ""},
		"a letter that lowers to more than i": {"As\u0130a/Tokyo", "", ""},
		"a comment of the table":              {"#", "", ""},
		"the empty name":                      {"", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			proper, canonical, ok := zones.Lookup(tt.name)

			if proper != tt.proper || canonical != tt.canonical || ok != (tt.proper != "") {
				t.Errorf("Lookup(%q) = %q, %q, %v; want %q, %q", tt.name, proper, canonical, ok, tt.proper, tt.canonical)
			}
		})
	}
}

func TestCanonicalNamesAreTheirOwnCanonicalName(t *testing.T) {
	t.Parallel()

	for _, name := range zones.Names() {
		proper, canonical, ok := zones.Lookup(name)
		if !ok || proper != name {
			t.Errorf("Lookup(%q) = %q, %v; want the name itself", name, proper, ok)
		}
		if again, last, ok := zones.Lookup(canonical); !ok || again != canonical || last != canonical {
			t.Errorf("%q is now called %q, and that in turn %q, canonical %q, accepted %v", name, canonical, again, last, ok)
		}
	}
}

// A rename does not change clocks: two names of one zone must always agree.
func TestARenamedZoneKeepsItsClocks(t *testing.T) {
	t.Parallel()

	from := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	until := time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range zones.Names() {
		_, canonical, _ := zones.Lookup(name)
		if name == canonical || zones.SystemV[strings.ToLower(name)] {
			continue // a System V name agrees with its place from 2026 on: see below
		}
		old, present := location(t, name), location(t, canonical)
		for at := from; at.Before(until); at = at.AddDate(0, 0, 7) {
			_, before := at.In(old).Zone()
			if _, after := at.In(present).Zone(); before != after {
				t.Errorf("%s is called a rename of %s, but at %v they stand %ds and %ds from UTC", name, canonical, at, before, after)
				break
			}
		}
	}
}

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestNamesAreDistinctAndPlain(t *testing.T) {
	t.Parallel()

	names := zones.Names()
	lower := make(map[string]string, len(names))
	for _, name := range names {
		if other, taken := lower[strings.ToLower(name)]; taken {
			t.Errorf("%q and %q differ in case only", name, other)
		}
		lower[strings.ToLower(name)] = name
		if len(name) > 32 || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_+-") != "" {
			t.Errorf("%q is longer than 32 bytes or holds more than the letters of a zone name", name)
		}
	}
	for _, refused := range []string{"Local", "localtime", "Factory", "posixrules", "PST", "CEST", "posix/UTC", "right/UTC"} {
		if slices.Contains(names, refused) {
			t.Errorf("%q is accepted, and is no place", refused)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ name, want string }{
		"a name itself":                   {"Asia/Tokyo", "Asia/Tokyo"},
		"letters swapped":                 {"Amercia/New_York", "America/New_York"},
		"a city alone":                    {"tokyo", "Asia/Tokyo"},
		"a city with a blank":             {"new york", "America/New_York"},
		"a hyphen for the line":           {"America/New-York", "America/New_York"},
		"a misspelt city":                 {"Europe/Kyev", "Europe/Kyiv"},
		"blanks around":                   {"\tEurope/Berlin\n", "Europe/Berlin"},
		"a tie goes to the present name":  {"buenos aires", "America/Argentina/Buenos_Aires"},
		"a directory of zone files":       {"posix/America/New_York", "America/New_York"},
		"one with leap seconds":           {"right/UTC", "Etc/UTC"},
		"directories in each other":       {"././right/./Asia/Tokyo", "Asia/Tokyo"},
		"a directory in capitals":         {"POSIX/asia/tokyo", "Asia/Tokyo"},
		"a path from the root":            {"/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"},
		"that of another system":          {"/var/db/timezone/zoneinfo/Asia/Tokyo", "Asia/Tokyo"},
		"a path to leap seconds":          {"/usr/share/zoneinfo/right/Europe/Berlin", "Europe/Berlin"},
		"a path to a System V name":       {"/usr/share/zoneinfo/posix/EST5EDT", "EST5EDT"},
		"a slash too many":                {"America//New_York", "America/New_York"},
		"an abbreviation":                 {"PST", "America/Los_Angeles"},
		"a System V name with blanks":     {" CET ", "CET"},
		"one in lower case, with blanks":  {" cest ", "Europe/Brussels"},
		"one of several places":           {"IST", "Asia/Kolkata"},
		"a name of Windows":               {"W. Europe Standard Time", "Europe/Berlin"},
		"one in summer, in lower case":    {"eastern daylight time", "America/New_York"},
		"one of a place that was renamed": {"India Standard Time", "Asia/Kolkata"},
		"an offset of Windows":            {"UTC-11", ""},
		"a directory and nothing in it":   {"posix/", ""},
		"a machine's zone":                {"Local", ""},
		"and its file":                    {"localtime", ""},
		"a path to it":                    {"/usr/share/zoneinfo/localtime", ""},
		"the default of POSIX rules":      {"posixrules", ""},
		"a machine that was not set up":   {"Factory", ""},
		"an offset":                       {"GMT+2", ""},
		"an offset of UTC":                {"utc-03:00", ""},
		"an offset alone":                 {"+02:00", ""},
		"nothing like it":                 {"xyzzy/plugh/quux", ""},
		"the empty name":                  {"", ""},
		"blanks alone":                    {"   ", ""},
		"longer than any name, but alike": {"Europe/Berlin" + strings.Repeat(" Mitte", 10), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := zones.Nearest(tt.name); got != tt.want {
				t.Errorf("Nearest(%q) = %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

// Windows' names are suggested, but never accepted.
func TestNamesOfWindowsSuggestAZone(t *testing.T) {
	t.Parallel()

	if n := len(zones.Windows()); n < 250 {
		t.Errorf("the table has %d names, with those of summer time", n)
	}
	for name, zone := range zones.Windows() {
		if _, canonical, ok := zones.Lookup(zone); !ok || canonical != zone {
			t.Errorf("%q suggests %q, which is no present name", name, zone)
		}
		if _, _, ok := zones.Lookup(strings.ReplaceAll(name, "_", " ")); ok {
			t.Errorf("%q is accepted", name)
		}
	}
}

// The table is a map with a random order of iteration. Ties must not depend on it.
func TestNearestIsTheSameEveryTime(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"buenos aires", "louisville", "gmt", "Etc/GMT+15", "America/Indianapolis", "Asia/Xyz", "Samoa", "utcc"} {
		want := zones.Nearest(name)
		for range 50 {
			if got := zones.Nearest(name); got != want {
				t.Fatalf("Nearest(%q) = %q, and before %q", name, got, want)
			}
		}
	}
}

// Since release 2024b each System V name is a link; before, it was a zone of its own. In
// both cases its clocks agree with the linked zone's from now on.
func TestSystemVNamesHaveThePlacesOfTheDatabase(t *testing.T) {
	t.Parallel()

	until := time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC)
	places := map[string]string{
		"CET": "Europe/Brussels", "CST6CDT": "America/Chicago", "EET": "Europe/Athens", "EST": "America/Panama",
		"EST5EDT": "America/New_York", "HST": "Pacific/Honolulu", "MET": "Europe/Brussels", "MST": "America/Phoenix",
		"MST7MDT": "America/Denver", "PST8PDT": "America/Los_Angeles", "WET": "Europe/Lisbon",
	}
	if len(places) != len(zones.SystemV) {
		t.Errorf("%d System V names, want %d", len(zones.SystemV), len(places))
	}
	for name, place := range places {
		proper, canonical, ok := zones.Lookup(strings.ToLower(name))
		if !ok || proper != name || canonical != place || !zones.SystemV[strings.ToLower(name)] {
			t.Errorf("Lookup(%q) = %q, %q, %v; want the name itself and %s", name, proper, canonical, ok, place)
		}
		systemV, there := location(t, name), location(t, place)
		for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(until); at = at.AddDate(0, 0, 7) {
			_, offset := at.In(systemV).Zone()
			if _, other := at.In(there).Zone(); offset != other {
				t.Errorf("at %v clocks of %s and of %s stand %ds and %ds from UTC", at, name, place, offset, other)
				break
			}
		}
	}
}

func TestAbbreviationsAreNotMatchedToSystemVNames(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"AEST", "ACST", "EEST", "MEST", "WEST", "MSTT"} {
		if got := zones.Nearest(name); zones.SystemV[strings.ToLower(got)] {
			t.Errorf("Nearest(%q) = %q", name, got)
		}
	}
}

func TestAbbreviationsSuggestPresentNames(t *testing.T) {
	t.Parallel()

	for name, place := range zones.Places {
		if proper, canonical, ok := zones.Lookup(place); !ok || proper != place || canonical != place {
			t.Errorf("%q suggests %q, which is %q, now called %q, accepted %v", name, place, proper, canonical, ok)
		}
		if _, _, ok := zones.Lookup(name); ok || strings.ToLower(name) != name {
			t.Errorf("%q is accepted, or not in lower case, and so never asked for", name)
		}
	}
}
