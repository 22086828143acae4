package world_test

import (
	"encoding/xml"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/dashboard/internal/world"
)

func TestProjectFillsTheBox(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ lat, lon, width, x, y float64 }{
		{90, -180, 720, 0, 0},
		{-90, 180, 720, 720, 360},
		{0, 0, 720, 360, 180},
		{51.5, 0, 360, 180, 38.5},
		{-33, 151, 1000, 919.444, 341.667},
	} {
		x, y := world.Project(tt.lat, tt.lon, tt.width)
		near(t, "x", x, tt.x, 0.001)
		near(t, "y", y, tt.y, 0.001)
	}
}

func TestProjectStaysInTheBoxAndKeepsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.Float64Range(100, 10_000).Draw(t, "width")
		lats, lons := rapid.Float64Range(-90, 90), rapid.Float64Range(-180, 180)
		lat, lon := lats.Draw(t, "lat"), lons.Draw(t, "lon")
		lat2, lon2 := lats.Draw(t, "lat2"), lons.Draw(t, "lon2")
		x, y := world.Project(lat, lon, width)
		x2, y2 := world.Project(lat2, lon2, width)
		const rounding = 1e-9
		if x < 0 || x > width+rounding || y < 0 || y > width/2+rounding {
			t.Fatalf("(%v, %v) is outside", x, y)
		}
		if lon < lon2 && x > x2 || lat > lat2 && y > y2 {
			t.Fatalf("(%v, %v) and (%v, %v) are in the wrong order", x, y, x2, y2)
		}
	})
}

func TestGraticuleHasEveryLine(t *testing.T) {
	t.Parallel()
	path := world.GraticulePath(720)
	for _, line := range []string{"M0 0V360", "M30 0V360", "M360 0V360", "M720 0V360", "M0 0H720", "M0 60H720", "M0 180H720", "M0 360H720"} {
		if !strings.Contains(path, line) {
			t.Errorf("no line %s", line)
		}
	}
	if lines := strings.Count(path, "M"); lines != 25+7 {
		t.Errorf("%d lines, want 25 meridians and 7 parallels", lines)
	}
	for _, width := range []float64{360, 720, 1000, 1234.5} {
		if size := len(world.GraticulePath(width)); size >= 3000 {
			t.Errorf("%d bytes at width %g, want fewer than 3000", size, width)
		}
	}
}

func TestDotIsACircleWithATitle(t *testing.T) {
	t.Parallel()
	berlin, _ := world.Find("Europe/Berlin")
	want := `<circle class="d" cx="386.7" cy="75" r="2.5"><title>Europe/Berlin</title></circle>`
	if got := world.Dot(berlin, "d", 720, 2.5); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want = `<circle class="d" cx="386.7" cy="75"><title>Europe/Berlin</title></circle>`
	if got := world.Dot(berlin, "d", 720, 0); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDotEscapesNamesAndClasses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		printable := rapid.StringMatching(`[ -~]{0,20}`)
		place := world.Place{Zone: printable.Draw(t, "zone")}
		class := printable.Draw(t, "class")
		var circle struct {
			Class string `xml:"class,attr"`
			Title string `xml:"title"`
		}
		text := world.Dot(place, class, 720, 1)
		if err := xml.Unmarshal([]byte(text), &circle); err != nil || circle.Class != class || circle.Title != place.Zone {
			t.Fatalf("%s is read as %+v, %v", text, circle, err)
		}
	})
}

func TestDotsAreSmall(t *testing.T) {
	t.Parallel()
	size := 0
	for _, place := range world.CanonicalPlaces() {
		size += len(world.Dot(place, "d", 1000, 2.5))
	}
	if size >= 45_000 {
		t.Errorf("%d bytes of dots, want fewer than 45000", size)
	}
}
