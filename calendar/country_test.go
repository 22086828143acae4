package calendar_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// namesOf returns the names of the zones of a country.
func namesOf(t *testing.T, country string) (names []string) {
	t.Helper()
	all, err := calendar.ZonesOf(country)
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range all {
		names = append(names, z.String())
	}
	return names
}

func TestZonesOfACountry(t *testing.T) {
	t.Parallel()

	for country, want := range map[string]string{
		"NO": "Europe/Oslo", // zone1970.tab has Europe/Berlin
		"RE": "Indian/Reunion",
		"de": "Europe/Berlin Europe/Busingen",
		"Nz": "Pacific/Auckland Pacific/Chatham",
		"KZ": "Asia/Almaty Asia/Qyzylorda Asia/Qostanay Asia/Aqtobe Asia/Aqtau Asia/Atyrau Asia/Oral",
	} {
		if got := strings.Join(namesOf(t, country), " "); got != want {
			t.Errorf("zones of %s: %s; want %s", country, got, want)
		}
	}
	if us := namesOf(t, "US"); len(us) != 29 || us[0] != "America/New_York" || us[28] != "Pacific/Honolulu" {
		t.Errorf("zones of the US: %v", us)
	}
}

func TestZonesOfNoCountry(t *testing.T) {
	t.Parallel()

	for code, problem := range map[string]string{
		"":    "is empty",
		"UK":  `is "UK", which is no code of ISO 3166-1; did you mean "GB"?`,
		"bv":  `is "bv", for which the time zone database has no zone`,
		"DEU": `is "DEU", which has no zones: use a code of ISO 3166-1 with two letters, such as "DE"`,
		"#":   `is "#", which has no zones: use a code of ISO 3166-1 with two letters, such as "DE"`,
		"ı":   `is "ı", which has no zones: use a code of ISO 3166-1 with two letters, such as "DE"`,
	} {
		all, err := calendar.ZonesOf(code)
		if !errors.Is(err, calendar.ErrInvalidInput) || err.Error() != "calendar: country "+problem || all != nil {
			t.Errorf("ZonesOf(%q) = %v, %v; want %s", code, all, err, problem)
		}
	}
}

// zoneTab reads the zones of each country from this machine's zone.tab. It returns nil if there is none.
func zoneTab(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("/usr/share/zoneinfo/zone.tab")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	zones := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); !strings.HasPrefix(line, "#") && len(fields) > 2 {
			zones[fields[0]] = append(zones[fields[0]], fields[2])
		}
	}
	return zones
}

// The table is compared with the machine's, if the machine has one. A machine with a newer release
// may have more zones and more countries.
func TestEveryZoneOfACountryIsAZone(t *testing.T) {
	t.Parallel()

	accepted, countries, names, single := calendar.TimezoneNames(), 0, 0, 0
	machine := zoneTab(t)
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			country := string([]rune{a, b})
			all, err := calendar.ZonesOf(country)
			if err != nil {
				continue
			}
			countries++
			if len(all) == 1 {
				single++
			}
			for _, z := range all {
				if names++; !slices.Contains(accepted, z.String()) {
					t.Errorf("%s: LoadTimezone does not accept %s", country, z)
				}
				if machine != nil && !slices.Contains(machine[country], z.String()) {
					t.Errorf("%s: the machine's zone.tab does not have %s, but %v", country, z, machine[country])
				}
			}
		}
	}
	if countries != 247 || names != 418 || single != 216 {
		t.Errorf("%d countries with %d zones, %d with one; want 247, 418 and 216", countries, names, single)
	}
}

