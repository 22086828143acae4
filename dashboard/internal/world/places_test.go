package world_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/dashboard/internal/world"
)

// placeless are the accepted names outside Etc that have no place.
var placeless = []string{"GMT", "GMT+0", "GMT-0", "GMT0", "Greenwich", "UCT", "UTC", "Universal", "Zulu"}

func TestEveryZoneHasAPlaceExceptUTCAndEtc(t *testing.T) {
	t.Parallel()
	without := 0
	for _, name := range calendar.TimezoneNames() {
		place, found := world.Find(name)
		nowhere := strings.HasPrefix(name, "Etc/") || slices.Contains(placeless, name)
		if found == nowhere {
			t.Errorf("Find(%q) reports %v", name, found)
		}
		if !found {
			without++
		} else if place.Zone != name {
			t.Errorf("Find(%q) returns the place of %q", name, place.Zone)
		}
	}
	if without != 44 {
		t.Errorf("%d names have no place, want 44", without)
	}
}

func TestPlacesAreAcceptedZonesInOrder(t *testing.T) {
	t.Parallel()
	accepted := calendar.TimezoneNames()
	places := world.Places()
	if len(places)+44 != len(accepted) {
		t.Errorf("%d places, want one for all but 44 of %d names", len(places), len(accepted))
	}
	for _, place := range places {
		if _, ok := slices.BinarySearch(accepted, place.Zone); !ok {
			t.Errorf("%q is no accepted zone", place.Zone)
		}
		if math.Abs(place.Lat) > 90 || math.Abs(place.Lon) > 180 {
			t.Errorf("%v is not on the Earth", place)
		}
		if found, ok := world.Find(place.Zone); !ok || found != place {
			t.Errorf("Find(%q) = %v, want %v", place.Zone, found, place)
		}
	}
	inOrder(t, places)
}

func TestCanonicalPlacesAreThereOnce(t *testing.T) {
	t.Parallel()
	places := world.CanonicalPlaces()
	inOrder(t, places)
	if len(places) != 437 {
		t.Errorf("%d canonical places, want 437", len(places))
	}
	at := make(map[[2]float64]string)
	for _, place := range places {
		where := [2]float64{place.Lat, place.Lon}
		if other := at[where]; other != "" {
			t.Errorf("%s is where %s is", place.Zone, other)
		}
		at[where] = place.Zone
	}
	for _, place := range world.Places() {
		canonical, ok := world.Find(zone(t, place.Zone).Canonical())
		if !ok || canonical.Lat != place.Lat || canonical.Lon != place.Lon {
			t.Errorf("%v is not where its canonical zone is: %v", place, canonical)
		}
		_, listed := slices.BinarySearchFunc(places, place.Zone, func(p world.Place, name string) int { return strings.Compare(p.Zone, name) })
		if listed != (canonical.Zone == place.Zone) {
			t.Errorf("the canonical places have %s: %v", place.Zone, listed)
		}
	}
}

func TestCallersOwnTheSlicesOfPlaces(t *testing.T) {
	t.Parallel()
	for _, list := range []func() []world.Place{world.Places, world.CanonicalPlaces} {
		list()[0].Zone = "changed"
		if list()[0].Zone == "changed" {
			t.Error("a caller changed the places of others")
		}
	}
}

func TestPlacesOfKnownCities(t *testing.T) {
	t.Parallel()
	for _, city := range []world.Place{
		{"America/New_York", 40.71, -74.01},
		{"EST5EDT", 40.71, -74.01},
		{"US/Pacific", 34.05, -118.24},
		{"America/Sao_Paulo", -23.55, -46.63},
		{"America/Montreal", 45.51, -73.55}, // merged into Toronto
		{"America/Yellowknife", 62.45, -114.37},
		{"Europe/London", 51.51, -0.13},
		{"Europe/Belfast", 54.60, -5.93}, // merged into London
		{"Europe/Stockholm", 59.33, 18.07},
		{"Europe/Kiev", 50.45, 30.52},
		{"Europe/Zaporozhye", 47.84, 35.14},
		{"Iceland", 64.15, -21.94}, // its rules are those of Abidjan
		{"Africa/Abidjan", 5.36, -4.01},
		{"Africa/Timbuktu", 12.64, -8.00}, // a former name of Bamako's zone
		{"Africa/Johannesburg", -26.20, 28.05},
		{"Atlantic/Jan_Mayen", 71.0, -8.2}, // its rules are those of Berlin
		{"Asia/Calcutta", 22.57, 88.36},
		{"Asia/Kathmandu", 27.72, 85.32},
		{"Asia/Choibalsan", 48.08, 114.54},
		{"Asia/Tokyo", 35.68, 139.69},
		{"Australia/Currie", -39.93, 143.85},
		{"Australia/Sydney", -33.87, 151.21},
		{"Pacific/Kiritimati", 1.87, -157.43},
		{"Pacific/Johnston", 16.73, -169.53},
		{"Pacific/Auckland", -36.85, 174.76},
		{"Antarctica/South_Pole", -77.85, 166.67}, // a former name of McMurdo's zone
		{"Antarctica/Casey", -66.28, 110.53},
	} {
		place, ok := world.Find(city.Zone)
		if !ok {
			t.Errorf("%s has no place", city.Zone)
			continue
		}
		near(t, "the latitude of "+city.Zone, place.Lat, city.Lat, 0.5)
		near(t, "the longitude of "+city.Zone, place.Lon, city.Lon, 0.5)
	}
}

func TestPlacesKeepMinutesAndSeconds(t *testing.T) {
	t.Parallel()
	for _, want := range []world.Place{
		{"America/Shiprock", 36 + 47.0/60 + 8.0/3600, -(108 + 41.0/60 + 11.0/3600)}, // +364708-1084111
		{"Australia/Currie", -(39 + 56.0/60), 143 + 52.0/60},                        // -3956+14352
	} {
		place, _ := world.Find(want.Zone)
		near(t, "the latitude of "+want.Zone, place.Lat, want.Lat, 1e-9)
		near(t, "the longitude of "+want.Zone, place.Lon, want.Lon, 1e-9)
	}
}

func TestFindRefusesOtherNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "asia/tokyo", "Local", "Factory", "#", "Atlantis/Capital", "+404251-0740023"} {
		if place, ok := world.Find(name); ok {
			t.Errorf("Find(%q) = %v", name, place)
		}
	}
}

func TestPlacesLieNearTheirStandardTime(t *testing.T) {
	t.Parallel()
	january, july := instant(t, "2026-01-15T12:00:00Z"), instant(t, "2026-07-15T12:00:00Z")
	for _, place := range world.Places() {
		z := zone(t, place.Zone)
		hours := func(wall calendar.WallTime) float64 { return wall.Labelled().Sub(january).Hours() }
		standard := min(hours(z.WallTime(january)), hours(z.WallTime(july))-july.Sub(january).Hours())
		// Kiritimati, at UTC+14, lies where UTC-10 is.
		if apart := math.Abs(math.Remainder(standard-place.Lon/15, 24)); apart > 5 {
			t.Errorf("%s is at UTC%+g and its longitude %.1f at %.1f hours from there", place.Zone, standard, place.Lon, apart)
		}
	}
}

func inOrder(t *testing.T, places []world.Place) {
	t.Helper()
	for i := 1; i < len(places); i++ {
		if cmp.Compare(places[i-1].Zone, places[i].Zone) >= 0 {
			t.Errorf("%s precedes %s", places[i-1].Zone, places[i].Zone)
		}
	}
}
