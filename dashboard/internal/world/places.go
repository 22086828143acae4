package world

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed places.txt
var placesText string

// Place is where a time zone is: the coordinate of its principal city or settlement. The source
// is zone.tab of the IANA time zone database 2025b, and earlier releases of it for zones that
// were since merged into others.
type Place struct {
	Zone string  // the zone's name, in the database's spelling
	Lat  float64 // latitude in degrees, -90 to 90, north positive
	Lon  float64 // longitude in degrees, -180 to 180, east positive
}

type atlas struct {
	places    map[string]Place // by name
	all       []Place          // in order of the names
	canonical []Place          // in order of the names
}

// loaded is the content of places.txt. It is built once and never modified.
var loaded = sync.OnceValue(func() atlas {
	a := atlas{places: make(map[string]Place, 600)}
	for line := range strings.Lines(placesText) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(line, "#") {
			continue
		}
		lat, lon, ok := parseCoordinate(fields[1])
		if !ok {
			continue
		}
		place := Place{fields[0], lat, lon}
		a.canonical = append(a.canonical, place)
		a.places[place.Zone] = place
		for _, name := range fields[2:] {
			a.places[name] = Place{name, lat, lon}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.places)) {
		a.all = append(a.all, a.places[name])
	}
	return a
})

// Places returns a place for each name that [calendar.TimezoneNames] lists and that has one, in
// alphabetical order. A zone with several names has a place for each, at the same coordinate:
// "Asia/Calcutta" is where "Asia/Kolkata" is. No place has the names of UTC and GMT, or those
// that begin with "Etc/". The caller owns the slice.
func Places() []Place { return slices.Clone(loaded().all) }

// CanonicalPlaces returns those of [Places] whose names are canonical, see
// [calendar.Timezone.Canonical], in alphabetical order. Each zone is there once, so these are the
// dots of a map. The caller owns the slice.
func CanonicalPlaces() []Place { return slices.Clone(loaded().canonical) }

// Find returns the place of a zone, and whether it has one. The name is in the database's
// spelling, as [calendar.Timezone.String] returns it, and may be a former name of the zone.
func Find(zone string) (Place, bool) {
	place, ok := loaded().places[zone]
	return place, ok
}

// parseCoordinate reads a coordinate of the form ±DDMM±DDDMM or ±DDMMSS±DDDMMSS.
func parseCoordinate(s string) (lat, lon float64, ok bool) {
	split := strings.LastIndexAny(s, "+-")
	if split < 1 {
		return 0, 0, false
	}
	lat, latOK := parseAngle(s[:split], 2)
	lon, lonOK := parseAngle(s[split:], 3)
	return lat, lon, latOK && lonOK
}

// parseAngle reads a sign, degrees with the given number of digits, two digits of minutes, and
// possibly two of seconds.
func parseAngle(s string, digits int) (float64, bool) {
	short := len(s) == 1+digits+2
	if !short && len(s) != 1+digits+4 {
		return 0, false
	}
	degrees, err := strconv.ParseUint(s[1:1+digits], 10, 16)
	rest, restErr := strconv.ParseUint(s[1+digits:], 10, 16)
	if err != nil || restErr != nil {
		return 0, false
	}
	if short {
		rest *= 100
	}
	angle := float64(degrees) + float64(rest/100)/60 + float64(rest%100)/3600
	if s[0] == '-' {
		angle = -angle
	}
	return angle, true
}
