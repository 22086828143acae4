package zones

import (
	_ "embed"
	"strings"
	"sync"
)

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
