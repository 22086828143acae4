package world

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed land.txt
var landText string

// LandWidth is the width of the map that [LandPath] is drawn for. The map is half as high.
const LandWidth = 960

var land = sync.OnceValue(func() string {
	for line := range strings.Lines(landText) {
		if !strings.HasPrefix(line, "#") {
			return strings.TrimSpace(line)
		}
	}
	return ""
})

// LandPath returns the outlines of the continents and of the larger islands as an SVG path, for a
// map that is [LandWidth] wide. Fill it: its edges include the sides of the map, so a stroke would
// show lines where there is no coast. The source is Natural Earth at 1:110 million, in the public
// domain.
func LandPath() string { return land() }
