package calendar_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
	"github.com/almanac-go/almanac/internal/zones"
)

// Two releases of a database of our own. In it Tokyo has summer time from the
// second on, and Calcutta has clocks that no real zone has.
var (
	tokyoFirst  = zonetest.File(9*hour, nil, "JST-9")
	tokyoSecond = zonetest.File(9*hour, nil, "JST-9JDT,M4.1.0,M10.1.0")
	calcutta    = zonetest.File(7*hour, nil, "XXT-7")
)

// zonePlace is a directory or a zip file whose files a test replaces.
type zonePlace struct {
	path  string
	write func(t *testing.T, version string, files map[string][]byte)
}

func zonePlaces(t *testing.T) map[string]zonePlace {
	t.Helper()
	dir, zip := filepath.Join(t.TempDir(), "zoneinfo"), filepath.Join(t.TempDir(), "zoneinfo.zip")
	return map[string]zonePlace{
		"a directory": {dir, func(t *testing.T, version string, files map[string][]byte) {
			t.Helper()
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, zonetest.WriteDir(dir, version, files))
		}},
		"a zip file": {zip, func(t *testing.T, version string, files map[string][]byte) {
			t.Helper()
			data, err := zonetest.Zip(version, files)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(zip, data, 0o600))
		}},
	}
}

func zoneOf(t *testing.T, d *calendar.ZoneData, name string) calendar.Timezone {
	t.Helper()
	z, err := d.Timezone(name)
	require.NoError(t, err)
	return z
}

// summerHour is what clocks in z show on a summer's day at 00:00 UTC.
func summerHour(t *testing.T, z calendar.Timezone) int {
	t.Helper()
	return z.WallTime(instant(t, "2026-07-01T00:00:00Z")).Clock.Hour
}

func versionOf(t *testing.T, z calendar.Timezone) string {
	t.Helper()
	rules, err := z.Rules(2026)
	require.NoError(t, err)
	return rules.Version
}

func TestOpenZoneDataFollowsItsOwnFiles(t *testing.T) {
	t.Parallel()

	for name, place := range zonePlaces(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place.write(t, "2026a", map[string][]byte{"Asia/Tokyo": tokyoSecond, "Asia/Calcutta": calcutta})

			d, err := calendar.OpenZoneData(place.path)

			require.NoError(t, err)
			tokyo, old := zoneOf(t, d, "asia/TOKYO"), zoneOf(t, d, "Asia/Calcutta")
			require.Equal(t, "Asia/Tokyo", tokyo.String())
			require.Equal(t, 10, summerHour(t, tokyo), "by these files Tokyo has summer time")
			require.Equal(t, 9, summerHour(t, zone(t, "Asia/Tokyo")), "the program's own rules are others")
			require.Equal(t, 7, summerHour(t, old))
			require.Equal(t, "Asia/Kolkata", old.Canonical())
			r, err := tokyo.Resolve(wall(t, "2026-07-01T10:00:00"), calendar.Policies{})
			require.NoError(t, err)
			require.Equal(t, instant(t, "2026-07-01T00:00:00Z"), r.Instant)
			rules, err := tokyo.Rules(2026)
			require.NoError(t, err)
			require.Equal(t, calendar.ZoneRules{Zone: "Asia/Tokyo", Fingerprint: rules.Fingerprint, Since: 2026, Version: "2026a"}, rules)
		})
	}
}

func TestOpenZoneDataRefuses(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("no zone"), 0o600))
	for name, path := range map[string]string{"nothing": filepath.Join(dir, "nothing"), "no path": ""} {
		_, err := calendar.OpenZoneData(path)
		require.ErrorIs(t, err, fs.ErrNotExist, name)
	}
	for name, path := range map[string]string{"a directory without zones": dir, "a file that is no archive": text} {
		_, err := calendar.OpenZoneData(path)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, fs.ErrNotExist, name)
		require.ErrorContains(t, err, path, name)
	}
}

func TestZoneDataDistinguishesMissingFilesFromBrokenOnes(t *testing.T) {
	t.Parallel()

	for name, place := range zonePlaces(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place.write(t, "", map[string][]byte{"Asia/Tokyo": tokyoFirst, "Asia/Calcutta": calcutta[:len(calcutta)/2]})
			d, err := calendar.OpenZoneData(place.path)
			require.NoError(t, err)
			require.Empty(t, versionOf(t, zoneOf(t, d, "Asia/Tokyo")), "these files do not say their version")

			var missing, broken, unknown *calendar.InvalidTimezoneError
			_, err = d.Timezone("europe/berlin")
			require.ErrorAs(t, err, &missing)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.True(t, missing.NoData)
			require.Equal(t, "Europe/Berlin", missing.Name)

			_, err = d.Timezone("Asia/Calcutta")
			require.ErrorAs(t, err, &broken)
			require.NotErrorIs(t, err, fs.ErrNotExist)
			require.True(t, broken.NoData)
			require.ErrorContains(t, err, "Asia/Calcutta in "+place.path)

			_, err = d.Timezone("Asia/Tokio")
			require.ErrorAs(t, err, &unknown)
			require.Equal(t, &calendar.InvalidTimezoneError{Name: "Asia/Tokio", Suggestion: "Asia/Tokyo"}, unknown)
		})
	}
}