// The figures of the table in docs/clocks.md, in the time of the easternmost zone.
func TestATimeForAWholeCountry(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		country, wanted, from, until string
		zone, wall, instant          string
		open                         bool
		outside                      time.Duration
	}{
		"the wanted time is open everywhere":      {"BR", "2027-01-15T10:00:00", "09:00", "18:00", "America/Eirunepe", "2027-01-15T10:00:00", "2027-01-15T15:00:00Z", true, 0},
		"the wanted time is too late in the east": {"US", "2027-01-15T16:00:00", "09:00", "18:00", "America/Adak", "2027-01-15T09:00:00", "2027-01-15T19:00:00Z", true, 0},
		"in summer":                                   {"US", "2027-07-15T16:00:00", "09:00", "18:00", "Pacific/Honolulu", "2027-07-15T09:00:00", "2027-07-15T19:00:00Z", true, 0},
		"a zone of half an hour":                      {"CA", "2027-01-15T17:00:00", "09:00", "18:00", "America/Vancouver", "2027-01-15T09:00:00", "2027-01-15T17:00:00Z", true, 0},
		"never open in all":                           {"RU", "2027-01-15T10:00:00", "09:00", "18:00", "Europe/Kaliningrad", "2027-01-15T08:30:00", "2027-01-15T06:30:00Z", false, 30 * time.Minute},
		"a longer day":                                {"RU", "2027-01-15T10:00:00", "08:00", "21:00", "Europe/Kaliningrad", "2027-01-15T10:00:00", "2027-01-15T08:00:00Z", true, 0},
		"one clock by many names":                     {"KZ", "2027-01-15T10:00:00", "09:00", "18:00", "Asia/Almaty", "2027-01-15T10:00:00", "2027-01-15T05:00:00Z", true, 0},
		"one zone, and a wanted time outside":         {"NO", "2027-01-15T20:00:00", "09:00", "18:00", "Europe/Oslo", "2027-01-15T09:00:00", "2027-01-15T08:00:00Z", true, 0},
		"hours over midnight":                         {"PT", "2027-01-15T23:30:00", "22:00", "02:00", "Atlantic/Azores", "2027-01-15T23:30:00", "2027-01-16T00:30:00Z", true, 0},
		"equal clocks are 24 hours":                   {"NZ", "2027-01-15T10:00:00", "00:00", "00:00", "Pacific/Auckland", "2027-01-15T10:00:00", "2027-01-14T21:00:00Z", true, 0},
		"clocks skip the opening":                     {"NO", "2027-03-28T20:00:00", "02:30", "04:00", "Europe/Oslo", "2027-03-28T03:00:00", "2027-03-28T01:00:00Z", true, 0},
		"clocks skip the hours":                       {"NO", "2027-03-28T20:00:00", "02:15", "02:45", "Europe/Oslo", "2027-03-28T03:00:00", "2027-03-28T01:00:00Z", false, 0},
		"clocks are put back into the hours":          {"NO", "2027-10-31T20:00:00", "02:30", "02:45", "Europe/Oslo", "2027-10-31T02:30:00", "2027-10-31T00:30:00Z", true, 0},
		"the default policies find no second showing": {"FM", "2027-01-15T09:00:00", "09:00", "18:00", "Pacific/Chuuk", "2027-01-15T09:00:00", "2027-01-14T23:00:00Z", true, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			all, err := calendar.ZonesOf(tt.country)
			if err != nil {
				t.Fatal(err)
			}
			got, err := calendar.InAllZones(all, wall(t, tt.wanted), clock(t, tt.from), clock(t, tt.until))

			want := calendar.SharedTime{Zone: zone(t, tt.zone), Wall: wall(t, tt.wall), Instant: instant(t, tt.instant), Open: tt.open, Outside: tt.outside}
			if err != nil || got != want {
				t.Errorf("%+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

func TestATimeForNoZonesIsRefused(t *testing.T) {
	t.Parallel()

	at := wall(t, "2027-01-15T10:00:00")
	oslo := []calendar.Timezone{zone(t, "Europe/Oslo")}
	_, err := calendar.InAllZones(nil, at, calendar.Clock{Hour: 24}, calendar.Clock{Minute: -1})
	if want := "calendar: from is 24:00:00, which no clock shows; until is 00:-1:00, which no clock shows; zones are none"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := calendar.InAllZones(oslo, calendar.WallTime{}, calendar.Clock{}, calendar.Clock{Hour: 1}); !errors.Is(err, calendar.ErrInvalidInput) {
		t.Errorf("a day that is none: %v", err)
	}
	if _, err := calendar.InAllZones(append(oslo, calendar.StoredTimezone("Asia/Nowhere")), at, calendar.Clock{}, calendar.Clock{Hour: 1}); !errors.Is(err, calendar.ErrInvalidTimezone) {
		t.Errorf("a zone without data: %v", err)
	}
}

// step divides the offsets of zones, and the clocks of the test.
const step = 15 * time.Minute

// stepsOpen returns, for each step of four days, whether clocks in z show a time in the hours.
func stepsOpen(z calendar.Timezone, date calendar.Date, from, until calendar.Clock) (open []bool) {
	begins, ends := calendar.WallTime{Date: date, Clock: from}, calendar.WallTime{Date: date, Clock: until}
	if !from.Before(until) {
		ends.Date = calendar.DateOf(calendar.WallTime{Date: date}.Labelled().AddDate(0, 0, 1))
	}
	for at, last := firstStep(date), firstStep(date).Add(96*time.Hour); at.Before(last); at = at.Add(step) {
		shown := z.WallTime(at)
		open = append(open, !shown.Before(begins) && shown.Before(ends))
	}
	return open
}

func firstStep(date calendar.Date) time.Time {
	return calendar.WallTime{Date: date}.Labelled().Add(-36 * time.Hour)
}

// away returns how many steps a step is from the open ones, or -1 if none is open.
func away(open []bool, at int) int {
	for d := range open {
		if at-d >= 0 && open[at-d] || at+d < len(open) && open[at+d] {
			return d
		}
	}
	return -1
}

// Whatever the zones, the day and the hours: what InAllZones calls open is open in all zones. If any
// step is open in all, it finds the first one, or the wanted time. Otherwise no step is better.
func TestATimeForAllZonesIsTheBestOne(t *testing.T) {
	t.Parallel()

	random := rand.New(rand.NewPCG(3, 1))
	names := calendar.TimezoneNames()
	opened := 0
	for range 300 {
		odd := calendartest.OddChanges[random.IntN(len(calendartest.OddChanges))]
		if odd.At < "1970" { // offsets then were no multiples of the step
			continue
		}
		zones := []calendar.Timezone{zone(t, odd.Zone)}
		for range random.IntN(5) {
			zones = append(zones, zone(t, names[random.IntN(len(names))]))
		}
		date := zones[0].WallTime(instant(t, odd.At).AddDate(0, 0, random.IntN(3)-1)).Date
		drawn := func() calendar.Clock {
			return calendar.Clock{Hour: random.IntN(24), Minute: 15 * random.IntN(4)}
		}
		wanted, from, until := calendar.WallTime{Date: date, Clock: drawn()}, drawn(), drawn()
		what := fmt.Sprintf("%v, wanted %s, from %s until %s", zones, wanted, from, until)
		got, err := calendar.InAllZones(zones, wanted, from, until)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got.Zone.WallTime(got.Instant) != got.Wall || !slices.Contains(zones, got.Zone) {
			t.Errorf("%s: clocks in %s do not show %s at %s", what, got.Zone, got.Wall, got.Instant)
		}
		best := bestSteps(zones, date, from, until)
		at := int(got.Instant.Sub(firstStep(date)) / step)
		if got.Open {
			opened++
		}
		switch want := got.Instant.Equal(latestShowing(t, zones, wanted)) && best.all[at]; {
		case got.Open != (best.first >= 0):
			t.Errorf("%s: %+v, but the first step open in all is %d", what, got, best.first)
		case got.Open && !want && at != best.first:
			t.Errorf("%s: step %d, and step %d is open in all before", what, at, best.first)
		case !got.Open && best.least >= 0 && int((got.Outside+step-1)/step) > best.least:
			t.Errorf("%s: %v outside, and a step is only %d steps outside", what, got.Outside, best.least)
		}
	}
	if opened < 30 || opened > 270 {
		t.Errorf("%d of 300 were open in all zones, which is too one-sided", opened)
	}
}

// best is what a search step by step finds.
type best struct {
	all   []bool // the steps that are open in all zones
	first int    // of these; -1 if there is none
	least int    // how far the best step is outside, by the worst zone; -1 if the hours never open in a zone
}

func bestSteps(zones []calendar.Timezone, date calendar.Date, from, until calendar.Clock) best {
	var each [][]bool
	for _, z := range zones {
		each = append(each, stepsOpen(z, date, from, until))
	}
	b := best{all: make([]bool, len(each[0])), least: -1}
	for i := range b.all {
		b.all[i] = !slices.ContainsFunc(each, func(open []bool) bool { return !open[i] })
	}
	if b.first = slices.Index(b.all, true); b.first >= 0 {
		return b
	}
	for i := range b.all {
		worst := 0
		for _, open := range each {
			d := away(open, i)
			if d < 0 {
				return b
			}
			worst = max(worst, d)
		}
		if b.least < 0 || worst < b.least {
			b.least = worst
		}
	}
	return b
}

func latestShowing(t *testing.T, zones []calendar.Timezone, w calendar.WallTime) (latest time.Time) {
	t.Helper()
	for _, z := range zones {
		r, err := z.Resolve(w, calendar.Policies{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Instant.After(latest) {
			latest = r.Instant
		}
	}
	return latest
}

func clock(t *testing.T, text string) calendar.Clock {
	t.Helper()
	c, err := calendar.ParseClock(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
