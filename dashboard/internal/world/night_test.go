package world_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/dashboard/internal/world"
)

// exact is a width at which one decimal is a thousandth of a degree.
const exact = 36_000.0

// at returns the place of a point on a map of the given width.
func (p point) at(width float64) world.Place {
	return world.Place{Lat: 90 - p.y*360/width, Lon: p.x*360/width - 180}
}

func TestTerminatorIsWhereTheSunIsAtTheHorizon(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := drawInstant(t)
		line := night(t, at, exact).terminator()
		for i, p := range line {
			if got := world.Altitude(p.at(exact), at); math.Abs(got) > 0.1 {
				t.Fatalf("at %v the altitude at %v of the terminator is %v", at, p.at(exact), got)
			}
			if i == 0 {
				continue
			}
			before := line[i-1]
			if p.x <= before.x {
				t.Fatalf("at %v the terminator turns back at %v", at, p)
			}
			middle := point{(p.x + before.x) / 2, (p.y + before.y) / 2}.at(exact)
			if got := world.Altitude(middle, at); math.Abs(got) > 0.1 {
				t.Fatalf("at %v the altitude at %v of a line of the path is %v", at, middle, got)
			}
		}
	})
}

func TestNightPathHoldsThePlacesInTheDark(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := drawInstant(t)
		shadow := night(t, at, exact)
		for range 20 {
			place := world.Place{
				Lat: rapid.Float64Range(-89, 89).Draw(t, "lat"),
				Lon: rapid.Float64Range(-179.9, 179.9).Draw(t, "lon"),
			}
			altitude := world.Altitude(place, at)
			if math.Abs(altitude) < 0.2 {
				continue // the lines between the points of the terminator are straight
			}
			var p point
			p.x, p.y = world.Project(place.Lat, place.Lon, exact)
			if shadow.contains(p) != (altitude < 0) {
				t.Fatalf("at %v the altitude at %v is %v, in the shadow: %v", at, place, altitude, shadow.contains(p))
			}
		}
	})
}

func TestNightPathIsClosedInTheBox(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkNight(t, drawInstant(t), rapid.Float64Range(100, 5000).Draw(t, "width"))
	})
}

func TestNightPathClosesAtTheDarkPole(t *testing.T) {
	t.Parallel()
	for at, y := range map[string]float64{summer: 360, winter: 0, "2026-03-19T14:46:00Z": 0, "2026-03-21T14:46:00Z": 360} {
		corners := night(t, instant(t, at), 720).points
		for _, p := range corners[len(corners)-2:] {
			if p.y != y {
				t.Errorf("at %s the path ends at %v, want y %v", at, p, y)
			}
		}
	}
}

// At every minute near the equinox, including the one at which the declination changes its sign.
func TestNightPathIsHalfTheMapAtTheEquinox(t *testing.T) {
	t.Parallel()
	for offset := -90; offset <= 90; offset++ {
		at := instant(t, equinox).Add(time.Duration(offset) * time.Minute)
		shadow := night(t, at, 720)
		area := 0.0
		for i, a := range shadow.points {
			b := shadow.points[(i+1)%len(shadow.points)]
			area += (a.x*b.y - b.x*a.y) / 2
		}
		near(t, "the area at "+at.String(), math.Abs(area), 720*360/2, 720*360*0.005)
	}
}

func TestNightPathIsSmallAllYear(t *testing.T) {
	t.Parallel()
	most := 0
	for minute := 0; minute < minutesOfYear; minute += 359 {
		path := world.NightPath(date(2026).Add(time.Duration(minute)*time.Minute), 1000)
		most = max(most, len(path))
	}
	if most >= 4000 {
		t.Errorf("%d bytes, want fewer than 4000", most)
	}
}

func FuzzNightPath(f *testing.F) {
	f.Add(int64(0), 720.0)
	f.Add(int64(1774017960), 720.0) // the equinox
	f.Add(int64(-1<<40), 100.0)
	f.Add(int64(1<<40), 99_999.9)
	f.Fuzz(func(t *testing.T, seconds int64, width float64) {
		if math.IsNaN(width) || width < 100 || width > 100_000 {
			return // not a width of a map
		}
		const millennia = 1 << 40 // seconds, some 35,000 years: the formulas drift, the path stays whole
		checkNight(t, time.Unix(seconds%millennia, 0), width)
	})
}

// failer is a test or a check of a property.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func night(t failer, at time.Time, width float64) outline {
	t.Helper()
	path := world.NightPath(at, width)
	shadow, ok := parseOutline(path)
	if !ok {
		t.Fatalf("at %v the path is not one closed figure: %s", at, path)
	}
	return shadow
}

// checkNight checks that the path stays in the map and joins the left and right edges.
func checkNight(t failer, at time.Time, width float64) {
	t.Helper()
	shadow := night(t, at, width)
	const rounding = 0.05 + 1e-6 // to one decimal
	for _, p := range shadow.points {
		if p.x < 0 || p.x > width+rounding || p.y < 0 || p.y > width/2+rounding {
			t.Fatalf("at %v the path leaves the map of width %v at %v", at, width, p)
		}
	}
	line := shadow.terminator()
	first, last := line[0], line[len(line)-1]
	if first.x != 0 || math.Abs(last.x-width) > rounding || math.Abs(first.y-last.y) > 0.11 {
		t.Fatalf("at %v the terminator goes from %v to %v", at, first, last)
	}
}
