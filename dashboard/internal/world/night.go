package world

import (
	"math"
	"strings"
	"time"
)

// Bounds in degrees for the straight lines that draw the terminator.
const (
	maxLonStep     = 2.0  // wide enough at the solstices, when the terminator bends slowly
	maxLatStep     = 3.0  // near an equinox the terminator is almost a meridian
	minLonStep     = 0.01 // a tenth of a unit on a map that is 3600 units wide
	minDeclination = 0.01 // at 0 the terminator is two meridians, and no latitude belongs to a longitude
)

// NightPath returns the side of the Earth that the sun does not light at t, as a closed SVG path
// for a map of the given width. The edge of the night is the terminator, where the sun's centre
// is at the horizon. The path then follows the edge of the map at the pole that is in the dark:
// the lower edge while the sun is north of the equator, else the upper edge.
//
// Points have one decimal, so the width should be 100 or more.
func NightPath(t time.Time, width float64) string {
	declination, sunLon := Sun(t)
	if math.Abs(declination) < minDeclination {
		declination = math.Copysign(minDeclination, declination)
	}
	var b strings.Builder
	point := func(command byte, lat, lon float64) {
		x, y := Project(lat, lon, width)
		b.WriteByte(command)
		b.WriteString(decimal(x) + " " + decimal(y))
	}
	edge := terminator{declination, sunLon}
	lon, lat := -180.0, edge.lat(-180)
	point('M', lat, lon)
	for lon < 180 {
		step := min(maxLonStep, 180-lon)
		next := edge.lat(lon + step)
		for math.Abs(next-lat) > maxLatStep && step > minLonStep {
			step /= 2
			next = edge.lat(lon + step)
		}
		lon, lat = lon+step, next
		point('L', lat, lon)
	}
	bottom := 0.0
	if declination > 0 {
		bottom = width / 2
	}
	b.WriteString("V" + decimal(bottom) + "H0Z")
	return b.String()
}

// terminator is the line where the sun is at the horizon, by the point over which it stands.
type terminator struct{ declination, sunLon float64 }

// lat returns the latitude of the terminator at a longitude, in degrees.
func (e terminator) lat(lon float64) float64 {
	return degrees(math.Atan(-cos(lon-e.sunLon) * cos(e.declination) / sin(e.declination)))
}
