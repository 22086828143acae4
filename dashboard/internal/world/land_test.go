package world_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/almanac-go/almanac/dashboard/internal/world"
)

var landFrom = flag.String("land", "", "make land.txt from this file: land-110m.json of the npm package world-atlas")

// landHeader is what land.txt says before the path.
const landHeader = `# The outlines of land, for a map 960 wide and 480 high: one SVG path, relative and in whole units.
#
# The source is Natural Earth, 1:110m physical vectors, version 4.1.0, in the public domain. It was read
# from land-110m.json of the npm package world-atlas 2.0.2 (ISC licence), and simplified. To make it again:
#
#   npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
#   go test ./dashboard/internal/world -run TestLandIsSmall -args -land "$PWD/package/land-110m.json"
`

// Bounds of the simplification, in units of the map.
const (
	landTolerance = 0.85 // how far a point that is left out may be from the line that replaces it
	landSmallest  = 5    // the area of the smallest island
)

// topology is what is read of a file of TopoJSON.
type topology struct {
	Transform struct{ Scale, Translate [2]float64 }
	Arcs      [][][2]float64 // differences from the point before
	Objects   map[string]struct {
		Geometries []struct{ Arcs [][][]int }
	}
}

// makeLand writes land.txt.
func makeLand(t *testing.T) {
	t.Helper()
	source, err := os.ReadFile(*landFrom)
	if err != nil {
		t.Fatal(err)
	}
	var from topology
	if err := json.Unmarshal(source, &from); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("land.txt", []byte(landHeader+from.path()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// path returns the rings of the land as one path.
func (f topology) path() string {
	var all strings.Builder
	for _, geometry := range f.Objects["land"].Geometries {
		for _, polygon := range geometry.Arcs {
			for _, arcs := range polygon {
				all.WriteString(drawn(simplified(f.ring(arcs))))
			}
		}
	}
	return all.String()
}

// ring joins arcs. A negative number is the complement of that of an arc to be read backwards.
func (f topology) ring(arcs []int) (ring []point) {
	for _, n := range arcs {
		var x, y float64
		var points []point
		for _, d := range f.Arcs[max(n, ^n)] {
			x, y = x+d[0], y+d[1]
			lon, lat := x*f.Transform.Scale[0]+f.Transform.Translate[0], y*f.Transform.Scale[1]+f.Transform.Translate[1]
			px, py := world.Project(lat, lon, world.LandWidth)
			points = append(points, point{px, py})
		}
		if n < 0 {
			slices.Reverse(points)
		}
		if len(ring) > 0 {
			points = points[1:]
		}
		ring = append(ring, points...)
	}
	return ring
}

// simplified leaves out points of a closed ring, by the algorithm of Douglas and Peucker.
func simplified(ring []point) []point {
	far := slices.MaxFunc(ring, func(a, b point) int { return cmp.Compare(apart(a, ring[0]), apart(b, ring[0])) })
	half := slices.Index(ring, far)
	return append(slices.Clone(between(ring[:half+1])), between(ring[half:])[1:]...)
}

// between simplifies a line, and keeps its ends.
func between(line []point) []point {
	if len(line) < 3 {
		return line
	}
	first, last, worst, at := line[0], line[len(line)-1], 0.0, 0
	for i, p := range line[1 : len(line)-1] {
		if off := offLine(p, first, last); off > worst {
			worst, at = off, i+1
		}
	}
	if worst <= landTolerance {
		return []point{first, last}
	}
	return append(slices.Clone(between(line[:at+1])), between(line[at:])[1:]...)
}

func apart(a, b point) float64 { return math.Hypot(a.x-b.x, a.y-b.y) }

// offLine returns how far p is from the line from a to b.
func offLine(p, a, b point) float64 {
	length := apart(a, b)
	if length == 0 {
		return apart(p, a)
	}
	return math.Abs((b.x-a.x)*(a.y-p.y)-(a.x-p.x)*(b.y-a.y)) / length
}

// drawn returns a ring as a path of whole units, or "" if the ring is too small.
func drawn(ring []point) string {
	var area float64
	for i, p := range ring {
		next := ring[(i+1)%len(ring)]
		area += (p.x*next.y - next.x*p.y) / 2
	}
	if math.Abs(area) < landSmallest {
		return ""
	}
	var b strings.Builder
	x, y := int(math.Round(ring[0].x)), int(math.Round(ring[0].y))
	fmt.Fprintf(&b, "M%d %dl", x, y)
	for _, p := range ring[1 : len(ring)-1] { // the last one is the first
		px, py := int(math.Round(p.x)), int(math.Round(p.y))
		if px == x && py == y {
			continue
		}
		for _, d := range []int{px - x, py - y} {
			if text := strconv.Itoa(d); d < 0 || strings.HasSuffix(b.String(), "l") {
				b.WriteString(text)
			} else {
				b.WriteString(" " + text)
			}
		}
		x, y = px, py
	}
	return b.String() + "z"
}

func TestLandIsSmallAndWellFormed(t *testing.T) {
	t.Parallel()
	if *landFrom != "" {
		makeLand(t) // another run tests it
		return
	}
	text, err := os.ReadFile("land.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 10_000 {
		t.Errorf("%d bytes, want at most 10,000", len(text))
	}
	if want := landHeader + world.LandPath() + "\n"; string(text) != want {
		t.Error("land.txt is not its header and one path")
	}
	if !regexp.MustCompile(`^(M\d+ \d+l[-\d ]+z)+$`).MatchString(world.LandPath()) {
		t.Errorf("not a path: %.200s", world.LandPath())
	}
}

// Cities lie on land, and the middles of the oceans do not.
func TestLandIsWhereItIs(t *testing.T) {
	t.Parallel()
	rings := ringsOf(t, world.LandPath())
	for name, c := range map[string]struct {
		lat, lon float64
		land     bool
	}{
		"Berlin": {52.5, 13.4, true}, "Madrid": {40.4, -3.7, true}, "Denver": {39.7, -105, true}, "Kinshasa": {-4.3, 15.3, true},
		"Delhi": {28.6, 77.2, true}, "Alice Springs": {-23.7, 133.9, true}, "Brasília": {-15.8, -47.9, true}, "Yakutsk": {62, 129.7, true},
		"Antananarivo": {-18.9, 47.5, true}, "the South Pole's side": {-80, 100, true}, "middle of Greenland": {72, -40, true},
		"Atlantic": {30, -40, false}, "Pacific": {0, -150, false}, "Indian Ocean": {-30, 80, false}, "Arctic Ocean": {86, 0, false},
		"Mediterranean": {34, 18, false},
	} {
		x, y := world.Project(c.lat, c.lon, world.LandWidth)
		if inside(rings, point{x, y}) != c.land {
			t.Errorf("%s: land is %v", name, !c.land)
		}
	}
	// A dot of a place is on land or at a coast, save on islands that are too small for the map.
	near := 0
	for _, p := range world.CanonicalPlaces() {
		x, y := world.Project(p.Lat, p.Lon, world.LandWidth)
		for _, d := range []point{{0, 0}, {4, 0}, {-4, 0}, {0, 4}, {0, -4}} {
			if inside(rings, point{x + d.x, y + d.y}) {
				near++
				break
			}
		}
	}
	if share := float64(near) / float64(len(world.CanonicalPlaces())); share < 0.75 {
		t.Errorf("%.2f of the places are on land or at a coast", share)
	}
}

// ringsOf reads the points of a path as drawn writes it.
func ringsOf(t *testing.T, path string) (rings [][]point) {
	t.Helper()
	for _, one := range regexp.MustCompile(`M(\d+) (\d+)l([^z]*)z`).FindAllStringSubmatch(path, -1) {
		at := point{number(t, one[1]), number(t, one[2])}
		ring := []point{at}
		for pair := range slices.Chunk(regexp.MustCompile(`-?\d+`).FindAllString(one[3], -1), 2) {
			at = point{at.x + number(t, pair[0]), at.y + number(t, pair[1])}
			ring = append(ring, at)
			if at.x < 0 || at.x > world.LandWidth || at.y < 0 || at.y > world.LandWidth/2 {
				t.Errorf("%v is outside of the map", at)
			}
		}
		rings = append(rings, ring)
	}
	return rings
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// inside reports whether a point is within an odd number of rings.
func inside(rings [][]point, p point) (in bool) {
	for _, ring := range rings {
		for i, a := range ring {
			b := ring[(i+1)%len(ring)]
			if (a.y > p.y) != (b.y > p.y) && p.x < (b.x-a.x)*(p.y-a.y)/(b.y-a.y)+a.x {
				in = !in
			}
		}
	}
	return in
}
