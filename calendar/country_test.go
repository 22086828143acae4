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
		country, wanted, hours string
		zone, wall, instant    string
		open                   bool
		outside                time.Duration
	}{
		"the wanted time is open everywhere":      {"BR", "2027-01-15T10:00:00", "09:00-18:00", "America/Eirunepe", "2027-01-15T10:00:00", "2027-01-15T15:00:00Z", true, 0},
		"the wanted time is too late in the east": {"US", "2027-01-15T16:00:00", "09:00-18:00", "America/Adak", "2027-01-15T09:00:00", "2027-01-15T19:00:00Z", true, 0},
		"in summer":                                   {"US", "2027-07-15T16:00:00", "09:00-18:00", "Pacific/Honolulu", "2027-07-15T09:00:00", "2027-07-15T19:00:00Z", true, 0},
		"a zone of half an hour":                      {"CA", "2027-01-15T17:00:00", "09:00-18:00", "America/Vancouver", "2027-01-15T09:00:00", "2027-01-15T17:00:00Z", true, 0},
		"never open in all":                           {"RU", "2027-01-15T10:00:00", "09:00-18:00", "Europe/Kaliningrad", "2027-01-15T08:30:00", "2027-01-15T06:30:00Z", false, 30 * time.Minute},
		"a longer day":                                {"RU", "2027-01-15T10:00:00", "08:00-21:00", "Europe/Kaliningrad", "2027-01-15T10:00:00", "2027-01-15T08:00:00Z", true, 0},
		"one clock by many names":                     {"KZ", "2027-01-15T10:00:00", "09:00-18:00", "Asia/Almaty", "2027-01-15T10:00:00", "2027-01-15T05:00:00Z", true, 0},
		"one zone, and a wanted time outside":         {"NO", "2027-01-15T20:00:00", "09:00-18:00", "Europe/Oslo", "2027-01-15T09:00:00", "2027-01-15T08:00:00Z", true, 0},
		"hours over midnight":                         {"PT", "2027-01-15T23:30:00", "22:00-02:00", "Atlantic/Azores", "2027-01-15T23:30:00", "2027-01-16T00:30:00Z", true, 0},
		"late, always open":                           {"US", "2027-01-15T23:00:00", "00:00-00:00", "America/Adak", "2027-01-15T23:00:00", "2027-01-16T09:00:00Z", true, 0},
		"equal clocks are 24 hours":                   {"NZ", "2027-01-15T10:00:00", "00:00-00:00", "Pacific/Auckland", "2027-01-15T10:00:00", "2027-01-14T21:00:00Z", true, 0},
		"clocks skip the opening":                     {"NO", "2027-03-28T20:00:00", "02:30-04:00", "Europe/Oslo", "2027-03-28T03:00:00", "2027-03-28T01:00:00Z", true, 0},
		"clocks skip the hours":                       {"NO", "2027-03-28T20:00:00", "02:15-02:45", "Europe/Oslo", "2027-03-28T03:00:00", "2027-03-28T01:00:00Z", false, 0},
		"clocks are put back into the hours":          {"NO", "2027-10-31T20:00:00", "02:30-02:45", "Europe/Oslo", "2027-10-31T02:30:00", "2027-10-31T00:30:00Z", true, 0},
		"the default policies find no second showing": {"FM", "2027-01-15T09:00:00", "09:00-18:00", "Pacific/Chuuk", "2027-01-15T09:00:00", "2027-01-14T23:00:00Z", true, 0},
		"a day on which the window is closed":         {"PT", "2027-01-16T10:00:00", "Mo-Fr 09:00-18:00", "Atlantic/Azores", "2027-01-18T10:00:00", "2027-01-18T11:00:00Z", true, 0},
		"wanted in what is left of the eve":           {"PT", "2027-01-16T01:00:00", "Fr 22:00-02:00; Sa 09:00-18:00", "Atlantic/Azores", "2027-01-15T22:00:00", "2027-01-15T23:00:00Z", true, 0},
		"open in all in the second of two intervals":  {"RU", "2027-01-15T07:00:00", "06:00-08:00,10:00-21:00", "Europe/Kaliningrad", "2027-01-15T10:00:00", "2027-01-15T08:00:00Z", true, 0},
		"never open in all, with a break at noon":     {"RU", "2027-01-15T10:00:00", "09:00-12:00,13:00-18:00", "Europe/Kaliningrad", "2027-01-15T08:30:00", "2027-01-15T06:30:00Z", false, 30 * time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			all, err := calendar.ZonesOf(tt.country)
			if err != nil {
				t.Fatal(err)
			}
			got, err := calendar.InAllZones(all, wall(t, tt.wanted), window(t, tt.hours))

			want := calendar.SharedTime{Zone: zone(t, tt.zone), Wall: wall(t, tt.wall), Instant: instant(t, tt.instant), Open: tt.open, Outside: tt.outside}
			if err != nil || got != want {
				t.Errorf("%+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

func TestATimeForNoZonesIsRefused(t *testing.T) {
	t.Parallel()

	at, office := wall(t, "2027-01-15T10:00:00"), window(t, "Mo-Fr 09:00-18:00")
	oslo := []calendar.Timezone{zone(t, "Europe/Oslo")}
	_, err := calendar.InAllZones(nil, at, office)
	if want := "calendar: zones are none"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := calendar.InAllZones(oslo, calendar.WallTime{}, office); !errors.Is(err, calendar.ErrInvalidInput) {
		t.Errorf("a day that is none: %v", err)
	}
	if _, err := calendar.InAllZones(append(oslo, calendar.StoredTimezone("Asia/Nowhere")), at, office); !errors.Is(err, calendar.ErrInvalidTimezone) {
		t.Errorf("a zone without data: %v", err)
	}
	fridays := calendar.WorkCalendarOptions{Name: "X", Release: "2027-01-01", Until: calendar.Date{Year: 2028, Month: time.December, Day: 31}}
	for day := at.Date; day.Year < 2029; day = day.AddDays(7) {
		fridays.Holidays = append(fridays.Holidays, calendar.NamedDay{Date: day})
	}
	closed, err := calendar.NewWorkCalendar(fridays)
	if err != nil {
		t.Fatal(err)
	}
	_, err = calendar.InAllZones(oslo, at, window(t, "Fr 09:00-18:00").ClosedOnHolidays(closed))
	if want := "calendar: window does not open in the 400 days after 2027-01-15"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A holiday closes the window for all zones.
func TestATimeForAllZonesIsOnNoHoliday(t *testing.T) {
	t.Parallel()

	zones, err := calendar.ZonesOf("PT")
	if err != nil {
		t.Fatal(err)
	}
	hours := window(t, "09:00-18:00").ClosedOnHolidays(workCalendar(t, "PT", "2027-01-01 holiday"))
	got, err := calendar.InAllZones(zones, wall(t, "2027-01-01T12:00:00"), hours)
	if err != nil || !got.Open || got.Wall != wall(t, "2027-01-02T12:00:00") {
		t.Errorf("%+v, %v; want 12:00 on the next day", got, err)
	}
}

// step divides the offsets of zones, and the clocks of the test.
const step = 15 * time.Minute

// stepsOpen returns, for each step of four days, whether clocks in z show a time in hours of a date.
func stepsOpen(z calendar.Timezone, date calendar.Date, hours []calendar.Hours) (open []bool) {
	for at, last := firstStep(date), firstStep(date).Add(96*time.Hour); at.Before(last); at = at.Add(step) {
		shown := z.WallTime(at)
		open = append(open, slices.ContainsFunc(hours, func(h calendar.Hours) bool { return inHours(shown, date, h) }))
	}
	return open
}

// inHours reports whether a wall time is in the hours that begin on a date.
func inHours(w calendar.WallTime, date calendar.Date, h calendar.Hours) bool {
	begins, ends := calendar.WallTime{Date: date, Clock: h.From}, calendar.WallTime{Date: date, Clock: h.Until}
	if !h.From.Before(h.Until) {
		ends.Date = date.AddDays(1)
	}
	return !w.Before(begins) && w.Before(ends)
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
		wanted, hours := calendar.WallTime{Date: date, Clock: drawn()}, []calendar.Hours{{From: drawn(), Until: drawn()}}
		if random.IntN(3) == 0 {
			hours = append(hours, calendar.Hours{From: drawn(), Until: drawn()})
		}
		daily, err := calendar.NewWindow(hours...)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%v, wanted %s, %s", zones, wanted, daily)
		got, err := calendar.InAllZones(zones, wanted, daily)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got.Zone.WallTime(got.Instant) != got.Wall || !slices.Contains(zones, got.Zone) {
			t.Errorf("%s: clocks in %s do not show %s at %s", what, got.Zone, got.Wall, got.Instant)
		}
		if in := func(d calendar.Date) bool {
			return slices.ContainsFunc(hours, func(h calendar.Hours) bool { return inHours(wanted, d, h) })
		}; !in(date) && in(date.AddDays(-1)) {
			date = date.AddDays(-1)
		}
		latest := latestShowing(t, zones, wanted)
		if !slices.ContainsFunc(zones, func(z calendar.Timezone) bool {
			shown := z.WallTime(latest)
			return !slices.ContainsFunc(hours, func(h calendar.Hours) bool {
				return inHours(shown, shown.Date, h) || inHours(shown, shown.Date.AddDays(-1), h)
			})
		}) {
			if opened++; !got.Open || !got.Instant.Equal(latest) {
				t.Errorf("%s: %+v; the wanted time is open in all", what, got)
			}
			continue
		}
		best := bestSteps(zones, date, hours)
		at := int(got.Instant.Sub(firstStep(date)) / step)
		if got.Open {
			opened++
		}
		switch want := got.Instant.Equal(latest) && best.all[at]; {
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

func bestSteps(zones []calendar.Timezone, date calendar.Date, hours []calendar.Hours) best {
	var each [][]bool
	for _, z := range zones {
		each = append(each, stepsOpen(z, date, hours))
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
