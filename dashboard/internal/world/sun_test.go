package world_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/dashboard/internal/world"
)

func TestSunStandsWhereTheTablesSay(t *testing.T) {
	t.Parallel()
	for at, declination := range map[string]float64{equinox: 0.002, summer: 23.435, winter: -23.435} {
		lat, _ := world.Sun(instant(t, at))
		near(t, "the declination at "+at, lat, declination, 0.003)
	}
	// The equation of time is -14.2 minutes in February and 16.4 in November.
	for at, lon := range map[string]float64{"2026-02-11T12:00:00Z": 3.55, "2026-11-03T12:00:00Z": -4.11} {
		_, got := world.Sun(instant(t, at))
		near(t, "the longitude at "+at, got, lon, 0.01)
	}
}

// The mean of the times at which the sun crosses Greenwich is noon, and of its latitudes is close
// to the equator.
func TestSunIsOverGreenwichAtNoonOnAverage(t *testing.T) {
	t.Parallel()
	sum, count := 0.0, 0
	for day := date(2026).Add(12 * time.Hour); day.Year() == 2026; day = day.AddDate(0, 0, 1) {
		lat, lon := world.Sun(day)
		if math.Abs(lat) > 23.45 || math.Abs(lon) > 4.2 {
			t.Errorf("on %v the sun stands over %v, %v", day, lat, lon)
		}
		sum, count = sum+lon, count+1
	}
	near(t, "the mean longitude at noon", sum/float64(count), 0, 0.05)
}

func TestSunMovesWestAndStaysInRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := drawInstant(t)
		lat, lon := world.Sun(at)
		if math.Abs(lat) > 23.46 || math.Abs(lon) > 180 {
			t.Fatalf("at %v the sun stands over %v, %v", at, lat, lon)
		}
		for _, after := range []time.Duration{time.Minute, time.Second / 2} {
			_, later := world.Sun(at.Add(after))
			want := after.Hours() * 15
			if moved := math.Remainder(lon-later, 360); math.Abs(moved-want) > 0.001*want+1e-6 {
				t.Fatalf("in the %v after %v the sun moved %v degrees west, want %v", after, at, moved, want)
			}
		}
	})
}

func TestSunIsOverheadWhereItStands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := drawInstant(t)
		lat, lon := world.Sun(at)
		below := world.Place{Lat: lat, Lon: lon}
		opposite := world.Place{Lat: -lat, Lon: math.Remainder(lon+180, 360)}
		if got := world.Altitude(below, at); math.Abs(got-90) > 1e-4 {
			t.Fatalf("the altitude under the sun is %v", got)
		}
		if got := world.Altitude(opposite, at); math.Abs(got+90) > 1e-4 {
			t.Fatalf("the altitude opposite the sun is %v", got)
		}
		// Along the meridian under the sun, the altitude falls by a degree for each degree.
		away := rapid.Float64Range(0, 60).Draw(t, "away")
		if got := world.Altitude(world.Place{Lat: lat + away, Lon: lon}, at); math.Abs(got-(90-away)) > 1e-4 {
			t.Fatalf("%v degrees north of the sun, its altitude is %v", away, got)
		}
	})
}

func TestAltitudeAtTheOppositePointIsTheNegative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := drawInstant(t)
		place := world.Place{Lat: rapid.Float64Range(-90, 90).Draw(t, "lat"), Lon: rapid.Float64Range(-180, 180).Draw(t, "lon")}
		opposite := world.Place{Lat: -place.Lat, Lon: place.Lon + 180}
		if sum := world.Altitude(place, at) + world.Altitude(opposite, at); math.Abs(sum) > 1e-4 {
			t.Fatalf("altitudes at %v and opposite differ by %v", place, sum)
		}
	})
}

func TestDaylightChangesAtSunsetAndDusk(t *testing.T) {
	t.Parallel()
	at := instant(t, equinox)
	_, lon := world.Sun(at)
	for _, tt := range []struct {
		away float64 // degrees along the equator from the point under the sun
		want world.Phase
	}{
		{0, world.Day},
		{90.8, world.Day},
		{90.9, world.Twilight},
		{95.9, world.Twilight},
		{96.1, world.Night},
		{180, world.Night},
	} {
		for _, sign := range []float64{-1, 1} {
			place := world.Place{Lon: math.Remainder(lon+sign*tt.away, 360)}
			if got := world.Daylight(place, at); got != tt.want {
				t.Errorf("%v degrees from the sun it is %s, want %s", sign*tt.away, got, tt.want)
			}
		}
	}
}

func TestDaylightAtKnownPlaces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		zone, at string
		want     world.Phase
	}{
		{"Europe/Berlin", "2026-06-21T12:00:00Z", world.Day},
		{"Europe/Berlin", "2026-12-21T18:00:00Z", world.Night},
		{"America/New_York", "2026-12-21T21:50:00Z", world.Twilight}, // sunset is at 16:32 there
		{"Arctic/Longyearbyen", "2026-06-21T23:00:00Z", world.Day},   // the sun does not set
		{"Arctic/Longyearbyen", "2026-12-21T11:00:00Z", world.Night}, // and does not rise
		{"Asia/Tokyo", "2026-03-20T03:00:00Z", world.Day},
	} {
		place, _ := world.Find(tt.zone)
		if got := world.Daylight(place, instant(t, tt.at)); got != tt.want {
			t.Errorf("in %s at %s it is %s, want %s", tt.zone, tt.at, got, tt.want)
		}
	}
}