func TestReloadGivesNewRulesToExistingTimezones(t *testing.T) {
	t.Parallel()

	for name, place := range zonePlaces(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place.write(t, "2026a", map[string][]byte{"Asia/Tokyo": tokyoFirst, "Asia/Calcutta": calcutta})
			d, err := calendar.OpenZoneData(place.path)
			require.NoError(t, err)
			tokyo, old := zoneOf(t, d, "Asia/Tokyo"), zoneOf(t, d, "Asia/Calcutta")
			before, err := tokyo.Rules(2026)
			require.NoError(t, err)
			place.write(t, "2026b", map[string][]byte{"Asia/Tokyo": tokyoSecond, "Asia/Calcutta": calcutta, "Europe/Berlin": calcutta})
			require.Equal(t, 9, summerHour(t, tokyo), "files alone change nothing")

			require.NoError(t, d.Reload())

			require.Equal(t, 10, summerHour(t, tokyo))
			require.Equal(t, 7, summerHour(t, old))
			require.Equal(t, "2026b", versionOf(t, tokyo))
			after, err := tokyo.Rules(2026)
			require.NoError(t, err)
			require.NotEqual(t, before.Fingerprint, after.Fingerprint, "what was taken of the old rules is not kept")
			require.True(t, tokyo == zoneOf(t, d, "Asia/Tokyo"), "it is still the same zone")
			require.Equal(t, 7, summerHour(t, zoneOf(t, d, "Europe/Berlin")), "a zone that was not there is found")
			change, ok := tokyo.NextChange(instant(t, "2026-01-01T00:00:00Z"))
			require.True(t, ok)
			require.Equal(t, instant(t, "2026-04-04T17:00:00Z"), change.At)
		})
	}
}

func TestReloadKeepsWhatItCannotReplace(t *testing.T) {
	t.Parallel()

	for name, place := range zonePlaces(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place.write(t, "2026a", map[string][]byte{"Asia/Tokyo": tokyoFirst, "Asia/Calcutta": calcutta, "Europe/Berlin": calcutta})
			d, err := calendar.OpenZoneData(place.path)
			require.NoError(t, err)
			tokyo, old, berlin := zoneOf(t, d, "Asia/Tokyo"), zoneOf(t, d, "Asia/Calcutta"), zoneOf(t, d, "Europe/Berlin")
			expect := func(tokyoHour int, tokyoVersion string) {
				t.Helper()
				require.Equal(t, []int{tokyoHour, 7, 7}, []int{summerHour(t, tokyo), summerHour(t, old), summerHour(t, berlin)})
				require.Equal(t, []string{tokyoVersion, "2026a", "2026a"}, []string{versionOf(t, tokyo), versionOf(t, old), versionOf(t, berlin)})
			}

			place.write(t, "2026b", map[string][]byte{"Asia/Tokyo": tokyoSecond, "Asia/Calcutta": []byte("TZif?")})
			err = d.Reload()
			require.ErrorContains(t, err, "Asia/Calcutta")
			require.NotContains(t, err.Error(), "Europe/Berlin", "a file that is gone is no error")
			require.NotErrorIs(t, err, fs.ErrNotExist)
			expect(10, "2026b")

			require.NoError(t, os.RemoveAll(place.path))
			require.ErrorIs(t, d.Reload(), fs.ErrNotExist)
			expect(10, "2026b")

			place.write(t, "2026c", map[string][]byte{"Asia/Tokyo": tokyoFirst})
			require.NoError(t, d.Reload())
			expect(9, "2026c")
		})
	}
}

