package world

import (
	"html"
	"strconv"
	"strings"
)

// Degrees between two lines of the grid.
const (
	meridians = 15 // an hour of the sun's way
	parallels = 30
)

// Project returns the point of a coordinate on an equirectangular map: x counts from the left
// edge and y from the top. Latitude (-90 to 90) and longitude (-180 to 180) are in degrees. The
// map is width wide and width/2 high, in any unit.
func Project(lat, lon, width float64) (x, y float64) {
	scale := width / 360
	return (lon + 180) * scale, (90 - lat) * scale
}

// GraticulePath returns the grid of a map of the given width as an SVG path: a meridian each 15
// degrees and a parallel each 30, with the edges of the map. The path has no area; stroke it.
func GraticulePath(width float64) string {
	var b strings.Builder
	for lon := -180; lon <= 180; lon += meridians {
		x, _ := Project(0, float64(lon), width)
		b.WriteString("M" + decimal(x) + " 0V" + decimal(width/2))
	}
	for lat := 90; lat >= -90; lat -= parallels {
		_, y := Project(float64(lat), 0, width)
		b.WriteString("M0 " + decimal(y) + "H" + decimal(width))
	}
	return b.String()
}

// Dot returns a place as an SVG circle, with the zone's name as its title, on a map of the given
// width. The class is that of the circle. The radius has the unit of the width; zero omits it, so
// that a style sheet can set it. Names and classes are escaped.
func Dot(p Place, class string, width, radius float64) string {
	x, y := Project(p.Lat, p.Lon, width)
	var b strings.Builder
	b.WriteString(`<circle class="` + html.EscapeString(class) + `" cx="` + decimal(x) + `" cy="` + decimal(y))
	if radius > 0 {
		b.WriteString(`" r="` + decimal(radius))
	}
	b.WriteString(`"><title>` + html.EscapeString(p.Zone) + `</title></circle>`)
	return b.String()
}

// decimal formats a length with at most one decimal.
func decimal(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}
