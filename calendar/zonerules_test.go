package calendar_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
)

const eastern = "EET-2EEST,M3.5.0/0,M10.5.0/0" // two hours east, with summer time between the last Sundays of March and October

// easternChanges are those of the rule eastern in some years, written out.
func easternChanges(from, until int) []zonetest.Change {
	var changes []zonetest.Change
	for year := from; year <= until; year++ {
		changes = append(changes,
			zonetest.Change{At: lastSunday(year, time.March).Add(-2 * time.Hour), Offset: 3 * hour},
			zonetest.Change{At: lastSunday(year, time.October).Add(-3 * time.Hour), Offset: 2 * hour})
	}
	return changes
}

// fingerprintOf takes the fingerprint of a zone file for the years 2026 to 2035.
func fingerprintOf(t *testing.T, file []byte) int64 {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, zonetest.WriteDir(dir, "", map[string][]byte{"Asia/Beirut": file}))
	d, err := calendar.OpenZoneData(dir)
	require.NoError(t, err)
	rules, err := zoneOf(t, d, "Asia/Beirut").Rules(2026)
	require.NoError(t, err)
	return rules.Fingerprint
}

// Repositories keep fingerprints for years, so what they are taken of is part of
// the contract between releases of this library.
func TestFingerprintsHaveKnownValues(t *testing.T) {
	t.Parallel()

	require.Equal(t, int64(1251994374213096084), fingerprintOf(t, zonetest.File(2*hour, nil, eastern)))
}

func TestFingerprintsDependOnTheEffectOfRulesOnly(t *testing.T) {
	t.Parallel()

	at := func(text string) time.Time { return instant(t, text) }
	want := fingerprintOf(t, zonetest.File(2*hour, nil, eastern))
	withHistory := append([]zonetest.Change{{At: at("1920-03-27T22:00:00Z"), Offset: 3 * hour}, {At: at("1920-10-24T21:00:00Z"), Offset: 2 * hour}}, easternChanges(1999, 2020)...)
	later := append(easternChanges(2020, 2035), zonetest.Change{At: at("2036-01-01T00:00:01Z"), Offset: 9 * hour})
	earlier := append([]zonetest.Change{{At: at("2025-12-31T23:59:59Z"), Offset: 2 * hour}}, easternChanges(2026, 2036)...)
	same := map[string][]byte{
		"changes written out, and the rule":      zonetest.File(2*hour, easternChanges(2000, 2037), eastern),
		"changes written out, and no rule":       zonetest.File(2*hour, easternChanges(2020, 2040), ""),
		"some written out, and the rule":         zonetest.File(2*hour, withHistory, eastern),
		"other abbreviations":                    zonetest.File(2*hour, nil, "<+02>-2<+03>,M3.5.0/0,M10.5.0/0"),
		"the same rule by another name":          zonetest.File(2*hour, nil, "EET-2EEST-3,M3.5.0/0:00,M10.5.0/0:00:00"),
		"clocks that came from elsewhere":        zonetest.File(7*hour, easternChanges(2025, 2040), ""),
		"another history":                        zonetest.File(9*hour, earlier, ""),
		"another future, a second after the end": zonetest.File(2*hour, later, ""),
	}
	for name, file := range same {
		require.Equal(t, want, fingerprintOf(t, file), name)
	}

	// Each of these differs from the rule in one thing that happens in the ten years.
	replaced := func(i int, c zonetest.Change) []byte {
		changes := easternChanges(2025, 2040)
		changes[i] = c
		return zonetest.File(2*hour, changes, "")
	}
	from2026 := easternChanges(2025, 2040)[2].At
	last := easternChanges(2035, 2035)
	different := map[string][]byte{
		"no summer time":                       zonetest.File(2*hour, nil, "EET-2"),
		"another offset all along":             zonetest.File(2*hour, nil, "EET-3EEST,M3.5.0/1,M10.5.0/1"),
		"another end of summer":                zonetest.File(2*hour, nil, "EET-2EEST,M3.5.0/0,M9.5.0/0"),
		"a change a second later":              replaced(2, zonetest.Change{At: from2026.Add(time.Second), Offset: 3 * hour}),
		"a change to another offset":           replaced(2, zonetest.Change{At: from2026, Offset: 3*hour + 1}),
		"no summer in the last year":           zonetest.File(2*hour, easternChanges(2025, 2034), ""),
		"a change in the last second":          zonetest.File(2*hour, append(easternChanges(2025, 2035), zonetest.Change{At: at("2035-12-31T23:59:59Z"), Offset: 9 * hour}), ""),
		"a change in the first second":         zonetest.File(2*hour, append([]zonetest.Change{{At: at("2025-12-31T23:00:00Z"), Offset: hour}, {At: at("2026-01-01T00:00:01Z"), Offset: 2 * hour}}, easternChanges(2026, 2040)...), ""),
		"summer time without end in that year": zonetest.File(2*hour, append(easternChanges(2025, 2034), last[0]), ""),
	}
	seen := map[int64]string{want: "the rule"}
	for name, file := range different {
		got := fingerprintOf(t, file)
		require.Empty(t, seen[got], "%s has the fingerprint of %s", name, seen[got])
		seen[got] = name
	}
}

func TestFingerprintsAreStable(t *testing.T) {
	t.Parallel()

	newYork := zone(t, "America/New_York")
	years := []int{2026, 2027, 2026, 1900, 2026, 9000, 2027}
	seen := map[int]int64{}
	for _, year := range years {
		rules, err := newYork.Rules(year)
		require.NoError(t, err)
		require.Equal(t, "America/New_York", rules.Zone)
		require.Equal(t, year, rules.Since)
		if seen[year] != 0 {
			require.Equal(t, seen[year], rules.Fingerprint, year)
		}
		seen[year] = rules.Fingerprint
	}
	require.NotEqual(t, seen[2026], seen[2027], "the window is part of it")
}

func TestLinksHaveTheFingerprintOfTheirTarget(t *testing.T) {
	t.Parallel()

	fingerprint := func(name string) int64 {
		rules, err := zone(t, name).Rules(2026)
		require.NoError(t, err)
		require.Equal(t, name, rules.Zone)
		return rules.Fingerprint
	}
	for _, name := range calendar.TimezoneNames() {
		require.Equal(t, fingerprint(zone(t, name).Canonical()), fingerprint(name), name)
	}
	require.Equal(t, fingerprint("Europe/Berlin"), fingerprint("Europe/Paris"), "clocks that agree have equal rules, whatever their names")
	require.NotEqual(t, fingerprint("Europe/Berlin"), fingerprint("Europe/London"))
	require.NotEqual(t, fingerprint("Asia/Tokyo"), fingerprint("Asia/Kolkata"), "a zone without changes is told by its offset")
}

func TestRulesRefusesZonesWithoutData(t *testing.T) {
	t.Parallel()

	for _, z := range []calendar.Timezone{{}, calendar.StoredTimezone("America/Atlantis")} {
		rules, err := z.Rules(2026)
		require.ErrorIs(t, err, calendar.ErrInvalidTimezone)
		require.Zero(t, rules)
	}
}