func TestTimezonesOfDifferentDataAreEqualAndNotIdentical(t *testing.T) {
	t.Parallel()

	open := func() *calendar.ZoneData {
		dir := t.TempDir()
		require.NoError(t, zonetest.WriteDir(dir, "2026a", map[string][]byte{"Asia/Tokyo": tokyoFirst, "Asia/Calcutta": calcutta, "Asia/Kolkata": calcutta}))
		d, err := calendar.OpenZoneData(dir)
		require.NoError(t, err)
		return d
	}
	one, other := open(), open()
	tokyo := zoneOf(t, one, "Asia/Tokyo")
	require.True(t, tokyo == zoneOf(t, one, "asia/tokyo"))
	require.False(t, tokyo == zoneOf(t, other, "Asia/Tokyo"))
	require.True(t, tokyo.Equal(zoneOf(t, other, "Asia/Tokyo")))
	require.False(t, tokyo == zone(t, "Asia/Tokyo"))
	require.True(t, tokyo.Equal(zone(t, "Asia/Tokyo")))
	require.False(t, zoneOf(t, one, "Asia/Calcutta") == zoneOf(t, one, "Asia/Kolkata"))
	require.True(t, zoneOf(t, one, "Asia/Calcutta").Equal(zoneOf(t, one, "Asia/Kolkata")))
	require.False(t, tokyo.Equal(zoneOf(t, one, "Asia/Kolkata")))
}

func TestTimezonesThatAreLoadedAtOnceAreIdentical(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	require.NoError(t, zonetest.WriteDir(dir, "2026a", map[string][]byte{"Asia/Tokyo": tokyoFirst}))
	for range 100 {
		d, err := calendar.OpenZoneData(dir)
		require.NoError(t, err)
		var loaded [8]calendar.Timezone
		var group sync.WaitGroup
		all := make(chan struct{})
		for i := range loaded {
			group.Go(func() {
				<-all
				loaded[i], _ = d.Timezone("Asia/Tokyo")
			})
		}
		close(all)
		group.Wait()
		require.Equal(t, 9, summerHour(t, loaded[0]))
		for _, z := range loaded {
			require.True(t, z == loaded[0])
		}
	}
}

func TestOwnZoneDataIsWhatLoadTimezoneUses(t *testing.T) {
	t.Parallel()

	tokyo := zone(t, "Asia/Tokyo")
	require.True(t, tokyo == zoneOf(t, calendar.OwnZoneData(), "Asia/Tokyo"))
	before, err := tokyo.Rules(2026)
	require.NoError(t, err)

	require.NoError(t, calendar.OwnZoneData().Reload())

	require.True(t, tokyo == zone(t, "Asia/Tokyo"))
	after, err := tokyo.Rules(2026)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, 9, summerHour(t, tokyo))
}

// A caller that asks while rules are replaced gets the old rules or the new ones, never a
// mixture.
func TestReloadIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()

	place := zonePlaces(t)["a directory"]
	first, second := map[string][]byte{"Asia/Tokyo": tokyoFirst}, map[string][]byte{"Asia/Tokyo": tokyoSecond}
	place.write(t, "2026a", first)
	d, err := calendar.OpenZoneData(place.path)
	require.NoError(t, err)
	tokyo := zoneOf(t, d, "Asia/Tokyo")
	var group sync.WaitGroup
	ended := make(chan struct{})
	var seen sync.Map
	for range 2 {
		group.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				rules, err := tokyo.Rules(2026)
				z, errZone := d.Timezone("Asia/Tokyo")
				if err != nil || errZone != nil || z != tokyo {
					t.Errorf("while rules are replaced: %v, %v, the same zone %v", err, errZone, z == tokyo)
					return
				}
				if known, again := seen.LoadOrStore(rules.Version, rules.Fingerprint); again && known != rules.Fingerprint {
					t.Errorf("release %s has the fingerprints %v and %v", rules.Version, known, rules.Fingerprint)
					return
				}
			}
		})
	}
	for range 20 {
		require.NoError(t, zonetest.WriteDir(place.path, "2026b", second))
		require.NoError(t, d.Reload())
		require.NoError(t, zonetest.WriteDir(place.path, "2026a", first))
		require.NoError(t, d.Reload())
	}
	close(ended)
	group.Wait()
}

func TestTimezoneNamesReturnsASortedCopy(t *testing.T) {
	t.Parallel()

	names := calendar.TimezoneNames()
	require.True(t, slices.IsSorted(names))
	require.ElementsMatch(t, zones.Names(), names)
	require.Equal(t, slices.Compact(slices.Clone(names)), names, "none is there twice")
	require.Subset(t, names, []string{"UTC", "Etc/UTC", "US/Pacific", "Asia/Calcutta", "Europe/Oslo", "America/Argentina/Buenos_Aires"})
	names[0] = "scribbled over"
	require.NotEqual(t, names[0], calendar.TimezoneNames()[0])
}

// lastSunday returns the last Sunday of a month, at midnight UTC.
func lastSunday(year int, month time.Month) time.Time {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	return last.AddDate(0, 0, -int(last.Weekday()))
}
