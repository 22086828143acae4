package calendar_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// named is a calendar with other facts.
type named struct {
	calendartest.Lunar
	info calendar.SystemInfo
}

func (n named) Info() calendar.SystemInfo { return n.info }

func TestRegisterSystemsRefusesAllOrNone(t *testing.T) {
	t.Parallel()
	good := lunar.Info()
	with := func(change func(*calendar.SystemInfo)) calendar.System {
		info := good
		change(&info)
		return named{info: info}
	}
	if err := calendar.RegisterSystems(lunar, lunar); err != nil {
		t.Fatalf("the same calendar twice: %v", err)
	}
	err := calendar.RegisterSystems(with(func(i *calendar.SystemInfo) { i.Name = "never-known" }), nil,
		with(func(i *calendar.SystemInfo) { i.Release = "0" }), with(func(i *calendar.SystemInfo) { i.Name = "Upper" }),
		with(func(i *calendar.SystemInfo) { i.Name, i.Release = "release", "2026@01" }),
		with(func(i *calendar.SystemInfo) { i.Name, i.First = "first", 0 }), with(func(i *calendar.SystemInfo) { i.Name, i.Missing.Day = "day", "" }))
	const want = `calendar: calendar 1 is nil; calendar "lunar" has the name of another calendar, of release 1; ` +
		`calendar "Upper" has a name that is not 1 to 40 lower-case letters, digits and hyphens; ` +
		`calendar "release" has a release that is not at most 40 characters of ASCII without spaces, commas and @; ` +
		`calendar "first" has the years 0 to 2199, which are not within 1 to 9999; ` +
		`calendar "day" does not say what is customary where a year lacks a month or a day`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if s, err := calendar.LoadSystem("never-known"); err == nil {
		t.Errorf("%v is registered, beside calendars that were refused", s)
	}
}

// A host can correct a table before the module that has the calendar does.
func TestALaterReleaseReplacesTheKnownCalendar(t *testing.T) {
	t.Parallel()
	name := "corrected-" + strings.ToLower(rand.Text())
	release := func(text string) calendar.System {
		info := lunar.Info()
		info.Name, info.Release = name, text
		return named{info: info}
	}
	known := func() string {
		t.Helper()
		s, err := calendar.LoadSystem(name)
		if err != nil {
			t.Fatal(err)
		}
		return s.Info().Release
	}
	for _, step := range []struct {
		add  []calendar.System
		want string
		ok   bool
	}{
		{[]calendar.System{release("2026-01-01")}, "2026-01-01", true},
		{[]calendar.System{release("2026-02-01"), nil}, "2026-01-01", false},
		{[]calendar.System{release("2026-02-01"), release("2026-02-01.1")}, "2026-02-01.1", true},
		{[]calendar.System{release("2026-02-01")}, "2026-02-01.1", false},
	} {
		if err := calendar.RegisterSystems(step.add...); (err == nil) != step.ok || known() != step.want {
			t.Errorf("%v: release %s is known, want %s; %v", step.add, known(), step.want, err)
		}
	}
	info := release("2026-03-01").Info()
	first, second := &named{info: info}, &named{info: info}
	for _, s := range []calendar.System{first, second} {
		if err := calendar.RegisterSystems(s); err != nil {
			t.Fatal(err)
		}
	}
	if s, _ := calendar.LoadSystem(name); s != first {
		t.Error("a calendar of the same release replaces the known one")
	}
	if n := len(slices.DeleteFunc(calendar.SystemNames(), func(one string) bool { return one != name })); n != 1 {
		t.Errorf("the calendar is known %d times", n)
	}
	for _, text := range []string{strings.Repeat("2", 41), "2026 01", "2026,01", "2026\x00", "2026é"} {
		if err := calendar.RegisterSystems(release(text)); err == nil {
			t.Errorf("release %q cannot be stored, and is accepted", text)
		}
	}
}

func TestOccurrencesSayTheirDayByTheCalendarOfTheirUnit(t *testing.T) {
	t.Parallel()
	if err := calendar.RegisterSystems(lunar); err != nil {
		t.Fatal(err)
	}
	leap := calendar.SystemDate{Year: 2028, Month: 5, Leap: true, Day: 7}
	date, err := lunar.Date(leap)
	if err != nil {
		t.Fatal(err)
	}
	for unit, want := range map[calendar.Unit]string{"year:lunar": "7 Leap Moon 5 2028", "day:lunar": "7 Leap Moon 5 2028", "year": "", "": "", "year:unheard-of": ""} {
		o := calendar.Occurrence{Unit: unit, Wall: calendar.WallTime{Date: date}}
		if got := o.SystemDayText(); got != want {
			t.Errorf("%q: %q, want %q", unit, got, want)
		}
		if _, day, ok := o.SystemDay(); ok != (want != "") || ok && day != leap {
			t.Errorf("%q: %s %v", unit, day, ok)
		}
	}
	before := calendar.WallTime{Date: calendar.Date{Year: 1500, Month: 1, Day: 1}}
	if text := (calendar.Occurrence{Unit: "year:lunar", Wall: before}).SystemDayText(); text != "" {
		t.Errorf("a day that the calendar does not have: %s", text)
	}
	if text := (calendar.SystemDate{Month: 5, Leap: true, Day: 7}).In(lunar); text != "7 Leap Moon 5" {
		t.Errorf("without a year: %s", text)
	}
	if text := (calendar.SystemDate{Month: 13, Day: 7}).In(lunar); text != "13-07" {
		t.Errorf("no month: %s", text)
	}
}
