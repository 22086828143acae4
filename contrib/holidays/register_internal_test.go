package holidays

import (
	"strings"
	"testing"

	"github.com/almanac-go/almanac/calendar"
)

// land is a release of a calendar with a holiday.
func land(t *testing.T, name, release, holiday string) *calendar.WorkCalendar {
	t.Helper()
	c, err := calendar.ParseWorkCalendar("name " + name + "\nrelease " + release + "\nuntil 2027-12-31\n" + holiday + " holiday\n")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheLaterReleaseIsKnown(t *testing.T) {
	t.Parallel()
	first := land(t, "DE-BY", "2026-11-01", "2026-12-28")
	s := &set{all: map[string]*calendar.WorkCalendar{"DE-BY": first}}
	check := func(want *calendar.WorkCalendar, all ...*calendar.WorkCalendar) {
		t.Helper()
		if err := s.register(all); err != nil {
			t.Error(err)
		}
		if s.all["DE-BY"] != want {
			t.Errorf("release %s is known, want %s", s.all["DE-BY"].Release(), want.Release())
		}
	}
	later := land(t, "DE-BY", "2026-11-01.1", "2026-12-29")
	check(first, land(t, "DE-BY", "2026-10-31", "2026-12-30"))
	check(first, land(t, "DE-BY", "2026-11-01", "2026-12-28"))
	check(later, later, land(t, "HU", "2026-11-01", "2026-10-23"))
	check(later, first)
	if s.all["HU"] == nil || len(s.all) != 2 {
		t.Errorf("%d calendars are known, without that of a new code", len(s.all))
	}
}

func TestTheSameReleaseWithOtherDaysIsRefused(t *testing.T) {
	t.Parallel()
	s := &set{all: map[string]*calendar.WorkCalendar{"DE-BY": land(t, "DE-BY", "2026-11-01", "2026-12-28")}}
	err := s.register([]*calendar.WorkCalendar{
		land(t, "HU", "2026-11-01", "2026-10-23"), nil, land(t, "DE-BY", "2026-11-01", "2027-12-28"), land(t, "HU", "2026-11-01", "2026-10-24"),
	})
	if err == nil {
		t.Fatal("other days are accepted")
	}
	for _, want := range []string{"calendar 1 is nil", "DE-BY, release 2026-11-01, has other days in 2026", "HU, release 2026-11-01, has other days in 2026"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if len(s.all) != 1 {
		t.Error("a calendar is registered beside an error")
	}
}
