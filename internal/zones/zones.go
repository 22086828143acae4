// Package zones knows which names the IANA time zone database gives to zones,
// and which of them are new names for old places.
//
// It holds names only, no rules: a name is judged before any zone file is
// touched, so that what a program accepts does not depend on the directory it
// happens to find.
package zones

import (
	_ "embed"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:embed names.txt
var namesText string

// table maps the lower-case form of each name to its proper spelling and to the
// present name of its place. It is read once and never written again.
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

// Lookup finds name without regard to ASCII case. It returns the name's proper
// spelling and the canonical name of the place. The two differ where the database
// renamed a zone ("Asia/Calcutta" is "Asia/Kolkata"), and for the System V names, which
// are links to places ("EST5EDT" is "America/New_York").
func Lookup(name string) (proper, canonical string, ok bool) {
	// Unicode has letters that become ASCII in lower case; none is in a name.
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

// Nearest returns the accepted name that a misspelt one most likely meant, or ""
// when none is near. A city alone ("tokyo") finds its zone ("Asia/Tokyo"), a path
// ("posix/Asia/Tokyo") the zone that it leads to, and a well-known abbreviation
// ("PST") a place whose clocks are so called.
func Nearest(name string) string {
	wanted := withoutPath(fold(name))
	if wanted == "" || len(wanted) > 64 {
		return ""
	}
	if place, ok := places[wanted]; ok {
		return place
	}
	best, bestCost := "", len(wanted)/4+1 // of three letters, all must be right
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

// before settles ties, so that a suggestion is the same every time: canonical
// names first, then the alphabet.
func before(e entry, other string) bool {
	_, canonical, _ := Lookup(other)
	if mine, theirs := e.name == e.canonical, other == canonical; mine != theirs {
		return mine
	}
	return e.name < other
}

// fold maps the spellings that people mix up to one: case, spaces, hyphens.
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
