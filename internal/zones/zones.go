// Package zones knows the zone names of the IANA time zone database, and which of them are
// new names for old zones.
//
// It contains only names, no rules. A name is checked before any zone file is read, so that
// the accepted names do not depend on the machine's zone files: [time.LoadLocation] accepts
// whatever the directory holds ("posix/Asia/Tokyo"), and PostgreSQL whatever looks like a rule of
// POSIX ("Foo+5"). names.txt says which names of the database are accepted, and why. countries.txt has
// the zones of each country.
package zones

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:embed names.txt
var namesText string

// table maps the lower-case form of each name to its proper spelling and its canonical
// name. It is built once and never modified.
var table = sync.OnceValue(func() map[string]entry {
	entries := make(map[string]entry, 600)
	for line := range strings.Lines(namesText) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, canonical, renamed := strings.Cut(line, " ")
		if !renamed {
			canonical = name
		}
		entries[strings.ToLower(name)] = entry{name, canonical}
	}
	return entries
})

type entry struct{ name, canonical string }

// Lookup finds name without regard to ASCII case. It returns the proper spelling and the canonical name.
// The two differ where the database renamed a zone ("Asia/Calcutta" is now "Asia/Kolkata"). They also
// differ for the System V names, which are links to zones ("EST5EDT" is "America/New_York").
func Lookup(name string) (proper, canonical string, ok bool) {
	// Some Unicode letters become ASCII in lower case; no zone name contains them.
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return "", "", false
	}
	e, ok := table()[strings.ToLower(name)]
	return e.name, e.canonical, ok
}

// Names returns every accepted name, in no particular order.
func Names() []string {
	names := make([]string, 0, len(table()))
	for _, e := range table() {
		names = append(names, e.name)
	}
	return names
}

// Nearest returns the accepted name that was most likely meant by a misspelt one, or "" when none
// is close. It also finds the zone of a city alone ("tokyo"), of a path ("posix/Asia/Tokyo"), of a
// well-known abbreviation ("PST"), and of a name that Windows uses ("W. Europe Standard Time").
func Nearest(name string) string {
	wanted := withoutPath(fold(name))
	if wanted == "" || len(wanted) > 64 || offset.MatchString(strings.TrimSpace(name)) {
		return ""
	}
	if place, ok := places[wanted]; ok {
		return place
	}
	if place, ok := windows()[wanted]; ok {
		return place
	}
	best, bestCost := "", len(wanted)/4+1 // three letters must all be right
	for lower, e := range table() {
		city := lower[strings.LastIndexByte(lower, '/')+1:]
		cost := min(distance(wanted, fold(lower)), distance(wanted, fold(city)))
		if cost > 0 && systemV[lower] {
			continue
		}
		if cost < bestCost || cost == bestCost && best != "" && before(e, best) {
			best, bestCost = e.name, cost
		}
	}
	return best
}

// offset matches an offset from UTC, such as "GMT+2". The names of the database that look like
// it have the opposite sign: Etc/GMT+2 is two hours behind UTC.
var offset = regexp.MustCompile(`(?i)^(?:UTC|GMT)?\s*[+-]\d`)

// before breaks ties, so that the suggestion is always the same: canonical names first,
// then alphabetical order.
func before(e entry, other string) bool {
	_, canonical, _ := Lookup(other)
	if mine, theirs := e.name == e.canonical, other == canonical; mine != theirs {
		return mine
	}
	return e.name < other
}

// fold removes differences that users often confuse: case, spaces, hyphens.
func fold(name string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// distance is the Levenshtein distance in bytes; zone names are ASCII.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitution, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// places maps names that are not zones, in lower case as returned by fold, to the zone that
// was most likely meant. Edit distance cannot find these.
var places = map[string]string{
	// Abbreviations that the database never had as names. Several are ambiguous; the
	// suggestion is the zone with the most users.
	"bst":  "Europe/London", // and Asia/Dhaka
	"cdt":  "America/Chicago",
	"cest": "Europe/Brussels",
	"cst":  "America/Chicago", // and Asia/Shanghai, America/Havana
	"edt":  "America/New_York",
	"ist":  "Asia/Kolkata", // and Europe/Dublin, Asia/Jerusalem
	"jst":  "Asia/Tokyo",
	"mdt":  "America/Denver",
	"pdt":  "America/Los_Angeles",
	"pst":  "America/Los_Angeles", // and Asia/Manila
}

// systemV are the accepted names that look like abbreviations, in lower case. They are not
// suggested for other misspelt names: "AEST" is not close to "EST".
var systemV = map[string]bool{
	"cet": true, "cst6cdt": true, "eet": true, "est": true, "est5edt": true, "hst": true,
	"met": true, "mst": true, "mst7mdt": true, "pst8pdt": true, "wet": true,
}

// withoutPath removes from a folded name the path of a directory of zone files:
// "/usr/share/zoneinfo/posix/", "right/", "./".
func withoutPath(name string) string {
	if _, inside, ok := strings.Cut(name, "/zoneinfo/"); ok {
		name = inside
	}
	for {
		first, rest, ok := strings.Cut(name, "/")
		if !ok || first != "posix" && first != "right" && first != "." && first != "" {
			return name
		}
		name = rest
	}
}

//go:embed countries.txt
var countriesText string

// countries maps the code of each country to the names of its zones. It is built once and never modified.
var countries = sync.OnceValue(func() map[string][]string {
	zones := make(map[string][]string, 250)
	for line := range strings.Lines(countriesText) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] != "#" {
			zones[fields[0]] = fields[1:]
		}
	}
	return zones
})

// OfCountry returns the names of the zones of a country, by its code of ISO 3166-1 in capitals. It
// returns nil for other codes. The caller must not modify the slice.
func OfCountry(code string) []string { return countries()[code] }

//go:embed windows.txt
var windowsText string

// windows maps the names that Windows has for time zones, as returned by fold, to the zone
// that CLDR gives for them. It is built once and never modified.
var windows = sync.OnceValue(func() map[string]string {
	places := make(map[string]string, 300)
	for line := range strings.Lines(windowsText) {
		name, zone, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		_, canonical, _ := Lookup(zone) // CLDR keeps the names that zones had first
		places[fold(name)] = canonical
		places[fold(strings.Replace(name, " Standard ", " Daylight ", 1))] = canonical
	}
	return places
})
